"""Who looks after all that is lent looks at no more than it has to."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.resources import Borrower, Factory, Level, Note, Resources, Scope, Shared
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialIds


async def test_the_end_of_a_call_looks_at_what_is_held_and_not_at_all_that_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Resources(ManualClock(), SequentialIds(), hold_warn_s=60, wait_warn_s=30)
    scope = Scope(Level.PROGRAM, "program")
    looked: list[str] = []
    notes: list[Note] = []
    here.lookout.noted_to = notes.append

    async def make() -> str:
        return "handle"

    living = [await here.create(scope, "thing", f"thing {n}", Factory(make)) for n in range(20)]
    leases = vars(Shared)["leases"].fget

    def seen(shared: Shared[Any]) -> Any:
        looked.append(shared.name)
        return leases(shared)

    monkeypatch.setattr(Shared, "leases", property(seen))
    async with living[7].borrow(Borrower(caller=("log", 3))), living[8].borrow(Borrower(caller=("log", 4))):
        here.lookout.note_left(("log", 3))
    await scope.close()
    here.shut()

    assert looked == ["thing 7", "thing 8"]
    assert [(note.what.value, note.resource) for note in notes] == [("leak", "thing 7")]

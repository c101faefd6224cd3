"""Turns that wait for a place are listed by the kernels that they wait in: nobody else knows of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.ps import ps
from agentos.kernel import Kernel
from agentos.settings import Settings
from tests.control.support import listening
from tests.support import until


async def waiting_in(kernel: Kernel, count: int) -> list[str]:
    """The ids of conversations that wait for a place, the last one first; one more has the only place there is."""
    talks = [await kernel.start("main") for _ in range(count + 1)]
    for talk in talks:
        await talk.send("go")
    await until(lambda: kernel.turns_waiting == count)
    return [talk.id for talk in reversed(talks) if kernel.state_of(talk.id) == "waiting"]


async def test_ps_lists_the_turns_that_wait_in_every_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = Settings(control_connect_s=20, control_silence_s=20)
    monkeypatch.setattr("agentos.interfaces.cli.running.Settings", lambda: patient)
    here = Invocation(store=f"sqlite:///{tmp_path}/store.db")
    async with listening(tmp_path, turns_max=1) as one, listening(tmp_path, turns_max=1) as two:
        first_ones = await waiting_in(one, 2)
        waiting = [*await waiting_in(two, 1), *first_ones]
        await ps(state="waiting", sort="started", json=True, here=here)
        all_of_them = json.loads(capsys.readouterr().out)
        await ps(state="waiting", sort="started", limit=1, json=True, here=here)
        first = json.loads(capsys.readouterr().out)
    await ps(state="waiting", here=here)

    assert [row["id"] for row in all_of_them["conversations"]] == waiting
    assert {row["state"] for row in all_of_them["conversations"]} == {"waiting"}
    assert all_of_them["more"] == 0
    assert ([row["id"] for row in first["conversations"]], first["more"]) == (waiting[:1], 2)
    assert capsys.readouterr().err == "no conversations\n"


async def test_who_waited_once_is_in_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'--state waiting' is of now alone, without --as-of"):
        await ps(state="waiting", as_of="10m ago", here=Invocation(store=f"sqlite:///{tmp_path}/store.db"))

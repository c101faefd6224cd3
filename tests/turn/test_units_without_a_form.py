"""A unit that cannot be written down is a fault of the program: who waits is told, and no turn waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.journal import seal
from agentos.kernel import passing
from tests.support import Lab, Mind, call, calls, lab

GRACE_S = 60.0


async def work() -> str:
    return "worked"


class Seal:
    """Seals units, but for one of them."""

    def __init__(self, nth: int) -> None:
        self.nth, self.asked = nth, 0
        self.real = seal

    def __call__(self, *given: Any) -> Any:
        self.asked += 1
        if self.asked == self.nth:
            raise ValueError("no form")
        return self.real(*given)


async def ends(here: Lab, nth: int, patch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """How two turns of a conversation end for who asked for them, and how many units there were."""
    conversation = await here.start()
    sealing, told = Seal(nth), list[str]()
    with patch.context() as patched:
        patched.setattr(passing, "seal", sealing)
        for text in ("go", "go on"):
            asked = asyncio.ensure_future(conversation.ask(text))
            await here.advance(GRACE_S)
            assert asked.done(), f"who asked waits for ever when unit {nth} has no form"
            told.append(str(asked.exception() or asked.result()))
    return told, sealing.asked


async def test_whichever_unit_has_no_form_who_asked_is_not_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    nth, failed = 0, 0
    while True:
        nth += 1
        others: dict[str, Any] = {"aide": (Mind(calls(call("work"))), {})}
        mind = Mind(calls(call("ask_aide", task="go")))
        async with lab(mind, [work], others=others, subagents=["aide"]) as here:
            told, units = await ends(here, nth, monkeypatch)
        if units < nth:
            break

        assert set(told) <= {"completed", "no form"}
        failed += "no form" in told

    assert nth > 8
    assert failed

"""One conversation of a chat, beside a kernel of this process."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.interfaces.cli.chat.approval import Approvals
from agentos.interfaces.cli.chat.input import Room
from agentos.interfaces.cli.chat.lines import PlainLines
from agentos.interfaces.cli.chat.screen import Form, Screen
from agentos.interfaces.cli.chat.session import Session
from agentos.interfaces.cli.chat.terminal import Terminal
from tests.support import Mind, call, calls, lab, until


async def test_a_turn_that_ended_before_it_could_be_waited_for_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with lab(Mind("Here I am.")) as here:
        lines = PlainLines()
        talk = await here.start()
        session = Session(here.kernel, Room(Terminal(lines), lines, Screen(Form.PIPE), asks=False), "main", talk)
        session.follow(talk)
        await talk.ask("go")

        await session.take_up({})
        await session.close()

    assert capsys.readouterr().out == "Here I am.\n"


class Deciding(Terminal):
    """Somebody who denies all that is asked."""

    async def read(self, prompt: str) -> str:
        return "n not today"


async def test_nobody_is_asked_again_while_an_answer_is_still_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the store is slow: the call waits on until its answer is stored."""
    given: list[str] = []

    async def send(request: str, verdict: object, **more: Any) -> bool:
        given.append(request)
        return True

    async def work() -> str:
        return "worked"

    options: dict[str, Any] = {"policy": [{"tool": "work", "verdict": "ask"}], "approval": "park"}
    async with lab(Mind(calls(call("work"))), [work], **options) as here:
        talk = await here.start()
        approvals = Approvals(here.kernel, Deciding(PlainLines()), Screen(Form.PIPE))
        await talk.send("go")
        await until(lambda: approvals.waiting(talk.id))
        (asked,) = approvals.waiting(talk.id)
        monkeypatch.setattr(here.kernel, "answer", send)
        await approvals.ask(asked)

        assert given == [asked]
        assert approvals.waiting(talk.id) == []

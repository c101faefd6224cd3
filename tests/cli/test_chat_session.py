"""One conversation of a chat, beside a kernel of this process."""

from __future__ import annotations

import pytest

from agentos.interfaces.cli.chat.input import Room
from agentos.interfaces.cli.chat.lines import PlainLines
from agentos.interfaces.cli.chat.screen import Form, Screen
from agentos.interfaces.cli.chat.session import Session
from agentos.interfaces.cli.chat.terminal import Terminal
from tests.support import Mind, lab


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

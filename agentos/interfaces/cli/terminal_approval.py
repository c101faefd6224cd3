"""Asks whoever sits at the terminal about one call after the other, in a command that is no chat.

Nothing that a model says can put such a question, or answer it: arguments are one line of escaped JSON each, and what was
typed before the question is dropped.
"""

from __future__ import annotations

import asyncio
import sys
import termios
from typing import ClassVar

from agentos.components import ApprovalMode, Verdict
from agentos.interfaces.cli.chat.approval import arguments_shown, meant
from agentos.interfaces.cli.output import say
from agentos.ports import ApprovalRequest

HELP = "y allows this call once; n denies it"


class TerminalApproval:
    """Implements `ports.Approval`. The end of the input denies what is asked."""

    mode: ClassVar[ApprovalMode] = ApprovalMode.PARK

    def __init__(self) -> None:
        self._asking = asyncio.Lock()

    async def decide(self, request: ApprovalRequest) -> Verdict | None:
        async with self._asking:
            said = "\n".join(f"    {line}" for line in arguments_shown(request.arguments))
            say(f"{request.call} wants to run {request.tool}, which is not in the record:\n{said}")
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            while True:
                say(f"allow {request.tool}? [y/n]")
                line = await _line()
                verdict = Verdict.DENY if not line else meant(line)[0]
                if verdict is not None:
                    return verdict
                say(HELP)


async def _line() -> str:
    """The next line, empty at the end of the input. No thread waits for it, so that Ctrl-C ends the waiting."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return sys.stdin.readline()

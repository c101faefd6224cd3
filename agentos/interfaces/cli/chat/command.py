"""chat: talks to an agent, message by message, in one conversation of the store."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from agentos.errors import AgentosError
from agentos.interfaces.cli.chat.begin import Begun, find_begun, listening
from agentos.interfaces.cli.chat.commands import ChatCommands, Switch, is_command
from agentos.interfaces.cli.chat.input import Leave, Room
from agentos.interfaces.cli.chat.lines import lines_of
from agentos.interfaces.cli.chat.screen import Screen, form_of
from agentos.interfaces.cli.chat.session import Parked, Session
from agentos.interfaces.cli.chat.terminal import Terminal
from agentos.interfaces.cli.errors import Exit, sentence
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.live import LiveLine
from agentos.interfaces.cli.output import cell, clipped, is_terminal, terminal_width
from agentos.interfaces.cli.tenant import Tenant, check_tenant
from agentos.interfaces.cli.workplace import Selection, Workplace, opened
from agentos.kernel import Kernel


def chat(
    conversation: str | None = None,
    /,
    *,
    selection: Selection | None = None,
    resume: Annotated[
        Flag, Parameter(name=["--continue", "-c", "--resume"], help="go on with the last conversation")
    ] = False,
    tenant: Tenant = None,
    plain: Annotated[Flag, Parameter(help="print each answer when it is whole, and edit no lines")] = False,
    here: Here,
) -> int:
    """Talk to an agent: answers as they come, a line for each call of a tool, approvals in place.

    Ctrl-C stops the turn and keeps what was said; a second one leaves, as Ctrl-D does. The conversation stays in the store:
    'agentos chat ID' goes on with it, and takes up a turn that is open still. /help lists commands. Lines of a pipe are
    messages; then answers alone stand on stdout, and the exit code is that of the first turn that did not end well.

    Parameters
    ----------
    conversation
        go on with this one, by its id or a part of it
    tenant
        on whose account the conversations of this chat are begun: a name
    """
    check_tenant(tenant, begins=conversation is None and not resume)
    work = Workplace.of(here, selection or Selection())
    lines, screen = lines_of(plain=plain), Screen(form_of(plain=plain))
    room = Room(Terminal(lines), lines, screen, asks=is_terminal(sys.stdin))
    if room.asks:
        work = listening(work)
    return room.terminal.run(lambda: _chat(work, room, conversation, tenant, last=resume))


class _Ended(NamedTuple):
    """How a session ended; agent is the one to go on with, None when the chat is over."""

    code: int
    agent: str | None = None


async def _chat(work: Workplace, room: Room, conversation: str | None, tenant: str | None, *, last: bool) -> int:
    """One kernel after the other: another agent may need toolboxes that are not open yet."""
    begun = await find_begun(work.url, conversation) if conversation is not None or last else None
    agent = begun.agent if begun is not None else work.pick()
    tenant = begun.tenant if begun is not None else tenant
    former: str | None = None
    code = int(Exit.OK)
    while True:
        async with AsyncExitStack() as stack:
            try:
                kernel = await stack.enter_async_context(opened(work, agent))
            except AgentosError as error:
                if former is None:
                    raise
                room.screen.line(f"error: {sentence(error)}")
                agent, former = former, None
                continue
            ended = await _session(work, kernel, room, agent, begun, tenant)
        code = code or ended.code
        if ended.agent is None:
            return Exit.OK if room.asks else code
        agent, former, begun = ended.agent, agent, None


async def _session(
    work: Workplace, kernel: Kernel, room: Room, agent: str, begun: Begun | None, tenant: str | None
) -> _Ended:
    session = Session(kernel, room, agent, await kernel.get(begun.id) if begun is not None else None, tenant=tenant)
    async with LiveLine(session.progress) as live:
        room.screen.live = live
        try:
            if begun is not None:
                await _take_up(session, begun)
            agent = await _talk(session, ChatCommands(session, work.agents))
            return _Ended(session.code, agent)
        except Leave as leave:
            return _Ended(leave.code or session.code)
        except Parked:
            _tell_requests(session)
            return _Ended(session.code or Exit.REFUSED)
        finally:
            await session.close()
            _tell_how_to_go_on(session)
            room.screen.live = None


async def _take_up(session: Session, begun: Begun) -> None:
    """Shows the last messages, and goes on with the turn that was left open."""
    for role, text in begun.messages:
        if role == "user":
            session.screen.line(clipped(cell(f"{begun.agent}> {text}"), terminal_width() - 1), faint=True)
        else:
            session.screen.foreign(text)
    assert session.talk is not None, "the session was made with it"
    session.follow(session.talk, begun.seqs[begun.id])
    resumed = await session.kernel.recover(list(begun.seqs))
    if any(talk.id == session.talk.id for talk in resumed):  # else it is idle, or another process works on it
        await session.take_up(begun.seqs)


async def _talk(session: Session, commands: ChatCommands) -> str:
    """Messages and commands, until the chat goes on with an agent that is not installed here. Raises Leave, Parked."""
    if session.room.asks:
        session.screen.line("/help lists commands", faint=True)
    while True:
        text = await session.message()
        try:
            await (commands.run(text) if is_command(text) else session.say(text))
        except Switch as switch:
            if switch.agent not in session.kernel.catalog.agents:
                return switch.agent
            _tell_how_to_go_on(session)
            await session.begin_anew(switch.agent)


def _tell_requests(session: Session) -> None:
    assert session.talk is not None, "only a turn has requests"
    for call in session.waiting():
        session.screen.line(
            f"waiting for approval: agentos answer {call} allow|deny, then agentos chat {session.talk.id}"
        )


def _tell_how_to_go_on(session: Session) -> None:
    if session.talk is not None:
        session.screen.line(f"go on with: agentos chat {session.talk.id}")

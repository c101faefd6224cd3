"""The commands of a chat: words that begin with a slash, and are for this program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from agentos.definitions import AgentSpec
from agentos.errors import AgentosError, UnknownAgent
from agentos.history import lineage_of, render_tree
from agentos.ids import agent_id
from agentos.interfaces.cli.chat.input import Leave
from agentos.interfaces.cli.chat.session import Session
from agentos.interfaces.cli.errors import hint, sentence
from agentos.interfaces.cli.output import cell, clipped, counted, table, terminal_width

_USAGE = """
select agent, count(*), sum(turns), sum(steps), sum(calls), sum(input_tokens), sum(output_tokens)
from conversations where root = (select root from conversations where id = ?) group by agent order by agent
"""
USAGE_COLUMNS = ("agent", "conversations", "turns", "steps", "calls", "input_tokens", "output_tokens")


class Switch(Exception):
    """The chat goes on with a new conversation of this agent."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(agent)


class _Command(NamedTuple):
    help: str
    run: Callable[[ChatCommands, str], Awaitable[None]]


class ChatCommands:
    """Runs commands for a session. agents are all that may be chosen, by slug."""

    def __init__(self, session: Session, agents: Mapping[str, AgentSpec]) -> None:
        self._session, self._agents = session, agents

    async def run(self, text: str) -> None:
        """Raises Leave, Switch. What a command cannot do is shown."""
        word, _, rest = text.strip().partition(" ")
        command = _COMMANDS.get(word)
        if command is None:
            near = hint(word, _COMMANDS)
            self._line(
                f"there is no {cell(word)[:80]}{near or '.'} /help lists what there is; a space before / sends it"
            )
            return
        try:
            await command.run(self, rest.strip())
        except AgentosError as error:
            self._line(f"error: {sentence(error)}")

    async def _help(self, rest: str) -> None:
        for name, command in _COMMANDS.items():
            self._line(f"{name:<13} {command.help}")
        self._line('A line that ends with \\ goes on in the next one; """ begins and ends a block of lines.')
        self._line("Ctrl-C stops a turn, and a second one leaves; so does Ctrl-D.")

    async def _new(self, rest: str) -> None:
        raise Switch(self._session.agent)

    async def _list_agents(self, rest: str) -> None:
        for slug, spec in sorted(self._agents.items()):
            mark = "*" if slug == self._session.agent else " "
            self._line(clipped(cell(f"{mark} {slug}  {spec.announce}".rstrip()), terminal_width() - 1))

    async def _agent(self, rest: str) -> None:
        if rest not in self._agents:
            raise UnknownAgent(rest[:80], sorted(self._agents))
        raise Switch(rest)

    async def _tools(self, rest: str) -> None:
        catalog = self._session.kernel.catalog
        context = catalog.pinned(catalog.current(agent_id(self._session.agent), 0))
        for tool in context.tools:
            first = next(iter(tool.description.splitlines()), "")
            self._line(clipped(cell(f"{tool.name}  {first}".rstrip()), terminal_width() - 1))
        if not context.tools:
            self._line("no tools")

    async def _show(self, rest: str) -> None:
        if self._session.talk is None:
            self._line("nothing was said yet")
            return
        self._line(render_tree(await lineage_of(self._session.kernel.store, self._session.talk.id)))

    async def _usage(self, rest: str) -> None:
        if self._session.talk is None:
            self._line("nothing was said yet")
            return
        rows = (await self._session.kernel.query(_USAGE, (self._session.talk.id,))).rows
        for line in table(USAGE_COLUMNS, rows):
            self._line(line)
        self._line(f"{counted(sum(int(row[-2]) + int(row[-1]) for row in rows), 'token')} in all")

    async def _quit(self, rest: str) -> None:
        raise Leave

    def _line(self, text: str) -> None:
        self._session.screen.line(text)


_COMMANDS: Mapping[str, _Command] = {
    "/help": _Command("list these commands", ChatCommands._help),
    "/new": _Command("begin a new conversation with this agent", ChatCommands._new),
    "/agents": _Command("list the agents", ChatCommands._list_agents),
    "/agent": _Command("SLUG: begin a new conversation with another agent", ChatCommands._agent),
    "/tools": _Command("list the tools of this agent", ChatCommands._tools),
    "/show": _Command("show the tree of turns, calls and subagents", ChatCommands._show),
    "/usage": _Command("count turns, calls and tokens of this conversation and its subagents", ChatCommands._usage),
    "/quit": _Command("leave; the conversation stays", ChatCommands._quit),
}


def is_command(text: str) -> bool:
    """Whether this is for the program, and not for the agent."""
    return text.startswith("/") and "\n" not in text

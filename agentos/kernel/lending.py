"""What the calls of a kernel borrow: found by name in the scopes around a call, and told of with agents and turns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from agentos.components import ConversationConfig
from agentos.errors import ResourceNotFound, ResourceScopeInvalid
from agentos.events.intake import Item, ResourceNote
from agentos.ids import CONVERSATION, LogId, Name, call_id, name_of
from agentos.kernel.services import LiveServices
from agentos.resources import Borrower, Level, Note, ResourceKind, Resources, Scope, Shared
from agentos.resources.account import Account
from agentos.toolboxes.base import kinds_of
from agentos.world import World

_log = logging.getLogger(__name__)


class LiveLending:
    """Implements what runners and passes ask of resources, over one kernel's World and scopes.

    toolbox_scope gives the scope of an open toolbox, and renew_toolbox has one begin anew what it keeps of its own; who
    knows both is made later.
    """

    def __init__(
        self,
        world: World,
        services: LiveServices,
        resources: Resources,
        program: Scope,
        report: Callable[[LogId, Item], None],
    ) -> None:
        self._world, self._services, self._program, self._report = world, services, program, report
        self.resources = resources
        self.toolbox_scope: Callable[[Name], Scope | None] = lambda name: None
        self.account_of: Callable[[LogId, int, int], Account] | None = None
        self.renew_toolbox: Callable[[Name], Awaitable[int]] = _nothing_renewed
        lookout = resources.lookout
        lookout.above, lookout.named, lookout.noted_to = services.waiting.above, services.waiting.named, self._noted

    def borrower(self, log: LogId, turn: int, call: int) -> Borrower:
        return Borrower(self._services.lineage(log, turn, call).frames, (log, call))

    def find(self, log: LogId, turn: int, call: int, name: str) -> Shared[Any]:
        """The resource of this name in the scopes of the call and around it, then in those of the toolboxes that its agent
        uses, its own first. Raises ResourceNotFound."""
        found = self.resources.find(name, *self._scopes(log, turn, call))
        agent = self._program.find(Level.AGENT, self._slug(log))
        if agent is not None and found.scope == "/".join(agent.path):
            self._keep_agent(log, turn, call)
        return found

    def declared(self, log: LogId, call: int, name: str) -> ResourceKind | None:
        """The kind that the toolbox of a call declares under this name."""
        toolbox = self._services.toolbox(self._services.call(log, call)[0].toolbox)
        return kinds_of(toolbox).get(name) if toolbox is not None else None

    def scope_of(self, log: LogId, turn: int, call: int, kind: str | ResourceKind, level: Level | None) -> Scope:
        """The scope around a call in which a resource of this kind would live. Raises ResourceNotFound for an unknown kind;
        ResourceScopeInvalid when the toolbox is not open."""
        known = kind if isinstance(kind, ResourceKind) else self.resources.kind(kind)
        return self._scope(log, turn, call, known.level if level is None else level)

    async def ensure(
        self, scope: Scope, kind: str | ResourceKind, name: str, options: Mapping[str, Any]
    ) -> Shared[Any]:
        return await self.resources.ensure(scope, kind, name, options)

    def ended(self, log: LogId, call: int) -> None:
        self.resources.lookout.note_left((log, call))

    async def release(self, name: str) -> int:
        """Gives back what was lent to a conversation (its id), an agent, a toolbox (their names) or the `program`; what is
        inside a conversation or an agent too. All of these go on. Says how many things there were.

        Errors: ResourceNotFound when nothing of the name has a scope; ReleaseFailed.
        """
        if name == self._program.path[0]:
            return await self.resources.release(self._program)
        for agent in self._program.children:
            conversation = agent.find(Level.CONVERSATION, name)
            if conversation is not None:
                return await _closed(conversation)
        found = self._program.find(Level.AGENT, name)
        if found is not None:
            inside = [scope for scope in found.children if scope.level is Level.CONVERSATION]
            return sum([await _closed(scope) for scope in inside]) + await self.resources.release(found)
        toolbox = self.toolbox_scope(Name(name))
        if toolbox is None:
            raise ResourceNotFound(name, "scopes", [scope.path[-1] for scope in self._program.children])
        return await self.resources.release(toolbox) + await self.renew_toolbox(Name(name))

    def _scopes(self, log: LogId, turn: int, call: int) -> Iterator[Scope]:
        """The innermost open scope around a call, then those of the toolboxes."""
        slug = self._slug(log)
        agent = self._program.find(Level.AGENT, slug)
        conversation = self._services.scope_of(log, slug)
        inner = self._services.scope_of(log, slug, turn) if conversation is not None else None
        if inner is not None:
            inner = inner.find(Level.CALL, call_id(log, call)) or inner
        yield inner or conversation or agent or self._program
        for toolbox in self._toolboxes(log, turn, call):
            scope = self.toolbox_scope(toolbox)
            if scope is not None:
                yield scope

    def _toolboxes(self, log: LogId, turn: int, call: int) -> list[Name]:
        config, _ = self._services.call(log, call)
        context = self._services.turn_context(log, turn)
        names = [config.toolbox, *(tool.toolbox for tool in (*context.tools, *context.hidden))]
        return list(dict.fromkeys(name for name in names if name is not None))

    def _scope(self, log: LogId, turn: int, call: int, level: Level) -> Scope:
        """The scope of a level around a call; made when there is none, but for that of a toolbox."""
        if level is Level.TOOLBOX:
            toolbox = self._services.call(log, call)[0].toolbox
            scope = self.toolbox_scope(toolbox) if toolbox is not None else None
            if scope is None:
                raise ResourceScopeInvalid("-", f"toolbox {toolbox}", "it is not open")
            return scope
        if level is Level.AGENT:
            self._keep_agent(log, turn, call)
        return self._services.scope_around(log, turn, call, level)

    def _keep_agent(self, log: LogId, turn: int, call: int) -> None:
        """Has the scope of an agent that is removed meanwhile end with this turn: it ends with the last one inside."""
        self._services.scope_around(log, turn, call, Level.TURN)

    def _noted(self, note: Note) -> None:
        """An entry of the conversation that holds or waits; of the program, a line for whoever reads these."""
        if note.by.caller is None:
            _log.warning("resource %s %s: %s after %d ms", note.kind, note.resource, note.what.value, note.ms)
            return
        log, call = note.by.caller
        item = ResourceNote(
            call=call,
            what=note.what,
            resource=name_of(note.resource),
            of=name_of(note.kind),
            ms=note.ms,
            cycle=note.cycle,
        )
        self._report(LogId(log), item)

    def _slug(self, log: LogId) -> Name:
        slice_ = self._world.slice(log)
        config = slice_.get(CONVERSATION, ConversationConfig) if slice_ is not None else None
        return config.slug if config is not None else Name("-")


async def _nothing_renewed(toolbox: Name) -> int:
    """No toolbox is open."""
    return 0


async def _closed(scope: Scope) -> int:
    count = scope.open
    await scope.close()
    return count

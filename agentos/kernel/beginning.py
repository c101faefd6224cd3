"""The beginning of a conversation: its first unit, which exactly one of those who begin it at a time gets stored."""

from __future__ import annotations

import asyncio

from agentos.errors import InputRefused
from agentos.events.intake import Start
from agentos.ids import ConversationId, IdSource, Kind, LogId, Name, agent_id, hashed_id, is_name, name_of
from agentos.kernel.logs import Logs
from agentos.kernel.tick import Ticker
from agentos.kernel.waiters import beginning_of
from agentos.persistence.base import Store
from agentos.settings import Settings


class Beginning:
    """Begins conversations that no call began."""

    def __init__(self, store: Store, ticker: Ticker, logs: Logs, ids: IdSource, settings: Settings) -> None:
        self._store, self._ticker, self._logs = store, ticker, logs
        self._ids, self._children_max = ids, settings.children_max

    async def begin(self, agent: Name, key: str | None, tenant: Name | None) -> ConversationId:
        """A conversation of an installed agent, stored when this returns. The same key gives the same id, but for each
        tenant another one."""
        parts = (agent,) if tenant is None else (tenant, agent)
        id_ = ConversationId(
            hashed_id(Kind.CONVERSATION, *parts, key) if key is not None else self._ids.new(Kind.CONVERSATION)
        )
        if key is not None and await self._has_begun(LogId(id_)):
            return id_
        item = Start(
            agent=agent_id(agent),
            slug=agent,
            root=id_,
            children_budget=self._children_max,
            key=name_of(key) if key is not None else None,
            tenant=tenant,
        )
        loaded = self._logs.begin(LogId(id_), item)
        begun = beginning_of(loaded)
        self._ticker.feed(loaded, item)
        await asyncio.shield(begun)
        self._logs.eviction.evict()
        return id_

    async def _has_begun(self, log: LogId) -> bool:
        """Whether the conversation is stored. One that is being begun is waited for, also when who began it was told that
        the store is out of reach: what became of it is not known yet, and it is begun again if it must be."""
        loaded = self._ticker.loaded.get(log)
        if loaded is None:
            return await self._store.log(log) is not None
        if loaded.begun is not None or (loaded.head.new and loaded.flying):
            await asyncio.shield(beginning_of(loaded))
            return True
        return not loaded.head.new


def tenant_of(text: str | None) -> Name | None:
    """The tenant that somebody names, or none. Raises InputRefused as `tenant_named`."""
    return tenant_named(text) if text is not None else None


def tenant_named(text: str) -> Name:
    """Raises InputRefused for what is no name: it is none's text, and kept in the open."""
    if is_name(text):
        return Name(text)
    instead = f", such as {name_of(text)!r}" if text else "; without one, leave it out"
    raise InputRefused(f"tenant {text[:80]!r} is no name (letters, digits and _.:/@+-, at most 128){instead}")

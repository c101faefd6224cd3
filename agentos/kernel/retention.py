"""How long conversations are kept: the rule of an agent, and the sweep that erases what has had its time.

The rule is that of the agent as this kernel knows it; where it does not, that of the version which the last turn of the
conversation pinned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from agentos.codec import decode_json
from agentos.definitions import AgentSpec
from agentos.ids import LogId, Name
from agentos.kernel.catalog import Catalog
from agentos.persistence.base import Store

PAGE_CONVERSATIONS = 500
_KNOWN_MAX = 1_000

_RESTING = """
select conversations.id, conversations.agent, conversations.updated_at, conversations.n,
    (select turns.context from turns where turns.n = conversations.n order by turns.seq desc limit 1)
from conversations join logs on logs.n = conversations.n
where (conversations.updated_at, conversations.n) > (?, ?) and conversations.updated_at <= ?
    and conversations.state in ('idle', 'closed') and logs.parent_call is null and logs.erased_at is null
order by conversations.updated_at, conversations.n limit ?
"""
_LAST_CONTEXT = """
select (select turns.context from turns where turns.n = logs.n and turns.seq <= ? order by turns.seq desc limit 1),
    logs.forked_from, logs.upto
from logs where logs.id = ?
"""
_SEQ_MAX = 2**63 - 1
_BEGIN = (-1, -1)


class RetentionRule(NamedTuple):
    """keep_s: nothing is erased before; erase_after_s: it is erased then. Both in seconds since the last entry, None for no
    such time."""

    keep_s: float | None = None
    erase_after_s: float | None = None


class Rested(NamedTuple):
    """A conversation at rest that no call began: when it was last updated, in microseconds, UTC, its number in the store,
    and what its own last turn pinned."""

    log: LogId
    agent: Name
    updated_at: int
    n: int
    context: str | None


class Rules:
    """The rules in force."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store, self._catalog = store, catalog
        self._pinned: dict[str, RetentionRule] = {}
        self._told: dict[Name, RetentionRule] = {}

    def tell(self, spec: AgentSpec) -> None:
        """The rule of an agent that is not in force here, for who erases without running agents."""
        self._told[Name(spec.slug)] = rule_of(spec)

    async def of(self, agent: Name, log: LogId, context: str | None = None) -> RetentionRule:
        """The rule for a conversation of this agent; context is what its last turn pinned, where that is known. Raises
        StoreError."""
        spec = self._catalog.agents.get(agent)
        if spec is not None:
            return rule_of(spec)
        if agent in self._told:
            return self._told[agent]
        context = context or await self._last_context(log)
        return await self._of_context(context) if context is not None else RetentionRule()

    async def _last_context(self, log: LogId) -> str | None:
        """What the last turn pinned; a fork without a turn of its own has that of the log that it shares."""
        at, upto = log, _SEQ_MAX
        while True:
            rows = (await self._store.query(_LAST_CONTEXT, (upto, at))).rows
            context, above, shared = rows[0] if rows else (None, None, 0)
            if context is not None or above is None:
                return str(context) if context is not None else None
            at, upto = LogId(above), min(upto, shared)

    async def _of_context(self, context: str) -> RetentionRule:
        found = self._pinned.get(context)
        if found is None:
            if len(self._pinned) >= _KNOWN_MAX:
                self._pinned.clear()
            found = self._pinned[context] = _rule(await self._read(context))
        return found

    async def _read(self, context: str) -> Mapping[str, float | None] | None:
        """From the stored definitions. A context that is gone, or pins no definition, has no rule."""
        stored = await self._store.definition(context)
        named = decode_json(stored[1]).get("definition") if stored is not None else None
        spec = await self._store.definition(named) if named else None
        return decode_json(spec[1]).get("retention") if spec is not None else None


class Sweep:
    """Looks for what has expired, the least recently updated first. With looked_at_max, only so many conversations at a
    time, and the next look goes on where this one ended."""

    def __init__(self, store: Store, rules: Rules, looked_at_max: int | None = None) -> None:
        self._store, self._rules, self._looked_at_max = store, rules, looked_at_max
        self._after = _BEGIN

    @property
    def is_through(self) -> bool:
        """Whether the next look begins with the least recently updated again."""
        return self._after == _BEGIN

    async def expired(self, now: int) -> AsyncIterator[Rested]:
        """Raises StoreError."""
        looked_at = 0
        while self._looked_at_max is None or looked_at < self._looked_at_max:
            rows = (await self._store.query(_RESTING, (*self._after, now, PAGE_CONVERSATIONS))).rows
            for row in map(Rested._make, rows):
                self._after = (row.updated_at, row.n)
                if has_expired(await self._rules.of(row.agent, row.log, row.context), row.updated_at, now):
                    yield row
            looked_at += len(rows)
            if len(rows) < PAGE_CONVERSATIONS:
                self._after = _BEGIN
                return


def has_expired(rule: RetentionRule, updated_at: int, now: int) -> bool:
    """Times in microseconds, UTC."""
    return rule.erase_after_s is not None and updated_at + round(rule.erase_after_s * 1e6) <= now


def rule_of(spec: AgentSpec) -> RetentionRule:
    given = spec.retention
    return RetentionRule(given.keep_s, given.erase_after_s) if given is not None else RetentionRule()


def _rule(given: Mapping[str, float | None] | None) -> RetentionRule:
    return RetentionRule(given.get("keep_s"), given.get("erase_after_s")) if given else RetentionRule()

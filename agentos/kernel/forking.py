"""Forks: a log of its own that begins with what another one had come to at the end of a unit, and shares those entries.

A fork is one row and one unit, however long the conversation is: the shared entries stay the parent's. They are only read,
so the parent may be at work meanwhile, here or in another process. The unit is decided by the same systems as any other,
and a turn that is open in it is held: nothing runs before somebody takes the fork up, as after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentos.components import (
    OPEN_STATUSES,
    AgentContext,
    CallConfig,
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    Narrowing,
    TurnConfig,
    TurnState,
)
from agentos.errors import ConversationErased, ForkRefused, StoreUnavailable, UnknownConversation
from agentos.events.entry import Registry
from agentos.events.intake import Branch, Given, Resume, Wake, WakeReason
from agentos.ids import (
    CONVERSATION,
    AgentId,
    ConversationId,
    Digest,
    IdSource,
    Kind,
    LogId,
    Name,
    SaltSource,
    agent_id,
    call_id,
    log_and_seq,
)
from agentos.journal import Folded, Head, decode_units, load_log, seal
from agentos.kernel.catalog import Catalog
from agentos.kernel.fork_place import Place, ends_of, holder_of, place_of
from agentos.kernel.logs import Logs
from agentos.kernel.recovery import Recovery
from agentos.kernel.tick import Ticker
from agentos.persistence.base import LogRow, Store, Verdict
from agentos.settings import Settings
from agentos.systems import Schedule, run_pass
from agentos.world import Slice, View

NO_SNAPSHOT = 2**62
"""The first unit of a fork takes none, so that its size does not depend on where it begins."""


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A fork that is stored: its id, the log whose entries it shares up to upto, and whether a turn is open in it."""

    id: ConversationId
    parent: LogId
    upto: int
    turn: int = 0


class Origin(msgspec.Struct, frozen=True):
    """The agent of the conversation whose entry a fork goes on from, and whether that is a fork."""

    agent: Name
    is_fork: bool


class Forking:
    """Begins forks, and takes them up."""

    def __init__(
        self,
        store: Store,
        ticker: Ticker,
        logs: Logs,
        catalog: Catalog,
        recovery: Recovery,
        registry: Registry,
        schedule: Schedule,
        ids: IdSource,
        salts: SaltSource,
        settings: Settings,
    ) -> None:
        self._store, self._ticker, self._logs, self._catalog = store, ticker, logs, catalog
        self._recovery, self._registry, self._schedule = recovery, registry, schedule
        self._ids, self._salts, self._settings = ids, salts, settings

    async def fork(self, log: LogId, at: int | None, replaced: Mapping[str, str], agent: Name | None = None) -> Forked:
        """Stores a fork; replaced are results that are given to open calls by their id, agent another one than it has.

        Errors: UnknownConversation, ForkRefused, StoreDamaged, StoreUnavailable.
        """
        row = await self._store.log(log)
        if row is None or row.kind != Kind.CONVERSATION.value:
            raise UnknownConversation(log)
        if row.erased_at is not None:
            raise ConversationErased(log, row.erased_at)
        results = {await self._seq_of(row, call): text for call, text in replaced.items()}
        place = await place_of(self._store, row, at, tuple(results))
        folded = await load_log(self._store, log, self._registry, upto=place.upto)
        id_ = ConversationId(self._ids.new(Kind.CONVERSATION))
        given = await self._given(row, folded, results)
        branch = await self._branch(id_, log, folded, agent, given)
        turn = await self._begin(folded, branch, place)
        return Forked(id=id_, parent=place.log, upto=place.upto, turn=turn)

    async def origin_of(self, log: LogId, at: int | None) -> Origin:
        """Whose entry a fork at this seq would go on from, None at the end. Raises UnknownConversation, StoreDamaged."""
        row = await self._store.log(log)
        if row is None:
            raise UnknownConversation(log)
        holder = await holder_of(self._store, row, at if at is not None else row.seq)
        sql = "select agent from conversations where id = ?"
        ((slug,),) = (await self._store.query(sql, (holder.id,))).rows
        return Origin(Name(slug), holder.forked_from is not None)

    async def _seq_of(self, row: LogRow, call: str) -> int:
        """A call of the log, or of one that it shares entries with. Raises ForkRefused."""
        try:
            log, seq = log_and_seq(call)
        except ValueError as error:
            raise ForkRefused(
                row.id, f"{call[:80]!r} is no call's id; 'agentos lineage' shows those that it has"
            ) from error
        known: LogRow | None = row
        while known is not None and known.id != log:
            if known.forked_from is None or seq > known.upto:
                raise ForkRefused(row.id, f"{call} is a call of {log}, which is to be forked for that")
            known = await self._store.log(known.forked_from)
        return seq

    async def run(self, log: LogId, turn: int) -> None:
        """Takes a fork up; turn is the one that is held in it, 0 for none."""
        await self._recovery.recover({log})
        loaded = self._ticker.loaded.get(log)
        if loaded is not None and (WakeReason.RETRY.value, turn, 0) in loaded.alarms:
            self._ticker.feed(loaded, Wake(reason=WakeReason.RETRY, turn=turn))

    async def _given(self, row: LogRow, folded: Folded, results: Mapping[int, str]) -> tuple[Given, ...]:
        """The results that are given; with these also how the other calls under way ended in the parent: they did so without
        having seen what is given."""
        if not results:
            return ()
        for call in results:
            _check_open(row.id, folded, call)
        others = [call for call in _under_way(folded) if call not in results]
        ends = await ends_of(self._store, row, folded.seq, others)
        given = [Given(call=call, text=text) for call, text in results.items()]
        given += [
            Given(call=call, text=end.result, replaced=False, status=end.data.status, kind=end.data.call_kind)
            for call, end in ends.items()
            if isinstance(end.result, str)
        ]
        return tuple(sorted(given, key=lambda end: end.call))

    async def _branch(
        self, id_: ConversationId, log: LogId, folded: Folded, agent: Name | None, given: tuple[Given, ...]
    ) -> Branch:
        config = folded.slice.get(CONVERSATION, ConversationConfig)
        assert config is not None, "a conversation begins with its configuration"
        slug = agent if agent is not None else config.slug
        asked = agent_id(slug) if agent is not None else config.agent
        pinned = None
        if (turn := _open_turn(folded)) is not None:
            await self._logs.stored.know(turn.context)
            pinned = turn.context
            if agent is not None:
                pinned = self._catalog.current(asked, config.depth, await self._narrowings(log, turn))
        return Branch(root=id_, agent=asked, slug=slug, context=pinned, given=given)

    async def _narrowings(self, log: LogId, turn: TurnConfig) -> tuple[Narrowing, ...]:
        """What the delegations that the turn has taken leave of its agent's tools."""
        found = []
        for seq in turn.inputs:
            for unit in decode_units(log, await self._store.entries(log, seq - 1, seq), self._registry):
                states = [value for entry in unit for _, value in entry.changes if isinstance(value, ConversationState)]
                found += [waiting.narrowing for state in states for waiting in state.waiting if waiting.seq == seq]
        return tuple(narrowing for narrowing in found if narrowing is not None)

    async def _begin(self, folded: Folded, branch: Branch, place: Place) -> int:
        """Decides and stores the first unit; gives the turn that is open after it."""
        view = self._decided(folded, branch)
        unit = seal(
            view, self._head(folded, branch, place), self._ticker.writer, folded.times, self._salts, NO_SNAPSHOT
        ).unit
        if not view.turn:
            unit.wakeups = ()  # it ended in this unit
        context = branch.context
        if context is not None and context not in self._catalog.stored:
            unit.definitions = self._catalog.definitions(context)
        if await self._ticker.administer(unit) is not Verdict.STORED:
            raise StoreUnavailable(self._store.url, f"the fork {branch.root} is not stored; fork again")
        if context is not None and unit.definitions:
            self._catalog.are_stored(context)
        return view.turn

    def _decided(self, folded: Folded, branch: Branch) -> View:
        """The pass that begins the fork, over what its parent had come to. Raises SystemRaised."""
        slice_ = Slice(LogId(branch.root))
        slice_.rows, slice_.bodies, slice_.transcript = folded.slice.rows, folded.slice.bodies, folded.slice.transcript
        view = View(slice_, folded.seq, self._ticker.now(), [Resume(fork=True, branch=branch)], _Alone(self._catalog))
        for failure in run_pass(view, self._schedule, self._settings.pass_decisions_max):
            if not isinstance(failure.error.error, _NoTurnHere):
                raise failure.error
        return view

    def _head(self, folded: Folded, branch: Branch, place: Place) -> Head:
        config = folded.slice.get(CONVERSATION, ConversationConfig)
        row = LogRow(
            id=LogId(branch.root),
            kind=Kind.CONVERSATION.value,
            owner=self._ticker.writer,
            epoch=1,
            seq=folded.seq,
            digest=folded.digest,
            root=branch.root,
            tenant=config.tenant if config is not None else None,
            forked_from=place.log,
            upto=folded.seq,
        )
        return Head(row=row, snapshot=folded.snapshot, new=True)


class _NoTurnHere(LookupError):
    """In the first unit of a fork no turn begins: inputs that wait are taken when it is run."""


class _Alone:
    """Nothing is asked of the live side before a fork is run."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return False

    def deadlock(self, view: View, call: int) -> None:
        return None

    def begins(self, view: View) -> bool:
        return True

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        raise _NoTurnHere("a fork begins no turn before it is run")

    def pinned(self, digest: Digest) -> AgentContext:
        return self._catalog.pinned(digest)


def _open_turn(folded: Folded) -> TurnConfig | None:
    state = folded.slice.get(CONVERSATION, ConversationState)
    return folded.slice.get(state.open_turn, TurnConfig) if state is not None and state.open_turn else None


def _under_way(folded: Folded) -> list[int]:
    """The calls of the present step that are started, of which nobody would know in the fork what became of them."""
    state = folded.slice.get(CONVERSATION, ConversationState)
    turn = folded.slice.get(state.open_turn, TurnState) if state is not None and state.open_turn else None
    calls = turn.calls if turn is not None else ()
    states = {call: folded.slice.get(call, CallState) for call in calls}
    return [call for call, found in states.items() if found is not None and found.status is CallStatus.STARTED]


def _check_open(log: LogId, folded: Folded, call: int) -> None:
    """A result can be given to a call that is open, and that a model asked for itself. Raises ForkRefused."""
    config, state = folded.slice.get(call, CallConfig), folded.slice.get(call, CallState)
    if config is not None and config.parent is not None:
        caller = call_id(log, config.parent)
        raise ForkRefused(log, f"{call_id(log, call)} was asked for by {caller}; replace the result of that one")
    if config is None or state is None or state.status not in OPEN_STATUSES:
        raise ForkRefused(log, f"{call_id(log, call)} is not open at seq {folded.seq}")

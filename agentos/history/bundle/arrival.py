"""Import: the conversations of a bundle become those of a store, all of them or none.

The bundle is verified first, and nothing of it is used before. Units are rebuilt from its entries: heads, digests, salts
and bodies as they stand, all rows beside them folded anew. One append stores them, with the definitions that they name.

Nothing runs by it. Logs of agents, toolboxes and programs are left out, so that nothing is installed; so are wake-ups,
inbox items and keys. A conversation with work left to do is paused (`pausing`). What its definitions would have run where
it came from is told (`declared`).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence

import msgspec

from agentos import codec
from agentos.clock import Clock, SystemClock
from agentos.components import AgentContext, ConversationConfig
from agentos.errors import ImportRefused, StoreError
from agentos.events.entry import Registry, decode_entry, seed_digest
from agentos.events.kinds import Snapshot
from agentos.history.bundle.admitting import IMPORT_BYTES_MAX, check_admitted
from agentos.history.bundle.answers import Answers
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.declared import Declared, declared_by
from agentos.history.bundle.kinship import Kinship
from agentos.history.bundle.manifest import LogPart
from agentos.history.bundle.pausing import Pausing
from agentos.history.bundle.placing import Place, Placed, place_of
from agentos.history.bundle.plausible import Plausible
from agentos.history.copy.rebuilding import Rebuilding
from agentos.history.report import Finder
from agentos.history.verify.folding import Folding
from agentos.history.verify.snapshots import compare_snapshot
from agentos.ids import Digest, Kind, LogId, RandomSalts, SaltSource
from agentos.persistence.base import Store, StoredEntry, Unit
from agentos.persistence.together import append_together, fit_together
from agentos.settings import Settings
from agentos.world import World

TRIES = 3
"""How often an import is built anew when another one, or a kernel, was faster with one of its conversations."""


class ArrivedLog(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a bundle. place is new, goes on or there; entries were stored of it, its pause left out.

    paused: it came with work left to do, and waits for a person's word.
    """

    conversation: str
    agent: str
    place: str
    entries: int
    paused: bool


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """What an import has stored, or would store. left_out counts logs by kind that are no conversations."""

    conversations: tuple[ArrivedLog, ...]
    entries: int
    definitions: int
    left_out: dict[str, int]
    declared: Declared


async def import_bundle(
    store: Store,
    bundle: BundleReader,
    *,
    dry_run: bool = False,
    bytes_max: int = IMPORT_BYTES_MAX,
    clock: Clock | None = None,
    salts: SaltSource | None = None,
    settings: Settings | None = None,
) -> Arrived:
    """Verifies a bundle, opens the store as a writer of its own, and stores the conversations.

    dry_run finds out all the same in a store that exists, which is only read.
    Errors: ImportRefused, which names the log or the difference, and then nothing is stored; BundleDamaged; StoreError.
    """
    check_admitted(bundle, bytes_max)
    writer = 0 if dry_run else await store.open(uuid.uuid4().hex)
    now, salts, settings = (clock or SystemClock()).now(), salts or RandomSalts(), settings or Settings()
    for _ in range(TRIES):
        arrival = _Arrival(store, bundle)
        answers = Answers(arrival.entries_of, arrival.registry, salts)
        pausing = Pausing(str(bundle.path), writer, now, arrival.context, arrival.registry, salts, settings, answers)
        await arrival.build(pausing, Plausible(str(bundle.path), now))
        if dry_run or await arrival.store():
            return arrival.told()
    raise ImportRefused(
        str(bundle.path),
        f"others stored some of it in {store.url} {TRIES} times, each time before it was; import again",
    )


class _Arrival:
    """One import: entries by log, those that a fork shares not included; units in the order in which they are stored."""

    def __init__(self, store: Store, bundle: BundleReader) -> None:
        self.registry = Registry()
        self._store, self._bundle, self._path = store, bundle, str(bundle.path)
        self._world = World()
        self._parts = {part.id: part for part in bundle.manifest.logs if part.kind == Kind.CONVERSATION.value}
        self._entries: dict[str, list[StoredEntry]] = {}
        self._bodies: dict[str, tuple[str, str]] = {}
        self._units: list[Unit] = []
        self._told: list[ArrivedLog] = []
        self._definitions = 0

    async def build(self, pausing: Pausing, plausible: Plausible) -> None:
        """All units, none of them stored. Raises ImportRefused."""
        for definition in self._bundle.manifest.definitions:
            body = self._bundle.definition(definition)
            assert body is not None, "only a redacted bundle leaves them out"
            self._bodies[definition.digest] = definition.kind, body
        for part in self._parts.values():
            self._entries[part.id] = list(self._bundle.entries(part))
        kinship = Kinship(self._store, self._path, self._parts)
        for part in self._parts.values():
            placed = await place_of(self._store, self._path, part, self._entries[part.id])
            try:
                if placed.place is not Place.THERE:
                    for entry in self._entries[part.id]:
                        plausible.check(part.id, entry)
                    await kinship.check(part, [*self._shared(part), *self._entries[part.id]])
                self._add(placed, pausing, plausible)
            except (ImportRefused, StoreError):
                raise
            except Exception as error:  # what was chained by somebody else may follow no rule at all
                raise ImportRefused(self._path, f"{part.id} cannot be folded ({type(error).__name__})") from error
            finally:
                self._world.unload(LogId(part.id))
        await self._add_definitions()

    async def store(self) -> bool:
        """All units; False, and then none, when somebody else stored one of these logs since they were built."""
        return not self._units or fit_together(await append_together(self._store, self._units))

    def told(self) -> Arrived:
        left_out = Counter(part.kind for part in self._bundle.manifest.logs if part.kind != Kind.CONVERSATION.value)
        return Arrived(
            conversations=tuple(self._told),
            entries=sum(log.entries for log in self._told),
            definitions=self._definitions,
            left_out=dict(sorted(left_out.items())),
            declared=declared_by(self._bodies.values()),
        )

    def _add(self, placed: Placed, pausing: Pausing, plausible: Plausible) -> None:
        """The units of one log, with the one that pauses it where one has to."""
        part = placed.part
        self._check_snapshots(part)
        units, rebuilt = self._rebuilt(placed)
        for unit in units:
            plausible.check_rows(part.id, unit)
        config = rebuilt.config
        pause = self._pause(placed, pausing) if units and rebuilt.has_work else None
        self._units += [*units, *([pause] if pause is not None else [])]
        self._told.append(
            ArrivedLog(
                conversation=part.id,
                agent=config.slug if config is not None else "",
                place=placed.place.value,
                entries=sum(len(unit.entries) for unit in units),
                paused=pause is not None,
            )
        )

    def _rebuilt(self, placed: Placed) -> tuple[list[Unit], Rebuilding]:
        """The units that the store does not have yet, and what all come to."""
        part, there = placed.part, placed.row
        shared, own = self._shared(part), _by_unit(self._entries[part.id])
        seq, digest = (there.seq, there.digest) if there is not None else _beginning(part, shared)
        rebuilding = Rebuilding(part.row(), seq, digest, self._world, self.registry)
        for stored in _by_unit(shared):
            rebuilding.pass_over(stored)
        units: list[Unit] = []
        for stored in own:
            if placed.place is Place.THERE or stored[-1].seq <= seq:
                rebuilding.pass_over(stored)
            else:
                epoch = there.epoch if there is not None else part.epoch
                units.append(rebuilding.next(stored, epoch, create=there is None and not units))
        self._check_config(part, rebuilding.config)
        return units, rebuilding

    def _check_snapshots(self, part: LogPart) -> None:
        """What a kernel reads instead of the entries before it is what those come to. Raises ImportRefused."""
        entries = [*self._shared(part), *self._entries[part.id]]
        if not any(entry.kind == Snapshot.kind for entry in entries):
            return
        log, finder = LogId(part.id), Finder(part.id)
        folding = Folding(log)
        for stored in _by_unit(entries):
            unit = [decode_entry(log, entry.head, {}, self.registry) for entry in stored]
            folding.fold(unit)
            for entry in unit:
                if type(entry.data) is Snapshot:
                    compare_snapshot(entry, folding.rows, finder)
        for difference in finder.found:
            raise ImportRefused(self._path, str(difference))

    def _check_config(self, part: LogPart, config: ConversationConfig | None) -> None:
        """What the manifest says beside the chain is what the log says. A fork has no parent call, and its own root."""
        if config is None:
            raise ImportRefused(self._path, f"{part.id} has no beginning")
        said = (part.root, part.parent_call, part.tenant)
        logged = (config.root, config.parent_call, config.tenant)
        if part.forked_from is None and said != logged:
            raise ImportRefused(self._path, f"{part.id}: its root, parent call or tenant is not what its log says")
        if part.forked_from is not None and (part.parent_call is not None or part.tenant != config.tenant):
            raise ImportRefused(
                self._path, f"{part.id}: a fork with a parent call, or with another tenant than its log says"
            )

    def _pause(self, placed: Placed, pausing: Pausing) -> Unit | None:
        """Behind the last entry here, under the epoch of the store's own row where it has one."""
        row = placed.part.row()
        if placed.row is not None:
            row.epoch = placed.row.epoch
        return pausing.unit(row, [*self._shared(placed.part), *self._entries[placed.part.id]])

    def _shared(self, part: LogPart) -> list[StoredEntry]:
        """The entries that a fork shares, those of the oldest log first."""
        found: list[StoredEntry] = []
        above, upto = part.forked_from, part.upto
        while above is not None and above in self._parts:
            found = [entry for entry in self._entries[above] if entry.seq <= upto] + found
            upto = min(upto, self._parts[above].upto)
            above = self._parts[above].forked_from
        return found

    def entries_of(self, log: str) -> list[StoredEntry]:
        """Of a log of the bundle, with those that it shares as a fork; none of another."""
        part = self._parts.get(log)
        return [*self._shared(part), *self._entries[part.id]] if part is not None else []

    async def _add_definitions(self) -> None:
        """With the first unit: those that the store does not have. Their digests were found to fit."""
        if not self._units:
            return
        wanted = [(digest, kind, body) for digest, (kind, body) in self._bodies.items()]
        missing = [row for row in wanted if await self._store.definition(row[0]) is None]
        self._units[0].definitions, self._definitions = missing, len(missing)

    def context(self, digest: Digest) -> AgentContext:
        """One that a turn pinned. Raises ImportRefused."""
        kind_and_body = self._bodies.get(digest)
        if kind_and_body is None:
            raise ImportRefused(self._path, f"the definition {digest} is not in it")
        return codec.convert(codec.decode_json(kind_and_body[1]), AgentContext)


def _beginning(part: LogPart, shared: Sequence[StoredEntry]) -> tuple[int, bytes]:
    """The head that the first entry of a log's own goes on from."""
    if part.forked_from is None:
        return 0, seed_digest(part.id)
    return shared[-1].seq, shared[-1].digest


def _by_unit(entries: Sequence[StoredEntry]) -> list[list[StoredEntry]]:
    units: list[list[StoredEntry]] = []
    for entry in entries:
        if units and units[-1][0].unit == entry.unit:
            units[-1].append(entry)
        else:
            units.append([entry])
    return units

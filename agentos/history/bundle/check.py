"""Verify of a bundle: is what it holds what was written? On any machine, with nothing but the file.

Every member is read once, as a stream. Logs stand parents first, so that a fork finds the digest that it goes on from, and
the end of a delegated call is known before the log of the child that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from agentos.components import CallState
from agentos.errors import BundleDamaged
from agentos.events.entry import Head, seed_digest
from agentos.events.kinds import CallFinished, ChildLate
from agentos.history.anchors.anchor import Anchors
from agentos.history.anchors.check import STORE, check_gone, check_log, check_rolled_back, prove, wanted_seqs
from agentos.history.anchors.keys import AnchorKey
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.export import PINS
from agentos.history.bundle.manifest import LogPart, heads_of
from agentos.history.report import Difference, Finder, Proof, Report
from agentos.history.verify.chain import UNKNOWN, Chain
from agentos.ids import log_and_seq
from agentos.persistence.base import StoredEntry

BUNDLE = "bundle"
"""The place of what no single log is to blame for."""
HELD_MAX = 100_000
"""How many differences are collected before nothing more is looked for: a forger could make as many as there are bytes."""
FORKS_MAX = 64
"""Over how many forks the log is looked for that has an entry for its own; in what a kernel wrote it is the first."""
_ENDS = frozenset({CallFinished.kind, ChildLate.kind})


def check_bundle(
    bundle: BundleReader,
    *,
    anchors: Anchors | None = None,
    keys: Sequence[AnchorKey] = (),
    differences_max: int = 1_000,
) -> Report:
    """Recomputes all that can be recomputed, and names log, seq, table and field of what differs.

    The archive's own digest; every member against the manifest; the chain of each log, with the values that it commits to;
    that forks go on from what they share, and that children have the heads which their parents name; the digests of
    definitions, and that those which are pinned are there. With anchors, that each log goes on from where it was anchored,
    and of a whole store that none is gone. Nothing of it is run, and nothing is written.

    Errors: OSError. What cannot be read is a difference.
    """
    check = _Check(bundle, anchors)
    try:
        check.all()
    except _EnoughError:
        check.stopped()
    return check.report(differences_max, prove(anchors, keys) if anchors is not None else None)


class _Check:
    """One verification of one bundle. _passed holds, by log, the digests at the seqs that others build on."""

    def __init__(self, bundle: BundleReader, anchors: Anchors | None) -> None:
        self._bundle, self._manifest, self._anchors = bundle, bundle.manifest, anchors
        self._parts = {part.id: part for part in self._manifest.logs}
        self._finders: dict[str, Finder] = {}
        self._passed: dict[str, Mapping[int, bytes]] = {}
        self._begun = {part.id: self._begins_at(part) for part in self._manifest.logs if part.forked_from is not None}
        self._shared: dict[str, set[int]] = {}
        for log, seq in self._begun.values():
            self._shared.setdefault(log, set()).add(seq)
        self._defined = {part.digest for part in self._manifest.definitions}
        self._ties = Ties(bundle.limits.bundle_delegations_max)
        self._held = 0
        self._entries = self._payloads = 0

    def all(self) -> None:
        self.archive()
        for part in self._manifest.logs:
            self.log(part)
        self.ties()
        self.definitions()
        self.files()
        if self._anchors is not None and self._manifest.asked is None:
            self.whole_store(self._anchors)

    def stopped(self) -> None:
        said = f"fewer than {HELD_MAX:,} differences; nothing more was looked for"
        self._finder(BUNDLE).differ(0, "archive", "members", f"{HELD_MAX:,} differences", said)

    def archive(self) -> None:
        """The file by itself, and what the manifest says of its logs."""
        finder = self._finder(BUNDLE)
        if not self._bundle.whole:
            finder.differ(0, "archive", "sha256", self._bundle.digest, "the digest in its comment")
        heads = heads_of(self._manifest.logs)
        if heads != self._manifest.heads:
            finder.differ(0, "manifest", "heads", self._manifest.heads, heads)
        asked = self._manifest.asked
        if asked is not None and asked not in self._parts:
            finder.differ(0, "manifest", "asked", asked, "a log of the bundle")

    def log(self, part: LogPart) -> None:
        finder = self._finder(part.id)
        wanted = wanted_seqs(part.id, self._anchors) | self._shared.get(part.id, set())
        chain = Chain(part.shared, self._digest_before(part, finder), finder, wanted, redacted=self._manifest.redacted)
        try:
            self._read(part, chain, finder)
            chain.end(part.seq, bytes.fromhex(part.digest))
            self._check_part(part, chain, finder)
        except BundleDamaged as damaged:
            place = f" line {damaged.line}" if damaged.line else ""
            finder.differ(chain.seq + 1, "archive", damaged.member + place, damaged.why, "as it was written")
        self._passed[part.id] = chain.passed
        self._entries += chain.entries
        self._held += len(finder.found)
        if self._anchors is not None:
            _check_anchored(part, chain.passed, self._anchors, finder)

    def _read(self, part: LogPart, chain: Chain, finder: Finder) -> None:
        last: StoredEntry | None = None
        for entry in self._bundle.entries(part):
            if last is not None and entry.unit != last.unit:
                self._ties.unit_ends(part.id, last.digest)
            last = entry
            for head in chain.add((entry,), {}):
                self._note(part.id, head, finder)
            if self._held + len(finder.found) > HELD_MAX:
                raise _EnoughError
            chain.messages.clear()
            values = sum((salt, body) != (None, None) for _, _, salt, body in entry.payloads)
            self._payloads += values
            if self._manifest.redacted and values:
                finder.differ(entry.seq, "payloads", "body", "kept, in a redacted bundle", None)
        if last is not None:
            self._ties.unit_ends(part.id, last.digest)

    def _note(self, log: str, head: Head, finder: Finder) -> None:
        """What the entry names: definitions, each told once when it is not there, and the heads of children."""
        for _, name, value in head.changes:
            digest = value.get(PINS[name]) if name in PINS and isinstance(value, dict) else None
            if isinstance(digest, str) and digest not in self._defined:
                self._defined.add(digest)
                finder.differ(head.seq, "definitions", "row", None, f"the definition {digest}")
        ends = head.kind in _ENDS and isinstance(head.data, dict) and bool(head.data.get("child_head"))
        if ends and not self._ties.expect(log, head):
            most = f"at most {self._bundle.limits.bundle_delegations_max:,} (bundle_delegations_max)"
            finder.differ(head.seq, "entries", "child_head", "one more that waits for its child", most)

    def _check_part(self, part: LogPart, chain: Chain, finder: Finder) -> None:
        """What the manifest says of a log beside its head."""
        if part.id.partition("_")[0] != part.kind:
            finder.differ(0, "logs", "kind", part.kind, part.id.partition("_")[0])
        erased_at = chain.values.erased_at
        if part.erased_at != erased_at:
            finder.differ(0, "logs", "erased_at", part.erased_at, erased_at)
        if part.prefix and part.id not in self._shared:
            finder.differ(0, "manifest", "prefix", "a part that no log here goes on from", "a whole log")
        if part.parent_call is not None:
            parent = log_and_seq(part.parent_call)[0]
            if parent in self._parts and parent not in self._passed:
                finder.differ(0, "manifest", "logs", f"before {parent}", "behind the log that it was begun by")

    def _begins_at(self, part: LogPart) -> tuple[str, int]:
        """The log that has the last entry which a fork shares for its own, and the seq."""
        above = self._parts.get(part.forked_from or "")
        for _ in range(FORKS_MAX):
            if above is None or above.forked_from is None or part.upto > above.upto:
                break
            above = self._parts.get(above.forked_from)
        return (above.id, part.upto) if above is not None else ("", part.upto)

    def _digest_before(self, part: LogPart, finder: Finder) -> bytes:
        if part.forked_from is None:
            return seed_digest(part.id)
        log, seq = self._begun[part.id]
        found = self._passed.get(log, {}).get(seq)
        if found is None:
            finder.differ(
                0, "logs", "forked_from", f"{part.forked_from} up to seq {seq}, which is not there", "entries"
            )
        return found if found is not None else UNKNOWN

    def ties(self) -> None:
        """The ends of delegated calls whose child has no such head."""
        for log, seq, child, head in self._ties.left():
            there = (
                f"the end of a unit of {child}" if child in self._parts else f"{child or 'a child'}, which is not there"
            )
            self._finder(log).differ(seq, "entries", "child_head", head.hex()[:16], there)

    def definitions(self) -> None:
        for part in self._manifest.definitions:
            self._reads("definitions", "body", partial(self._bundle.definition, part))

    def files(self) -> None:
        for part in self._manifest.files:
            self._reads("archive", part.file, partial(self._bundle.check_member, part.file, part.sha256))

    def whole_store(self, anchors: Anchors) -> None:
        rows = [part.row() for part in self._manifest.logs]
        check_gone(self._parts, anchors, anchors.heads, self._finder)
        check_rolled_back(rows, anchors.last.anchor.writer, anchors, self._finder(STORE))

    def _reads(self, table: str, field: str, read: Callable[[], object]) -> None:
        try:
            read()
        except BundleDamaged as damaged:
            self._finder(BUNDLE).differ(0, table, field, f"{damaged.member}: {damaged.why}", "as it was written")

    def _finder(self, log: str) -> Finder:
        return self._finders.setdefault(log, Finder(log))

    def report(self, differences_max: int, proof: Proof | None) -> Report:
        found: list[Difference] = [one for finder in self._finders.values() for one in finder.found]
        if proof is not None:
            found = [*proof.differences, *found]
        return Report(
            logs=len(self._parts),
            entries=self._entries,
            payloads=self._payloads,
            differences=tuple(found[:differences_max]),
            more=max(0, len(found) - differences_max),
            proof=proof,
        )


class _EnoughError(Exception):
    """So many differences were found that no more are looked for."""


class Ties:
    """What parents say of their children: the head that a child's log had when a delegated call ended."""

    def __init__(self, most: int) -> None:
        self._expected: dict[bytes, list[tuple[str, int, str | None]]] = {}
        self._room = most

    def expect(self, log: str, head: Head) -> bool:
        """An entry names the head of a child; of a late end it is not said whose. False when too many are expected."""
        if not self._room:
            return False
        self._room -= 1
        said = str(head.data["child_head"])
        states = [value for _, name, value in head.changes if name == CallState.component and isinstance(value, dict)]
        child = next((state["child"] for state in states if isinstance(state.get("child"), str)), None)
        self._expected.setdefault(_digest(said), []).append((log, head.seq, child))
        return True

    def unit_ends(self, log: str, digest: bytes) -> None:
        """A unit of a log ends with this digest."""
        waiting = self._expected.get(digest)
        if waiting is not None:
            left = [one for one in waiting if one[2] not in (None, log)]
            self._room += len(waiting) - len(left)
            if left:
                self._expected[digest] = left
            else:
                del self._expected[digest]

    def left(self) -> Collection[tuple[str, int, str | None, bytes]]:
        """log, seq, child and head of those that no log has."""
        return [(*one, head) for head, waiting in self._expected.items() for one in waiting]


def _digest(said: str) -> bytes:
    try:
        return bytes.fromhex(said)
    except ValueError:
        return said.encode("utf-8", "surrogatepass")


def _check_anchored(part: LogPart, passed: Mapping[int, bytes], anchors: Anchors, finder: Finder) -> None:
    """A prefix is compared as far as it goes: where the log ends, the bundle does not say."""
    if not part.prefix:
        check_log(part.row(), passed, anchors, finder)
        return
    for point in anchors.points.get(part.id, ()):
        found: Any = passed.get(point.seq)
        if found is not None and found != point.digest:
            said = f"{point.digest.hex()[:16]}, by {anchors.named(point.n)}"
            finder.differ(point.seq, "entries", "digest", found.hex()[:16], said)
            return

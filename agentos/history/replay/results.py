"""What a replay comes to: identical, the first divergence, or nothing to replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentos.ids import Digest, LogId


class Identical(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that was decided would be decided again.

    other_rules: digests of the rules, other than the running ones, that turns pinned; what was decided under others
    need not be decided again. erased counts units that cannot be compared, since a body that they rest on was erased.
    """

    log: LogId
    entries: int
    units: int
    other_rules: tuple[Digest, ...] = ()
    erased: int = 0

    def __str__(self) -> str:
        erased = f", {self.erased} of them rest on erased bodies" if self.erased else ""
        return f"identical ({self.entries} entries in {self.units} units{erased}){_under(self.other_rules)}"


class Divergence(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first entry that would not be decided again as it is stored.

    field is the first path that differs; stored and produced have every differing path with its value, and private
    bodies too. For an entry that only one side has, field is `entry` and the other side is empty.
    """

    log: LogId
    seq: int
    kind: str
    field: str
    stored: Mapping[str, Any]
    produced: Mapping[str, Any]
    other_rules: tuple[Digest, ...] = ()

    def __str__(self) -> str:
        return f"diverged at seq {self.seq}, {self.kind}: {self.field}{_under(self.other_rules)}"


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A log of administration: nothing in it was decided by a pass."""

    log: LogId
    kind: str

    def __str__(self) -> str:
        return f"skipped (a log of kind {self.kind} has no passes)"


Replayed = Identical | Divergence | Skipped


def _under(other_rules: tuple[Digest, ...]) -> str:
    if not other_rules:
        return ""
    return f"; decided under other rules ({', '.join(rules[:12] for rules in other_rules)})"

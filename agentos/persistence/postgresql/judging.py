"""Which units of a batch fit: what a locked head and its units have to say to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentos.persistence.base import Unit, Verdict

Head = tuple[int, int, int, bytes]
"""owner, epoch, seq, digest"""


def judge(
    units: Sequence[Unit], heads: Mapping[str, Head], stored: Mapping[tuple[str, int], bytes]
) -> tuple[list[Verdict], list[Unit]]:
    """A verdict for each unit, and those units that are still to be stored, in order.

    heads are those of the logs that are there; stored are digests of entries by log and seq: a unit whose last entry is
    there with the digest that it has was stored by an earlier try.
    """
    now = dict(heads)
    verdicts: list[Verdict] = []
    fitting: list[Unit] = []
    for unit in units:
        if stored.get((unit.log, unit.seq)) == unit.digest:
            verdicts.append(Verdict.STORED)
            continue
        verdict = _verdict(unit, now.get(unit.log))
        if verdict is Verdict.STORED:
            owner, epoch = (unit.owner, unit.epoch) if unit.create is None else (unit.create.owner, unit.create.epoch)
            now[unit.log] = owner, epoch, unit.seq, unit.digest
            fitting.append(unit)
        verdicts.append(verdict)
    return verdicts, fitting


def _verdict(unit: Unit, head: Head | None) -> Verdict:
    if head is None:
        return Verdict.CONFLICT if unit.create is None else Verdict.STORED
    owner, epoch, seq, digest = head
    if (owner, epoch) != (unit.owner, unit.epoch):
        return Verdict.FENCED
    fits = unit.create is None and (seq, digest) == (unit.previous_seq, unit.previous)
    return Verdict.STORED if fits else Verdict.CONFLICT

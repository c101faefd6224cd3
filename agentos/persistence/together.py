"""Many units that are to be there all or not at all, whatever happens in the middle: what an import stores.

`Store.append` leaves out units that do not match, and stores the others; and in a store of files a process that is killed
while it writes may leave the first ones. This stores none of them then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentos.persistence.base import Store, Unit, Verdict


@runtime_checkable
class Together(Protocol):
    """A store that can do so; each of the four can."""

    def append_together(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        """As `Store.append`, but when one unit does not match none is stored: those that would have been have CONFLICT."""


async def append_together(store: Store, units: Sequence[Unit]) -> list[Verdict]:
    """Appends units so that all of them are found afterwards or none. Raises StoreUnavailable, and then none is stored."""
    assert isinstance(store, Together), "a store that stores a part of what belongs together"
    answer = store.append_together(units)
    return answer if isinstance(answer, list) else await answer


def fit_together(verdicts: Sequence[Verdict]) -> bool:
    return all(verdict is Verdict.STORED for verdict in verdicts)


def none_of(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What is told when not all fit."""
    return [Verdict.CONFLICT if verdict is Verdict.STORED else verdict for verdict in verdicts]

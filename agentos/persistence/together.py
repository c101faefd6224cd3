"""Many units that are to be there all or not at all, whatever happens in the middle: what an import stores.

`Store.append` is one transaction where a database keeps the store. A store of files adds lines to a file, of which a
process that is killed while it writes may leave the first ones; it has a slower way that leaves none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentos.persistence.base import Store, Unit, Verdict


@runtime_checkable
class Together(Protocol):
    """A store whose `append` is no transaction when its process ends in the middle."""

    def append_together(self, units: Sequence[Unit]) -> asyncio.Future[list[Verdict]]:
        """As `Store.append`; of those that fit, all are found afterwards or none."""


async def append_together(store: Store, units: Sequence[Unit]) -> list[Verdict]:
    """Appends units so that a crash leaves all of them or none. Raises StoreUnavailable, and then none is stored."""
    answer = store.append_together(units) if isinstance(store, Together) else store.append(units)
    return answer if isinstance(answer, list) else await answer

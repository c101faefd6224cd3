"""The kind `http_pool`: one pool of connections for all who borrow it, closed with its scope. The first loads httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agentos.components import Pattern
from agentos.resources.borrowing import Factory
from agentos.resources.kinds.http_pool.limits import HttpLimits
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

if TYPE_CHECKING:
    from agentos.resources.kinds.http_pool.client import HttpPool

KIND = "http_pool"


def http_pool(**limits: Any) -> Factory[HttpPool]:
    """A factory of pools with these `HttpLimits`. Raises msgspec.ValidationError for one that there is not."""
    from agentos.resources.kinds.http_pool.client import HttpPool

    bounds = msgspec.convert(limits, HttpLimits)

    async def make() -> HttpPool:
        return HttpPool(bounds)

    return Factory(make, close=HttpPool.close)


HTTP_POOL = ResourceKind(name=KIND, factory=http_pool, pattern=Pattern.STATELESS, level=Level.PROGRAM)
"""All use one pool at once: what it bounds, it bounds itself."""

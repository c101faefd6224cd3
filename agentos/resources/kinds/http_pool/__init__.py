"""A pool of HTTP connections. Importing this package loads no HTTP library; its first pool does."""

from agentos.resources.kinds.http_pool.limits import HttpLimits
from agentos.resources.kinds.http_pool.pool import HTTP_POOL

__all__ = ["HTTP_POOL", "HttpLimits"]

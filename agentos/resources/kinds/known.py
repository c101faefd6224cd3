"""The kinds of resources that a kernel knows from the start; `kernel.resources.register` makes others known."""

from __future__ import annotations

from agentos.resources.kinds.cache import CACHE
from agentos.resources.kinds.http_pool import HTTP_POOL
from agentos.resources.kinds.jsonrpc import JSONRPC
from agentos.resources.kinds.lua import LUA
from agentos.resources.kinds.process import PROCESS
from agentos.resources.kinds.sandbox import SANDBOX
from agentos.resources.kinds.tempdir import TEMPDIR
from agentos.resources.registry import ResourceKind

KNOWN: tuple[ResourceKind, ...] = (CACHE, HTTP_POOL, JSONRPC, LUA, PROCESS, SANDBOX, TEMPDIR)

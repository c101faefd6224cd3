"""The kernel itself and the client of its control socket keep one contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from agentos.kernel import Kernel
from agentos.kernel.client import Operator
from agentos.kernel.control import SocketClient

for part in ("contract", "talk", "case"):
    pytest.register_assert_rewrite(f"agentos.testing.client_{part}")

from agentos.testing.client_case import CONTRACT_SETTINGS  # noqa: E402
from agentos.testing.client_contract import ClientContract  # noqa: E402


class TestKernel(ClientContract):
    def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
        return _itself(kernel)


class TestSocketClient(ClientContract):
    def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
        assert kernel.control_path is not None, "it listens"
        return SocketClient(kernel.control_path, CONTRACT_SETTINGS)


@asynccontextmanager
async def _itself(kernel: Kernel) -> AsyncIterator[Operator]:
    yield kernel

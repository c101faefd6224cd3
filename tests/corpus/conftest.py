"""A desk of tools."""

from __future__ import annotations

import pytest

from tests.history.support import Desk


@pytest.fixture
async def desk() -> Desk:
    return Desk()

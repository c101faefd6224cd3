"""Scripts made on the spot."""

from __future__ import annotations

from tests.toolboxes.conftest import script

__all__ = ["script"]

"""What a model adapter is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agentos.events.model import ModelReply, ModelRequest

OnDelta = Callable[[str], None]
"""Takes the next piece of the answer's text."""


class ModelClient(Protocol):
    """One way to ask a model. One object serves all agents that name it, many requests at once."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """A whole reply with its usage. Raises ModelError with a kind; never retries by itself."""

    async def close(self) -> None: ...

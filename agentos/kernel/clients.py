"""The clients of models that answer for the agents of a kernel: given with an agent, or made from its definition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from agentos import codec
from agentos.clock import Clock
from agentos.components import ModelRef
from agentos.ids import Name
from agentos.models import make_model
from agentos.models.base import ModelClient


class Clients:
    """Makes each client once, and closes them all at the end.

    base: the folder that relative paths of an agent's model count from. given: the clients that came with their agents.
    """

    def __init__(self, clock: Clock, keys: Sequence[Path], base_url: str | None) -> None:
        self._clock, self._keys, self._base_url = clock, keys, base_url
        self.base: dict[Name, Path | None] = {}
        self.given: dict[Name, ModelClient] = {}
        self._made: dict[str, ModelClient] = {}
        self._replaced: list[ModelClient] = []

    def of(self, slug: Name, ref: ModelRef) -> ModelClient:
        """The client that answers for an agent: the one given with it, else one made from its definition. Raises
        ConfigurationError."""
        given = self.given.get(slug)
        if given is not None:
            return given
        base = self.base.get(slug)
        key = codec.encode_body(msgspec.to_builtins(ref)) + str(base)
        client = self._made.get(key)
        if client is None:
            client = self._made[key] = make_model(ref, self._clock, base, keys=self._keys, base_url=self._base_url)
        return client

    def give(self, slug: Name, model: ModelClient | None) -> None:
        """The client that answers from here on, None for one to be made; an open turn may still be asking the one before."""
        before = self.given.pop(slug, None)
        if before is not None and before is not model:
            self._replaced.append(before)
        if model is not None:
            self.given[slug] = model

    async def close(self) -> None:
        clients = (*self._made.values(), *self.given.values(), *self._replaced)
        for client in {id(client): client for client in clients}.values():
            await client.close()

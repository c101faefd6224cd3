"""Which version of an agent, and of its toolboxes, a turn ran with: what its pinned context names."""

from __future__ import annotations

from typing import Any

from agentos import codec
from agentos.persistence.base import Store


class Versions:
    """Reads each context of a store once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] = {}

    async def of(self, context: str) -> str:
        """As in `helper r3`, or `helper r3 (files r2)` when it uses toolboxes that have had several versions.

        Empty for a context of an older store, and for one that is not there.
        """
        version = self._known.get(context)
        if version is None:
            found = await self._store.definition(context) if context else None
            version = self._known[context] = _version(codec.decode_json(found[1])) if found is not None else ""
        return version


def _version(context: Any) -> str:
    if not isinstance(context, dict) or not context.get("revision"):
        return ""
    several = [f"{box['name']} r{box['revision']}" for box in context.get("toolboxes", ()) if box["revision"] > 1]
    toolboxes = f" ({', '.join(several)})" if several else ""
    return f"{context['slug']} r{context['revision']}{toolboxes}"

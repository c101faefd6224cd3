"""Takes what was erased out of the search index beside a store, where there is one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from agentos.errors import IndexUnavailable
from agentos.persistence.search_index import SearchIndex

_log = logging.getLogger(__name__)


async def forget_beside(url: str, logs: Collection[str]) -> str | None:
    """Says where the index is, None where there is none. It may take seconds, the longer the larger the index is, so many
    logs go at once. Raises IndexUnavailable."""
    path = SearchIndex.beside(url)
    if path is None or not logs or not path.exists():
        return None
    await asyncio.to_thread(SearchIndex(path).forget, logs)
    return str(path)


async def forget_or_tell(url: str, log: str) -> None:
    """For a log that was erased at the word of another process, which may have gone."""
    try:
        await forget_beside(url, [log])
    except IndexUnavailable as error:
        _log.error("%s is erased, and the search index still has its texts until the next search: %s", log, error)

"""Who has a log, in words: what a command is told that finds its conversation at work in another process."""

from __future__ import annotations

from datetime import UTC, datetime

from agentos.errors import ConversationBusy
from agentos.persistence.base import Store, WriterRow


def writer_words(writer: WriterRow) -> str:
    """Number, place and time of a writer: `writer 3, pid 77 on box, since 2026-11-30 15:22:04 UTC`."""
    words = [f"writer {writer.n}"]
    if writer.pid:
        words.append(f"pid {writer.pid} on {writer.host}")
    if writer.started_at:
        since = datetime.fromtimestamp(writer.started_at / 1e6, UTC)
        words.append(f"since {since:%Y-%m-%d %H:%M:%S} UTC")
    return ", ".join(words)


async def owner_words(store: Store, log: str) -> str:
    """The owner of a log, "nobody" when there is none."""
    row = await store.log(log)
    owner = row.owner if row is not None else 0
    for writer in await store.writers():
        if writer.n == owner:
            return writer_words(writer)
    return f"writer {owner}" if owner else "nobody"


async def busy_elsewhere(store: Store, log: str, key: str = "") -> ConversationBusy:
    """The error of a command that only the owner of the log could do; key is that of an input that waits for it."""
    return ConversationBusy(log, 0, await owner_words(store, log), key)

"""Every limit of the kernel, by name and with its unit.

Suffixes: _s seconds, _ms milliseconds, _bytes bytes, _tokens tokens; a bare _max or _limit counts things.
"""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one kernel."""

    tick_conversations: int = 512
    pass_decisions_max: int = 1_000
    live_conversations_max: int = 10_000
    inbox_max: int = 1_000
    inbox_poll_ms: int = 200
    follow_files: bool = True
    """Whether edited agent files, and tool folders that can be read again, are taken up at the next turn."""
    reload_poll_s: float = 2.0
    """How often they are looked at for turns that no input of this process begins: delegated and posted ones."""
    input_bytes_max: int = 4 * 1024 * 1024
    snapshot_entries: int = 256
    depth_max: int = 8
    children_max: int = 512
    close_grace_s: float = 10.0
    release_s: float = 10.0
    watch_queue_max: int = 1_024
    sync_threads_max: int = 32
    query_rows_max: int = 100_000
    query_s: float = 30.0

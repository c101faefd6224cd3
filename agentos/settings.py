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
    inbox_wait_s: float = 60.0
    """How long a sender waits for the owner of a conversation, another process, to take its input."""
    unknown_commit_s: float = 5.0
    """How long a sender waits, when the store was lost at a commit, until it is known whether its input is stored."""
    recover_poll_s: float | None = None
    """How often a running kernel takes up what dead processes left behind; None is never, but for `recover`."""
    retention_sweep_s: float = 3_600.0
    """How often a running kernel erases what has had its time, once an agent with `erase_after_s` is in force; 0 is never."""
    follow_files: bool = True
    """Whether edited agent files, and tool folders that can be read again, are taken up at the next turn."""
    reload_poll_s: float = 2.0
    """How often they are looked at for turns that no input of this process begins: delegated and posted ones."""
    input_bytes_max: int = 4 * 1024 * 1024
    snapshot_entries: int = 256
    depth_max: int = 8
    children_max: int = 512
    turns_max: int | None = None
    """Turns at once in one kernel, and for each tenant and agent below; None is no bound. A turn that is parked has no place,
    and waits for one before it goes on."""
    tenant_turns_max: int | None = None
    agent_turns_max: int | None = None
    """What an agent file says (turns_at_once) comes before it."""
    waiting_turns_max: int = 10_000
    """How many turns may wait for a place; an input that would begin one more is refused. Delegated ones are not."""
    calls_max: int | None = None
    """Calls at once in one kernel, and for each tenant, agent and conversation below; None is no bound. Inner calls, and what
    is asked of others within a running call, go by the place of that call; delegations need none."""
    tenant_calls_max: int | None = None
    agent_calls_max: int | None = None
    """What an agent file says (calls_at_once) comes before it."""
    conversation_calls_max: int | None = None
    processes_max: int | None = None
    """Processes at once that calls and resources of one kernel run, and for each tenant, agent, toolbox and conversation
    below; None is no bound. What these processes start themselves is not counted."""
    tenant_processes_max: int | None = None
    agent_processes_max: int | None = None
    toolbox_processes_max: int | None = None
    conversation_processes_max: int | None = None
    handles_max: int | None = None
    """Handles of resources that live at once in one kernel, lent or not, and for each of the same below; None is no bound."""
    tenant_handles_max: int | None = None
    agent_handles_max: int | None = None
    toolbox_handles_max: int | None = None
    conversation_handles_max: int | None = None
    resource_bytes_max: int | None = None
    """Bytes that the resources of one kernel take, as far as their kinds tell, and for each of the same below; None is no
    bound. Where there are as many, or more, nothing else is made."""
    tenant_resource_bytes_max: int | None = None
    agent_resource_bytes_max: int | None = None
    toolbox_resource_bytes_max: int | None = None
    conversation_resource_bytes_max: int | None = None
    close_grace_s: float = 10.0
    release_s: float = 10.0
    hold_warn_s: float = 60.0
    """A call that has held a resource for so long is noted in the log of its conversation, once."""
    wait_warn_s: float = 30.0
    """A call that has waited for a resource for so long is noted in the log of its conversation, once."""
    watch_queue_max: int = 1_024
    sync_threads_max: int = 32
    query_rows_max: int = 100_000
    query_s: float = 30.0
    query_bytes_max: int = 64 * 1024 * 1024
    """How much text a query may bring back, and how long one value may be."""
    busy_timeout_ms: int = 5_000
    """How long a SQLite file that another process has locked is waited for, and a lock of another session of PostgreSQL."""
    inline_bytes_max: int = 256 * 1024
    """Batches for a SQLite file up to about this size are written on the loop, larger ones in the store's thread."""
    writer_queue_max: int = 1_000
    """How many jobs may wait for the store's thread, or for its connection; beyond it posts and claims wait, and an append is
    StoreBusy."""
    wal_copy_bytes: int = 8 * 1024 * 1024
    """About how much the write-ahead log of a SQLite file holds before it is copied back into the file."""
    wal_warn_bytes: int = 256 * 1024 * 1024
    """A write-ahead log of this size, which a long reader keeps from being begun anew, is told in the log."""
    reconnect_s: float = 10.0
    """How long PostgreSQL is waited for when it went away, and what was under way is settled then."""
    connect_s: float = 10.0
    """How long one try to connect to PostgreSQL may take."""
    statement_s: float = 60.0
    """How long one statement of a PostgreSQL store may take before its connection is given up."""
    pool_connections_max: int = 4
    """Connections to PostgreSQL for reading; a store that is open has one more for writing, one to be seen by, and one for
    queries once there was one."""
    append_bytes_max: int = 16 * 1024 * 1024
    """A batch for PostgreSQL beyond about this size is sent in parts, within one transaction."""
    change_poll_s: float = 2.0
    """How often a PostgreSQL store looks for what no notification told of."""
    writer_beat_s: float = 3.0
    """How often a writer of a PostgreSQL store shows that it lives."""
    writer_dead_s: float = 15.0
    """A writer of a PostgreSQL store that did not show itself for so long counts as dead."""
    control_connections_max: int = 64
    """Connections to the control socket at once; one more takes the place of the one that has been idle longest."""
    control_requests_max: int = 64
    """How many requests one of them may have open."""
    control_line_bytes_max: int = 16 * 1024 * 1024
    """How long one request may be, as a line of JSON."""
    control_output_bytes_max: int = 1024 * 1024
    """How much waits for a client that reads slowly; then the kernel sends it no more, and what it watches gets gaps."""
    control_stall_s: float = 10.0
    """A client that reads nothing for so long, while something waits for it, is dropped."""
    control_line_s: float = 10.0
    """How long a client may take for one request, once it has begun to send it."""
    control_idle_s: float = 300.0
    """A connection without an open request is closed after this time."""
    control_connect_s: float = 2.0
    """How long a client waits until a kernel has greeted it."""
    control_silence_s: float = 10.0
    """A client that waits for an answer, and hears nothing at all for so long, takes the kernel for one that hangs."""

"""Calls in doubt know how they were resolved; conversations are listed without a look at all of them.

New: calls.resolution, tool_calls.resolution, the indexes conversations_updated and conversations_agent. No call of an older
store was resolved: only this schema's programs write down that one was.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

SQLITE_TOOL_CALLS = """
create view tool_calls as
select
    'call_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || calls.seq as id,
    logs.id as conversation,
    'turn_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || calls.turn as turn,
    calls.tool as tool,
    calls.toolbox as toolbox,
    calls.status as status,
    calls.kind as kind,
    calls.attempt as attempt,
    calls.child as child,
    payloads.body as arguments,
    coalesce(messages.text, results.body) as result,
    strftime('%Y-%m-%dT%H:%M:%S', calls.started_at / 1000000, 'unixepoch')
        || printf('.%06dZ', calls.started_at % 1000000) as started_at,
    strftime('%Y-%m-%dT%H:%M:%S', calls.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', calls.finished_at % 1000000) as finished_at,
    (calls.finished_at - calls.started_at) / 1000.0 as ms,
    case when calls.parent > 0 then 'call_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || calls.parent end
        as parent_call,
    calls.resolution as resolution
from calls
    join logs on logs.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
    left join messages on messages.n = calls.n and messages.seq = calls.result_seq
    left join payloads as results on results.n = calls.n and results.seq = calls.result_seq and results.i = 0
"""
POSTGRESQL_TOOL_CALLS = """
create view tool_calls as
select
    'call_' || substr(logs.id, strpos(logs.id, '_') + 1) || '_' || calls.seq as id,
    logs.id as conversation,
    'turn_' || substr(logs.id, strpos(logs.id, '_') + 1) || '_' || calls.turn as turn,
    calls.tool as tool,
    calls.toolbox as toolbox,
    calls.status as status,
    calls.kind as kind,
    calls.attempt as attempt,
    calls.child as child,
    payloads.body as arguments,
    coalesce(messages.text, results.body) as result,
    to_char(timestamp '1970-01-01' + calls.started_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        as started_at,
    to_char(timestamp '1970-01-01' + calls.finished_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        as finished_at,
    (calls.finished_at - calls.started_at) / 1000.0::double precision as ms,
    case when calls.parent > 0 then 'call_' || substr(logs.id, strpos(logs.id, '_') + 1) || '_' || calls.parent end
        as parent_call,
    calls.resolution as resolution
from calls
    join logs on logs.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
    left join messages on messages.n = calls.n and messages.seq = calls.result_seq
    left join payloads as results on results.n = calls.n and results.seq = calls.result_seq and results.i = 0
"""

COLUMN = {
    "sqlite": "alter table calls add column resolution text",
    "postgresql": 'alter table calls add column resolution text collate "C"',
}
VIEW = {"sqlite": SQLITE_TOOL_CALLS, "postgresql": POSTGRESQL_TOOL_CALLS}


def upgrade() -> None:
    db = op.get_bind()
    for statement in (
        "drop view tool_calls",
        COLUMN[db.dialect.name],
        VIEW[db.dialect.name],
        "create index conversations_updated on conversations (updated_at)",
        "create index conversations_agent on conversations (agent, updated_at)",
    ):
        db.exec_driver_sql(statement)

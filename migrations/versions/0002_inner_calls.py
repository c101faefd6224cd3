"""Inner calls know the call that asked for them; turns, what they pinned.

New: calls.parent, turns.context, tool_calls.parent_call, conversation_turns.context. No call of an older store was an inner
one. What its turns pinned stands in the heads of their entries, and is copied from there; no entry is touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, bindparam, column, select, table, tuple_

revision = "0002"
down_revision = "0001"

ENTRIES = table("entries", column("n", BigInteger), column("seq", BigInteger), column("kind"), column("head"))
TURNS = table("turns", column("n", BigInteger), column("seq", BigInteger), column("context"))
PINNING = ("turn.started", "turn.resumed")
"""The entries that may change what is known of a turn's configuration; in a fork, the second of them."""
PAGE_ROWS = 1_000

SQLITE_CONVERSATION_TURNS = """
create view conversation_turns as
select
    'turn_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || turns.seq as id,
    logs.id as conversation,
    turns.seq as seq,
    turns.state as state,
    turns.outcome as outcome,
    turns.outcome_name as outcome_name,
    turns.steps as steps,
    turns.calls as calls,
    turns.input_tokens as input_tokens,
    turns.output_tokens as output_tokens,
    strftime('%Y-%m-%dT%H:%M:%S', turns.started_at / 1000000, 'unixepoch')
        || printf('.%06dZ', turns.started_at % 1000000) as started_at,
    strftime('%Y-%m-%dT%H:%M:%S', turns.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', turns.finished_at % 1000000) as finished_at,
    (turns.finished_at - turns.started_at) / 1000.0 as ms,
    turns.context as context
from turns join logs on logs.n = turns.n
"""
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
        as parent_call
from calls
    join logs on logs.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
    left join messages on messages.n = calls.n and messages.seq = calls.result_seq
    left join payloads as results on results.n = calls.n and results.seq = calls.result_seq and results.i = 0
"""
POSTGRESQL_CONVERSATION_TURNS = """
create view conversation_turns as
select
    'turn_' || substr(logs.id, strpos(logs.id, '_') + 1) || '_' || turns.seq as id,
    logs.id as conversation,
    turns.seq as seq,
    turns.state as state,
    turns.outcome as outcome,
    turns.outcome_name as outcome_name,
    turns.steps as steps,
    turns.calls as calls,
    turns.input_tokens as input_tokens,
    turns.output_tokens as output_tokens,
    to_char(timestamp '1970-01-01' + turns.started_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        as started_at,
    to_char(timestamp '1970-01-01' + turns.finished_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        as finished_at,
    (turns.finished_at - turns.started_at) / 1000.0::double precision as ms,
    turns.context as context
from turns join logs on logs.n = turns.n
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
        as parent_call
from calls
    join logs on logs.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
    left join messages on messages.n = calls.n and messages.seq = calls.result_seq
    left join payloads as results on results.n = calls.n and results.seq = calls.result_seq and results.i = 0
"""

STATEMENTS = {
    "sqlite": (
        "drop view tool_calls",
        "drop view conversation_turns",
        "alter table calls add column parent integer",
        "alter table turns add column context text",
        SQLITE_CONVERSATION_TURNS,
        SQLITE_TOOL_CALLS,
    ),
    "postgresql": (
        "drop view tool_calls",
        "drop view conversation_turns",
        "alter table calls add column parent bigint",
        'alter table turns add column context text collate "C"',
        POSTGRESQL_CONVERSATION_TURNS,
        POSTGRESQL_TOOL_CALLS,
    ),
}


def upgrade() -> None:
    db = op.get_bind()
    for statement in STATEMENTS[db.dialect.name]:
        db.exec_driver_sql(statement)
    set_context = (
        TURNS.update()
        .where(TURNS.c.n == bindparam("of_n"), TURNS.c.seq == bindparam("of_seq"))
        .values(context=bindparam("to_context"))
    )
    for pinned in _pinned_contexts():
        db.execute(set_context, pinned)


def _pinned_contexts() -> Iterator[list[dict[str, Any]]]:
    """A page at a time: the digest that each turn pinned, and the key of its row."""
    key = (ENTRIES.c.n, ENTRIES.c.seq)
    pinning = select(*key, ENTRIES.c.head).where(ENTRIES.c.kind.in_(PINNING)).order_by(*key).limit(PAGE_ROWS)
    after = (0, -1)
    while rows := op.get_bind().execute(pinning.where(tuple_(*key) > after)).all():
        after = rows[-1][:2]
        found = [
            {"of_n": n, "of_seq": turn, "to_context": component["context"]}
            for n, _, head in rows
            for turn, name, component in json.loads(head).get("changes", ())
            if name == "turn_config"
        ]
        if found:
            yield found

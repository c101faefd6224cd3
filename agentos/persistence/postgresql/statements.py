"""What the writing connection says to PostgreSQL. Values come in the order of the question marks.

A batch is one statement, and so one round trip and one transaction: heads are checked and locked, and only when all of
them fit does anything move. What a batch does not touch is left out of the statement, so a few forms of it are all that a
server ever plans. The rows of a table come as one JSON text, which costs the client far less than a value for each field,
or than an array for each column; bytes stand in it as base64. `u.i` says to which of the logs a row belongs, counted from
1: first those that are there, then those that begin, each in the order of their names.
"""

from __future__ import annotations

from functools import cache

from agentos.persistence.postgresql.placeholders import numbered

HEADS = """
heads as materialized (
    select logs.id, logs.n
    from json_to_recordset(?::json) as u (id text, seq int8, digest text, owner int8, epoch int8)
        join logs on logs.id = u.id and logs.seq = u.seq and logs.digest = decode(u.digest, 'base64')
            and logs.owner = u.owner and logs.epoch = u.epoch
    order by logs.id for update of logs
),
fit as materialized (select array_agg(n order by id) as numbers from heads having count(*) = ?::int8),
moved as (
    update logs set seq = u.to_seq, digest = decode(u.to_digest, 'base64')
    from fit, json_to_recordset(?::json) as u (i int8, to_seq int8, to_digest text)
    where logs.n = fit.numbers[u.i]
)
"""
NO_HEADS = "fit as materialized (select '{}'::int8[] as numbers)"
LOGS = """
made as (
    insert into logs (id, tenant, kind, owner, epoch, seq, digest, parent_call, root, forked_from, upto)
    select u.id, u.tenant, u.kind, u.owner, u.epoch, u.seq, decode(u.digest, 'base64'), u.parent_call, u.root,
        u.forked_from, u.upto
    from fit, rows from (
        json_to_recordset(?::json) as (
            id text, tenant text, kind text, owner int8, epoch int8, seq int8, digest text, parent_call text, root text,
            forked_from text, upto int8
        )
    ) with ordinality as u (
        id, tenant, kind, owner, epoch, seq, digest, parent_call, root, forked_from, upto, place
    )
    order by u.place
    returning id, n
),
placed as materialized (select numbers || (select array_agg(n order by id) from made) as numbers from fit)
"""
NO_LOGS = "placed as (select numbers from fit)"

ROWS = {
    "entries": """
stored_entries as (
    insert into entries (n, seq, unit, kind, turn, call, at, head, digest)
    select placed.numbers[u.i], u.seq, u.unit, u.kind, u.turn, u.call, u.at, u.head, decode(u.digest, 'base64')
    from placed, json_to_recordset(?::json) as u (
        i int8, seq int8, unit int8, kind text, turn int8, call int8, at int8, head text, digest text
    )
)
""",
    "payloads": """
stored_payloads as (
    insert into payloads (n, seq, i, name, salt, body)
    select placed.numbers[u.i], u.seq, u.ordinal, u.name, decode(u.salt, 'base64'), u.body
    from placed, json_to_recordset(?::json) as u (i int8, seq int8, ordinal int8, name text, salt text, body text)
)
""",
    "messages": """
stored_messages as (
    insert into messages (n, seq, role, turn, call, salt, text)
    select placed.numbers[u.i], u.seq, u.role, u.turn, u.call, decode(u.salt, 'base64'), u.text
    from placed, json_to_recordset(?::json) as u (
        i int8, seq int8, role text, turn int8, call int8, salt text, text text
    )
)
""",
    "definitions": """
stored_definitions as (
    insert into definitions (digest, kind, body)
    select u.digest, u.kind, u.body from placed, json_to_recordset(?::json) as u (digest text, kind text, body text)
    on conflict (digest) do nothing
)
""",
    "conversations": """
stored_conversations as (
    insert into conversations (
        n, id, agent, state, depth, parent, root, open_turn, turns, steps, calls, input_tokens, output_tokens,
        started_at, updated_at
    )
    select placed.numbers[u.i], u.id, u.agent, u.state, u.depth, u.parent, u.root, u.open_turn, u.turns, u.steps,
        u.calls, u.input_tokens, u.output_tokens, u.started_at, u.updated_at
    from placed, json_to_recordset(?::json) as u (
        i int8, id text, agent text, state text, depth int8, parent text, root text, open_turn int8, turns int8,
        steps int8, calls int8, input_tokens int8, output_tokens int8, started_at int8, updated_at int8
    )
    on conflict (n) do update set agent = excluded.agent, state = excluded.state, open_turn = excluded.open_turn,
        turns = excluded.turns, steps = excluded.steps, calls = excluded.calls, input_tokens = excluded.input_tokens,
        output_tokens = excluded.output_tokens, updated_at = excluded.updated_at
)
""",
    "turns": """
stored_turns as (
    insert into turns (
        n, seq, state, outcome, outcome_name, steps, calls, input_tokens, output_tokens, started_at, finished_at, context
    )
    select placed.numbers[u.i], u.seq, u.state, u.outcome, u.outcome_name, u.steps, u.calls, u.input_tokens,
        u.output_tokens, u.started_at, u.finished_at, u.context
    from placed, json_to_recordset(?::json) as u (
        i int8, seq int8, state text, outcome text, outcome_name text, steps int8, calls int8, input_tokens int8,
        output_tokens int8, started_at int8, finished_at int8, context text
    )
    on conflict (n, seq) do update set state = excluded.state, outcome = excluded.outcome,
        outcome_name = excluded.outcome_name, steps = excluded.steps, calls = excluded.calls,
        input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
        finished_at = excluded.finished_at
)
""",
    "calls": """
stored_calls as (
    insert into calls (
        n, seq, turn, step, ordinal, tool, toolbox, effect, status, kind, attempt, child, started_at, finished_at,
        arguments_seq, arguments_i, result_seq, parent, resolution
    )
    select placed.numbers[u.i], u.seq, u.turn, u.step, u.ordinal, u.tool, u.toolbox, u.effect, u.status, u.kind,
        u.attempt, u.child, u.started_at, u.finished_at, u.arguments_seq, u.arguments_i, u.result_seq, u.parent,
        u.resolution
    from placed, json_to_recordset(?::json) as u (
        i int8, seq int8, turn int8, step int8, ordinal int8, tool text, toolbox text, effect text, status text,
        kind text, attempt int8, child text, started_at int8, finished_at int8, arguments_seq int8, arguments_i int8,
        result_seq int8, parent int8, resolution text
    )
    on conflict (n, seq) do update set toolbox = excluded.toolbox, effect = excluded.effect, status = excluded.status,
        kind = excluded.kind, attempt = excluded.attempt, child = excluded.child, started_at = excluded.started_at,
        finished_at = excluded.finished_at, arguments_seq = excluded.arguments_seq,
        arguments_i = excluded.arguments_i, result_seq = excluded.result_seq,
        resolution = coalesce(excluded.resolution, calls.resolution)
)
""",
    "resolved": """
resolved_calls as (
    update calls set resolution = u.resolution
    from placed, json_to_recordset(?::json) as u (i int8, seq int8, resolution text)
    where calls.n = placed.numbers[u.i] and calls.seq = u.seq
)
""",
    "components": """
stored_components as (
    insert into components (n, entity, type, body)
    select placed.numbers[u.i], u.entity, u.type, u.body
    from placed, json_to_recordset(?::json) as u (i int8, entity text, type text, body text)
    on conflict (n, entity, type) do update set body = excluded.body
)
""",
    "posts": """
stored_posts as (
    insert into inbox (log, key, kind, salt, body, seq)
    select u.log, u.key, u.kind, decode(u.salt, 'base64'), u.body, u.seq
    from placed, rows from (
        json_to_recordset(?::json) as (log text, key text, kind text, salt text, body text, seq int8)
    ) with ordinality as u (log, key, kind, salt, body, seq, place)
    order by u.place
    on conflict (log, key) do update set seq = excluded.seq, salt = null, body = null
        where inbox.seq is null and excluded.seq is not null
    returning n
)
""",
    "taken": """
taken_posts as (
    update inbox set seq = u.seq, salt = null, body = null
    from placed, json_to_recordset(?::json) as u (seq int8, log text, key text)
    where inbox.log = u.log and inbox.key = u.key and inbox.seq is null
)
""",
    "woken": """
deleted_wakeups as (
    delete from wakeups
    using placed, json_to_recordset(?::json) as u (log text, reason text, turn int8, call int8)
    where wakeups.log = u.log and wakeups.reason = u.reason and wakeups.turn = u.turn and wakeups.call = u.call
)
""",
    "wakeups": """
stored_wakeups as (
    insert into wakeups (log, reason, turn, call, due_at)
    select u.log, u.reason, u.turn, u.call, u.due_at
    from placed, json_to_recordset(?::json) as u (log text, reason text, turn int8, call int8, due_at int8)
    on conflict (log, reason, turn, call) do update set due_at = excluded.due_at
)
""",
}
"""The part for each kind of row, in the order in which the values come."""

_DONE = "select '{}'::int8[] from placed"
_DONE_WITH_POSTS = "select coalesce((select array_agg(n) from stored_posts), '{}') from placed"

LOCK_HEADS = numbered("select id, owner, epoch, seq, digest from logs where id = any(?::text[]) order by id for update")
STORED_BEFORE = numbered("""
    select u.log, u.seq, entries.digest
    from unnest(?::text[], ?::int8[]) as u (log, seq)
        join logs on logs.id = u.log
        join entries on entries.n = logs.n and entries.seq = u.seq
""")
POST = numbered("""
    insert into inbox (log, key, kind, salt, body) values (?, ?, ?, ?, ?) on conflict (log, key) do nothing returning n
""")
POSTED_BEFORE = numbered("select n from inbox where log = ? and key = ? and salt = ?")

ERASE_PAYLOADS = numbered("""
    update payloads set salt = null, body = null from logs
    where logs.id = ? and payloads.n = logs.n and payloads.seq <= ?
        and (payloads.salt is not null or payloads.body is not null)
""")
ERASE_MESSAGES = numbered("""
    update messages set salt = null, text = null from logs
    where logs.id = ? and messages.n = logs.n and messages.seq <= ?
        and (messages.salt is not null or messages.text is not null)
""")
ERASE_POSTS = numbered("""
    update inbox set salt = null, body = null, seq = coalesce(inbox.seq, ?)
    where inbox.log = ? and (inbox.seq is null or inbox.body is not null)
""")
MARK_ERASED = numbered("update logs set erased_at = ? where id = ?")


@cache
def append_statement(heads: bool, logs: bool, rows: tuple[str, ...]) -> str:
    """Of a batch with units on heads that are there, with new logs, and with rows of these kinds (keys of ROWS).

    It gives no row, and did nothing, when a head does not fit; else the numbers of the posts that it made. Raises a unique
    violation when a new log is there already.
    """
    parts = [HEADS if heads else NO_HEADS, LOGS if logs else NO_LOGS, *(ROWS[kind] for kind in rows)]
    end = _DONE_WITH_POSTS if "posts" in rows else _DONE
    return numbered("with " + ",".join(parts) + end)

"""The writing statements of SQLite, word for word as SQLAlchemy makes them from `schema`; a test proves it.

They are literal so that a turn neither imports SQLAlchemy nor builds SQL. Values come in the order of the question
marks.
"""

from __future__ import annotations

INSERT_LOG = (
    "INSERT INTO logs (id, tenant, kind, owner, epoch, seq, digest, parent_call, root, forked_from, upto)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
MOVE_HEAD = (
    "UPDATE logs SET seq=?, digest=?"
    " WHERE logs.n = ? AND logs.seq = ? AND logs.digest = ? AND logs.owner = ? AND logs.epoch = ?"
)
TAKE_LOG = "UPDATE logs SET owner=?, epoch=? WHERE logs.id = ?"

INSERT_ENTRY = (
    "INSERT INTO entries (n, seq, unit, kind, turn, call, at, head, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_PAYLOAD = "INSERT INTO payloads (n, seq, i, name, salt, body) VALUES (?, ?, ?, ?, ?, ?)"
INSERT_MESSAGE = "INSERT INTO messages (n, seq, role, turn, call, salt, text) VALUES (?, ?, ?, ?, ?, ?, ?)"

SET_COMPONENT = (
    "INSERT INTO components (n, entity, type, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (n, entity, type) DO UPDATE SET body = excluded.body"
)
SET_CONVERSATION = (
    "INSERT INTO conversations (n, id, agent, state, depth, parent, root, open_turn, turns, steps, calls,"
    " input_tokens, output_tokens, started_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (n) DO UPDATE SET agent = excluded.agent, state = excluded.state, open_turn = excluded.open_turn,"
    " turns = excluded.turns, steps = excluded.steps, calls = excluded.calls, input_tokens = excluded.input_tokens,"
    " output_tokens = excluded.output_tokens, updated_at = excluded.updated_at"
)
SET_TURN = (
    "INSERT INTO turns (n, seq, state, outcome, outcome_name, steps, calls, input_tokens, output_tokens, started_at,"
    " finished_at, context) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (n, seq) DO UPDATE SET state = excluded.state, outcome = excluded.outcome,"
    " outcome_name = excluded.outcome_name, steps = excluded.steps, calls = excluded.calls,"
    " input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,"
    " finished_at = excluded.finished_at"
)
SET_CALL = (
    "INSERT INTO calls (n, seq, turn, step, ordinal, tool, toolbox, effect, status, kind, attempt, child, started_at,"
    " finished_at, arguments_seq, arguments_i, result_seq, parent)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (n, seq) DO UPDATE SET toolbox = excluded.toolbox, effect = excluded.effect,"
    " status = excluded.status, kind = excluded.kind, attempt = excluded.attempt, child = excluded.child,"
    " started_at = excluded.started_at, finished_at = excluded.finished_at,"
    " arguments_seq = excluded.arguments_seq, arguments_i = excluded.arguments_i, result_seq = excluded.result_seq"
)
RESOLVE_CALL = "UPDATE calls SET resolution=? WHERE calls.n = ? AND calls.seq = ?"
INSERT_DEFINITION = "INSERT INTO definitions (digest, kind, body) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"

INSERT_POST = (
    'INSERT INTO inbox (log, "key", kind, salt, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (log, "key") DO NOTHING'
)
TAKE_POST = 'UPDATE inbox SET salt=NULL, body=NULL, seq=? WHERE inbox.log = ? AND inbox."key" = ? AND inbox.seq IS NULL'
ERASE_PAYLOADS = "UPDATE payloads SET salt=NULL, body=NULL WHERE payloads.n = ? AND payloads.seq <= ?"
ERASE_MESSAGES = "UPDATE messages SET salt=NULL, text=NULL WHERE messages.n = ? AND messages.seq <= ?"
ERASE_POSTS = (
    "UPDATE inbox SET salt=NULL, body=NULL, seq=coalesce(inbox.seq, ?)"
    " WHERE inbox.log = ? AND (inbox.seq IS NULL OR inbox.body IS NOT NULL)"
)
MARK_ERASED = "UPDATE logs SET erased_at=? WHERE logs.n = ?"
SET_WAKEUP = (
    "INSERT INTO wakeups (log, reason, turn, call, due_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (log, reason, turn, call) DO UPDATE SET due_at = excluded.due_at"
)
DELETE_WAKEUP = (
    "DELETE FROM wakeups WHERE wakeups.log = ? AND wakeups.reason = ? AND wakeups.turn = ? AND wakeups.call = ?"
)

INSERT_WRITER = "INSERT INTO writers (incarnation, host, pid, started_at) VALUES (?, ?, ?, ?)"
END_WRITER = "UPDATE writers SET ended_at=? WHERE writers.n = ? AND writers.ended_at IS NULL"

-- The first schema, as it was. Not to be changed: what came later stands in the later revisions.
-- Times are microseconds since 1970, UTC. n is the number of a log; (n, seq) is the key of nearly everything.
-- A salt and a body (or text) are NULL together, and only once they were erased or taken.
-- entries, payloads and messages keep the order of arrival, so that a batch of many logs fills few pages; the others, the
-- order of their keys.

pragma application_id = 1634168691;
pragma user_version = 1;

-- Head, ownership and fence of each log. A fork holds entries from upto + 1; those before are its parent's.
create table logs (
    n integer not null primary key,
    id text not null unique,
    tenant text,
    kind text not null,
    owner integer not null,
    epoch integer not null,
    seq integer not null,
    digest blob not null,
    parent_call text,
    root text,
    forked_from text,
    upto integer not null,
    erased_at integer
);
create index logs_forks on logs (forked_from) where forked_from is not null;

-- What was decided or received, in order: the truth of a log. head is attested by digest and holds no private text.
create table entries (
    n integer not null,
    seq integer not null,
    unit integer not null,
    kind text not null,
    turn integer not null,
    call integer not null,
    at integer not null,
    head text not null,
    digest blob not null,
    primary key (n, seq)
);

-- The private values of entries, but for those that stand in messages.
create table payloads (
    n integer not null,
    seq integer not null,
    i integer not null,
    name text not null,
    salt blob,
    body text,
    primary key (n, seq, i)
);

-- What was said: value 0 of each entry that is a message of the user, the assistant or a tool.
create table messages (
    n integer not null,
    seq integer not null,
    role text not null,
    turn integer not null,
    call integer not null,
    salt blob,
    text text,
    primary key (n, seq)
);

-- Components of entities, as JSON.
create table components (
    n integer not null,
    entity text not null,
    type text not null,
    body text not null,
    primary key (n, entity, type)
) without rowid;

create table conversations (
    n integer not null primary key,
    id text not null,
    agent text not null,
    state text not null,
    depth integer not null,
    parent text,
    root text not null,
    open_turn integer,
    turns integer not null,
    steps integer not null,
    calls integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    started_at integer not null,
    updated_at integer not null
);
create index conversations_open on conversations (open_turn) where open_turn > 0;
create index conversations_parent on conversations (parent) where parent is not null;
create index conversations_root on conversations (root) where parent is not null;

create table turns (
    n integer not null,
    seq integer not null,
    state text not null,
    outcome text,
    outcome_name text,
    steps integer not null,
    calls integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    started_at integer not null,
    finished_at integer,
    primary key (n, seq)
) without rowid;

-- (arguments_seq, arguments_i) is the payload that holds the arguments, result_seq the message that holds the result.
create table calls (
    n integer not null,
    seq integer not null,
    turn integer not null,
    step integer not null,
    ordinal integer not null,
    tool text not null,
    toolbox text,
    effect text not null,
    status text not null,
    kind text,
    attempt integer not null,
    child text,
    started_at integer,
    finished_at integer,
    arguments_seq integer,
    arguments_i integer,
    result_seq integer,
    primary key (n, seq)
) without rowid;

-- Agents, toolsets and rules that turns have pinned, by the digest of their body.
create table definitions (
    digest text not null primary key,
    kind text not null,
    body text not null
) without rowid;

-- Items under way to a log, in the order of n. seq is NULL until a unit takes the item; the key is remembered.
create table inbox (
    n integer not null primary key,
    log text not null,
    key text not null,
    kind text not null,
    salt blob,
    body text,
    seq integer,
    unique (log, key)
);
create index inbox_waiting on inbox (log) where seq is null;

create table wakeups (
    log text not null,
    reason text not null,
    turn integer not null,
    call integer not null,
    due_at integer not null,
    primary key (log, reason, turn, call)
) without rowid;
create index wakeups_due on wakeups (due_at);

-- Budgets: what may be used of a unit in a scope, what is set aside for open calls, and what was used.
create table accounts (
    id text not null primary key,
    tenant text,
    scope text not null,
    entity text not null,
    unit text not null,
    limit_amount integer,
    reserved integer not null,
    used integer not null,
    updated_at integer not null
) without rowid;

-- Every kernel that ever opened the store for writing. ended_at: when it closed, or was found dead by another.
create table writers (
    n integer not null primary key,
    incarnation text not null,
    host text not null,
    pid integer not null,
    started_at integer not null,
    beat_at integer,
    ended_at integer
);

-- Views for people: whole ids, times as text, the names of the earlier systems.

create view events as
select
    logs.id as conversation,
    entries.seq as seq,
    entries.unit as unit,
    entries.kind as kind,
    case when entries.turn > 0 then 'turn_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || entries.turn end
        as turn_id,
    case when entries.call > 0 then 'call_' || substr(logs.id, instr(logs.id, '_') + 1) || '_' || entries.call end
        as call_id,
    strftime('%Y-%m-%dT%H:%M:%S', entries.at / 1000000, 'unixepoch') || printf('.%06dZ', entries.at % 1000000) as at,
    entries.at as at_us
from entries join logs on logs.n = entries.n;

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
    (turns.finished_at - turns.started_at) / 1000.0 as ms
from turns join logs on logs.n = turns.n;

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
    messages.text as result,
    strftime('%Y-%m-%dT%H:%M:%S', calls.started_at / 1000000, 'unixepoch')
        || printf('.%06dZ', calls.started_at % 1000000) as started_at,
    strftime('%Y-%m-%dT%H:%M:%S', calls.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', calls.finished_at % 1000000) as finished_at,
    (calls.finished_at - calls.started_at) / 1000.0 as ms
from calls
    join logs on logs.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
    left join messages on messages.n = calls.n and messages.seq = calls.result_seq;

create view entities as
select
    components.entity as id,
    substr(components.entity, 1, instr(components.entity, '_') - 1) as kind,
    logs.id as conversation,
    components.type as type,
    components.body as body
from components join logs on logs.n = components.n;

-- The messages of a conversation; of a fork, with those that it shares with the logs it came from.
create view history as
with recursive lines (conversation, n, upto) as (
    select forks.id, parents.n, forks.upto
    from logs as forks join logs as parents on parents.id = forks.forked_from
    where forks.forked_from is not null
    union all
    select lines.conversation, parents.n, min(lines.upto, forks.upto)
    from lines
        join logs as forks on forks.n = lines.n
        join logs as parents on parents.id = forks.forked_from
)
select
    logs.id as conversation,
    messages.seq as seq,
    messages.role as role,
    messages.text as text,
    strftime('%Y-%m-%dT%H:%M:%S', entries.at / 1000000, 'unixepoch') || printf('.%06dZ', entries.at % 1000000) as at
from messages
    join logs on logs.n = messages.n
    left join entries on entries.n = messages.n and entries.seq = messages.seq
union all
select
    lines.conversation,
    messages.seq,
    messages.role,
    messages.text,
    strftime('%Y-%m-%dT%H:%M:%S', entries.at / 1000000, 'unixepoch') || printf('.%06dZ', entries.at % 1000000)
from lines
    join messages on messages.n = lines.n and messages.seq <= lines.upto
    left join entries on entries.n = messages.n and entries.seq = messages.seq;

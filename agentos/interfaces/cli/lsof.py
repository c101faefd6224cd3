"""lsof: what is open in the kernels that run, who has it, and who waits for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from agentos.components import Access, Pattern
from agentos.errors import UnknownConversation
from agentos.ids import Kind, agent_id, hashed_id, log_and_seq
from agentos.interfaces.cli.errors import Exit, UsageError, hint
from agentos.interfaces.cli.finding import AMBIGUOUS_MAX, WORD_MAX, find_place, short
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import bold, clipped, is_terminal, put_json, say, table, terminal_width
from agentos.interfaces.cli.ps import span
from agentos.interfaces.cli.running import all_running, answers
from agentos.kernel.lsof import WEIGHT, OpenResource, ResourceUser, Takes, concerning, nearest
from agentos.kernel.reading import reading

COLUMNS = (
    "resource",
    "name",
    "kind",
    "state",
    "for",
    "agent",
    "tenant",
    "weight",
    "conversation",
    "turn",
    "call",
    "pattern",
    "size",
    "takes",
    "scope",
)
IF_ANY = frozenset({"tenant", "weight"})
"""Columns that stand there only when something is in them: weights of those that wait and share by another one than 1."""
WRITER = "writer"
"""The first column, where several kernels run over the store."""
HAS, READS, WRITES, WAITS, FREE = "has", "reads", "writes", "waits", "free"
PART_MIN = 4
"""How many letters of an id must be given."""


class Seen(NamedTuple):
    """A resource, and the kernel that it was seen in."""

    writer: int
    resource: OpenResource


async def lsof(of: str | None = None, /, *, whole: Flag = False, json: Flag = False, here: Here) -> int:
    """List what is open in running kernels, who has it, and who waits for it.

    Processes, connections, folders and other resources, and the slots of toolboxes: a line for each that has one or waits,
    by its agent, conversation, turn and call, and one for what is free. Turns and calls are told by their seqs.

    Parameters
    ----------
    of
        a conversation, turn, call, toolbox, agent or resource, by its id, the end of it, or its name: only what that, or
        what is below it, has or waits for
    whole
        whole ids in place of their last letters
    json
        print one JSON object
    """
    url = here.store_url()
    async with all_running(url) as running:
        if not running:
            say(await running.why_none())
            return Exit.FAILURE
        said = [pair async for pair in answers(running, lambda kernel: kernel.lsof())]
        if not said:
            say("no kernel over this store answers")
            return Exit.FAILURE
    seen = [Seen(kernel.greeting.writer, one) for kernel, open_ in said for one in open_]
    named = None if of is None else await _named(url, of.strip(), [one.resource for one in seen])
    if named is not None:
        seen = [Seen(writer, one) for writer, open_ in seen for one in concerning([open_], named)]
    if json:
        put_json({"resources": [{"writer": writer, **as_object(one)} for writer, one in seen]})
    elif seen:
        _put(seen, whole=whole)
    else:
        say("nothing is open" if named is None else f"{named} has nothing, and waits for nothing")
    return Exit.OK


def as_object(one: OpenResource) -> dict[str, Any]:
    """A resource with all that is known of it; of each user, conversation, turn and call by their ids."""
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(one, holders=(), waiters=()))
    scope = "/".join(one.scope)
    waiters = [
        {**_user(user), "weight": user.weight, "tenant_weight": user.tenant_weight if user.tenant else None}
        for user in one.waiters
    ]
    users = {"holders": [_user(user) for user in one.holders], "waiters": waiters}
    return {**plain, "scope": scope, "takes": [msgspec.to_builtins(takes) for takes in one.takes], **users}


def rows_of(one: OpenResource, *, whole: bool = False) -> Iterator[list[Any]]:
    """As COLUMNS has it: a row for each that has it or waits, the longest first; one row when there is nobody."""
    for state, users in ((None, one.holders), (WAITS, one.waiters)):
        for user in users:
            yield _row(one, state or _has(one, user), user, whole=whole)
    if not one.holders and not one.waiters:
        yield _row(one, FREE, None, whole=whole)


def _put(seen: Sequence[Seen], *, whole: bool) -> None:
    """On a terminal every line is cut to its width: what matters most stands to the left."""
    several = len({writer for writer, _ in seen}) > 1
    rows = [[writer, *row] for writer, one in seen for row in rows_of(one, whole=whole)]
    names = [WRITER, *COLUMNS]
    shown = [n for n, name in enumerate(names) if _stands(name, [row[n] for row in rows], several=several)]
    terminal = is_terminal(sys.stdout)
    cut = [[row[n] for n in shown] for row in rows]
    for n, line in enumerate(table([names[n] for n in shown], cut, clip=terminal and not whole)):
        text = clipped(line, terminal_width()) if terminal else line
        print(bold(text, sys.stdout) if n == 0 else text)


def _stands(name: str, values: Sequence[Any], *, several: bool) -> bool:
    """Whether a column is shown."""
    if name == WRITER:
        return several
    return name not in IF_ANY or any(value is not None for value in values)


def _has(one: OpenResource, user: ResourceUser) -> str:
    if one.pattern is not Pattern.READ_WRITE:
        return HAS
    return READS if user.access is Access.READ else WRITES


def _row(one: OpenResource, state: str, user: ResourceUser | None, *, whole: bool) -> list[Any]:
    frames = user.frames if user is not None else ()
    conversation, turn, call = (nearest(frames, kind) for kind in (Kind.CONVERSATION, Kind.TURN, Kind.CALL))
    return [
        one.id if whole else short(one.id),
        one.name,
        one.kind,
        state,
        span(user.for_ms / 1_000) if user is not None else None,
        _agent_of(user),
        user.tenant if user is not None else None,
        _weight_of(user) if user is not None and state == WAITS else None,
        conversation if whole else short(conversation),
        turn if whole else _seq(turn),
        call if whole else _seq(call),
        one.pattern.value,
        one.size or None,
        " ".join(map(_taken, one.takes)) or None,
        "/".join(one.scope),
    ]


def _agent_of(user: ResourceUser | None) -> str | None:
    if user is None:
        return None
    return user.agents[-1] if user.agents else ("the program" if not user.frames else None)


def _weight_of(user: ResourceUser) -> str | None:
    """2.5, or tenant 4, or both; None where all is as it is for everybody."""
    own = f"{user.weight:g}" if user.weight != WEIGHT else ""
    of_tenant = f"tenant {user.tenant_weight:g}" if user.tenant_weight != WEIGHT else ""
    return ", ".join(filter(None, (own, of_tenant))) or None


def _seq(id_: str | None) -> int | None:
    return log_and_seq(id_)[1] if id_ is not None else None


def _taken(takes: Takes) -> str:
    facts = (
        f"pid={takes.pid}" if takes.pid is not None else "",
        f"{takes.bytes:,} bytes" if takes.bytes is not None else "",
        takes.path or "",
    )
    return " ".join(filter(None, facts))


def _user(user: ResourceUser) -> dict[str, Any]:
    kinds = (("conversation", Kind.CONVERSATION), ("turn", Kind.TURN), ("call", Kind.CALL))
    return {
        "agent": user.agents[-1] if user.agents else None,
        "tenant": user.tenant,
        **{name: nearest(user.frames, kind) for name, kind in kinds},
        "frames": list(user.frames),
        "access": user.access.value,
        "since_us": user.since,
        "for_ms": user.for_ms,
    }


async def _named(url: str, word: str, resources: Sequence[OpenResource]) -> str:
    """The id or name that is meant: of something that has or is a resource, else of any conversation of the store.

    Errors: UsageError for a part that several have, and for what is nearly the name of something;
    UnknownConversation for what there is nowhere.
    """
    known = set(_known(resources))
    if word in known:
        return word
    found = sorted(id_ for id_ in known if len(word) >= PART_MIN and id_.endswith(word))
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:AMBIGUOUS_MAX]) + (", ..." if len(found) > AMBIGUOUS_MAX else "")
        raise UsageError(f"{word!r} is the end of {len(found)} ids: {shown}")
    async with reading(url) as store:
        for log in (word, agent_id(word), hashed_id(Kind.TOOLBOX, word)):
            if await store.store.log(log) is not None:
                return word
        if near := hint(word, known):
            raise UsageError(f"nothing named {word[:WORD_MAX]!r} is open, or has anything{near}")
        try:
            place = await find_place(store, word)
        except UnknownConversation as error:
            error.args = (f"nothing named {word[:WORD_MAX]!r} is open, or has anything, and {error}",)
            raise
        return word if place.seq else place.conversation


def _known(resources: Iterable[OpenResource]) -> Iterator[str]:
    """What may be asked for, by id and by name."""
    for one in resources:
        yield from (one.id, one.name, *one.scope[1:])
        if one.toolbox is not None:
            yield hashed_id(Kind.TOOLBOX, one.toolbox)
        for user in (*one.holders, *one.waiters):
            yield from (*user.frames, *user.agents)

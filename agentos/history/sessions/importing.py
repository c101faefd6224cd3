"""Import: a session of agents-exe becomes a stored conversation, which says the same and can go on.

What it recorded is decided by the same systems as every turn, so that verify, replay, show, lineage and query need to know
nothing of it. Its times are those that the session tells, so that each import should be by a writer of its own, whose time
never goes back; that writer's row says when it was done. All of it is stored in one append, or nothing.

The conversation belongs to nobody, no turn of it is open, and its agent is a name. Nothing runs by it: it goes on when a
person says something to it and an agent of that name is installed.
"""

from __future__ import annotations

import hashlib
import json
import re

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.errors import ConfigurationError, StoreError
from agentos.history.sessions.contexts import Contexts
from agentos.history.sessions.deciding import Deciding
from agentos.history.sessions.model import Session, user_turns
from agentos.history.sessions.playing import Playing
from agentos.ids import ConversationId, Kind, LogId, RandomSalts, SaltSource, hashed_id
from agentos.persistence.base import Store, Unit, Verdict
from agentos.settings import Settings
from agentos.systems import SCHEDULE

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_NO_SLUG = re.compile(r"[^a-z0-9]")
_NAMED_BY = 8
"""How many letters of a session's id stand in the name of its agent."""
_AGENT = "select agent, turns from conversations where id = ?"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session. new is False when it was there already, as it is: then nothing was written.

    notes say what of the session could not be kept as it was.
    """

    conversation: ConversationId
    agent: str
    turns: int
    messages: int
    entries: int
    new: bool
    notes: tuple[str, ...] = ()


async def import_session(
    store: Store,
    writer: int,
    session: Session,
    agent: str | None = None,
    *,
    clock: Clock | None = None,
    salts: SaltSource | None = None,
    settings: Settings | None = None,
) -> Imported:
    """Stores a session as a conversation of that agent, else of one with a name made from the session.

    The store is open, and writer is the number that it gave. The same session gives the same conversation, whose id is made
    from the session's id and all that it says: a session that has grown since is another conversation.
    Errors: ConfigurationError for a name that no agent can have, or when the conversation is there with another agent;
    CodecError for a session that no conversation can hold; StoreError.
    """
    slug, settings = _slug(agent, session), settings or Settings()
    log = conversation_of(session)
    if await store.log(log) is not None:
        return await _known(store, log, agent)
    deciding = Deciding(LogId(log), writer, salts or RandomSalts(), settings)
    contexts = Contexts(session, slug, SCHEDULE.digest())
    playing = Playing(session, deciding, contexts, (clock or SystemClock()).now())
    playing.play(log, slug, settings.children_max)
    await _append(store, log, deciding.units)
    return _imported(log, slug, deciding.units, [*_lenient(contexts), *_media(session), *playing.notes])


def conversation_of(session: Session) -> ConversationId:
    """The id of the conversation that a session becomes."""
    whole = json.dumps(msgspec.to_builtins(session), sort_keys=True)  # escaped, so that every text has a form
    content = hashlib.sha256(whole.encode()).hexdigest()
    return ConversationId(hashed_id(Kind.CONVERSATION, "agents-exe", session.id, content))


def _slug(agent: str | None, session: Session) -> str:
    """Raises ConfigurationError."""
    if agent is None:
        return f"imported-{_NO_SLUG.sub('', session.id.lower())[:_NAMED_BY] or 'session'}"
    if not _SLUG.fullmatch(agent):
        raise ConfigurationError(f"no agent can have the name {agent[:80]!r}: up to 60 letters, digits, _ and -")
    return agent


async def _known(store: Store, log: ConversationId, agent: str | None) -> Imported:
    """Raises ConfigurationError when another agent is wanted."""
    ((slug, turns),) = (await store.query(_AGENT, (log,))).rows
    if agent is not None and agent != slug:
        raise ConfigurationError(
            f"it was imported before, as {log} of agent {slug!r}, and stays with that; a fork of it may go on with another"
        )
    return Imported(conversation=log, agent=slug, turns=turns, messages=0, entries=0, new=False)


async def _append(store: Store, log: str, units: list[Unit]) -> None:
    answer = store.append(units)
    verdicts = answer if isinstance(answer, list) else await answer
    for verdict in verdicts:
        if verdict is not Verdict.STORED:
            raise StoreError(f"{store.url}: {log} is {verdict.value}: somebody else imports it just now")


def _imported(log: ConversationId, slug: str, units: list[Unit], notes: list[str]) -> Imported:
    kinds = [kind for unit in units for _, _, kind, *_ in unit.entries]
    return Imported(
        conversation=log,
        agent=slug,
        turns=kinds.count("turn.started"),
        messages=sum(len(unit.messages) for unit in units),
        entries=len(kinds),
        new=True,
        notes=tuple(notes),
    )


def _lenient(contexts: Contexts) -> list[str]:
    if not contexts.lenient:
        return []
    return [f"the schema of {', '.join(sorted(contexts.lenient))} is left out: a recorded call does not fit it"]


def _media(session: Session) -> list[str]:
    count = sum(len(turn.media) + sum(len(result.media) for result in turn.results) for turn in user_turns(session))
    if not count:
        return []
    return (
        ["the bytes of an attachment are left out; a line stands in its place"]
        if count == 1
        else [f"the bytes of {count} attachments are left out; each has a line in its place"]
    )

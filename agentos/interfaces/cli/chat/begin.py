"""What a chat begins with: a conversation of the store with its last messages, and agents that know that somebody listens."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import msgspec

from agentos.codec import decode_text
from agentos.components import ApprovalMode, Verdict
from agentos.definitions import AgentSpec
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.workplace import Workplace
from agentos.kernel.reading import Reading, reading

MESSAGES_SHOWN = 6
CHARS_SHOWN = 2_000

_LAST = "select id from conversations where parent is null order by updated_at desc, id desc limit 1"
_AGENT = "select conversations.agent, logs.tenant from conversations join logs using (n) where conversations.id = ?"
_SEQS = """
select conversations.id, logs.seq from conversations join logs on logs.n = conversations.n
where conversations.root = (select root from conversations where id = ?)
"""
_MESSAGES = """
select role, text from history where conversation = ? and role in ('user', 'assistant') and text <> ''
order by seq desc limit ?
"""


class Begun(NamedTuple):
    """A conversation that is there: its agent and tenant, the last seq of each log of its tree, its last messages with
    roles."""

    id: str
    agent: str
    seqs: dict[str, int]
    messages: tuple[tuple[str, str], ...]
    tenant: str | None = None


async def find_begun(url: str, text: str | None) -> Begun:
    """The conversation that this names, or the last one. Raises UsageError, UnknownConversation."""
    async with reading(url) as store:
        id_ = await (find_conversation(store, text) if text is not None else _last(store))
        ((agent, tenant),) = (await store.query(_AGENT, (id_,))).rows
        seqs = {str(log): int(seq) for log, seq in (await store.query(_SEQS, (id_,))).rows}
        messages = [
            (str(role), _short(str(said))) for role, said in (await store.query(_MESSAGES, (id_, MESSAGES_SHOWN))).rows
        ]
    return Begun(id_, str(agent), seqs, tuple(reversed(messages)), tenant)


def listening(work: Workplace) -> Workplace:
    """The same agents, but what a rule of theirs lets a person decide is asked: somebody sits here.

    An agent that says itself what becomes of such a call is left as it is.
    """
    agents = {slug: _asking(spec) for slug, spec in work.agents.items()}
    return replace(work, loaded=msgspec.structs.replace(work.loaded, agents=agents))


def _asking(spec: AgentSpec) -> AgentSpec:
    asks = any(rule.verdict == Verdict.ASK.value for rule in spec.policy)
    if not asks or "approval" in spec.model_fields_set:
        return spec
    return spec.model_copy(update={"approval": ApprovalMode.PARK})


async def _last(store: Reading) -> str:
    for (id_,) in (await store.query(_LAST)).rows:
        return str(id_)
    raise UsageError("there is no conversation to go on with")


def _short(body: str) -> str:
    text = decode_text(body)
    return text if len(text) <= CHARS_SHOWN else f"{text[:CHARS_SHOWN]} (... {len(text)} characters in all)"

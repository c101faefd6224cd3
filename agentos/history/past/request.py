"""The exact model request of a step, rebuilt from the log and the definitions, and checked against its digest."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import AgentContext, TurnConfig, TurnState
from agentos.errors import ConfigurationError
from agentos.events.entry import Entry, Registry
from agentos.events.kinds import ModelRequested
from agentos.history.reading import Contexts, conversation_row, decoded
from agentos.ids import ConversationId, Digest, TurnId, turn_id
from agentos.journal import load_log
from agentos.persistence.base import LogRow, Store
from agentos.prompting import build_request, request_digest
from agentos.world import Slice

LOOK_BACK_ENTRIES = 100


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was asked, as plain data.

    seq is that of the model.requested. model has kind, name and options; prompt the layers of the system prompt; tools
    are those offered; messages the projected history. digest is that of this request, recorded the one that the log
    has; they differ when something was edited or erased since, or is built in another way now.
    """

    conversation: ConversationId
    seq: int
    turn: TurnId
    step: int
    attempt: int
    agent: str
    digest: Digest
    recorded: Digest
    model: dict[str, Any]
    prompt: list[str]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]

    @property
    def matches(self) -> bool:
        return self.digest == self.recorded


async def request_of(
    store: Store, conversation: str, seq: int | None = None, *, registry: Registry | None = None
) -> StepRequest:
    """The request whose model.requested stands at seq; without a seq, the last one.

    Errors: UnknownConversation; ConfigurationError when no model was asked there; StoreDamaged when a definition is
    missing; CodecError when the log cannot be read.
    """
    row = await conversation_row(store, conversation)
    seq = await _last_request(store, row) if seq is None else seq
    registry = registry or Registry()
    asked = decoded(row.id, await store.entries(row.id, seq - 1, seq), registry)
    if not asked or not isinstance(asked[0].data, ModelRequested):
        raise ConfigurationError(f"{conversation} asked no model at seq {seq}; see its entries of kind model.requested")
    folded = await load_log(store, row.id, registry, upto=seq)
    return await _request(store, folded.slice, asked[0], asked[0].data)


async def _last_request(store: Store, row: LogRow) -> int:
    """Looks from the end of the log, near which it is."""
    upto = row.seq
    while upto > 0:
        after = max(0, upto - LOOK_BACK_ENTRIES)
        for stored in reversed(await store.entries(row.id, after, upto)):
            if stored.kind == ModelRequested.kind:
                return stored.seq
        upto = after
    raise ConfigurationError(f"{row.id} has asked no model yet")


async def _request(store: Store, slice_: Slice, asked: Entry, data: ModelRequested) -> StepRequest:
    """The slice is as the pass saw it when it asked, which may be in the middle of a unit."""
    config, state = slice_.get(asked.turn, TurnConfig), slice_.get(asked.turn, TurnState)
    assert config is not None and state is not None, "a turn that asks has begun"
    context = await Contexts(store).learn(config.context)
    digest = request_digest(config.context, slice_.transcript)
    request = build_request(context, digest, slice_.transcript, slice_.log, asked.turn, state.step_index, state.attempt)
    return StepRequest(
        conversation=ConversationId(slice_.log),
        seq=asked.seq,
        turn=turn_id(slice_.log, asked.turn),
        step=request.step_index,
        attempt=request.attempt,
        agent=context.slug,
        digest=request.digest,
        recorded=data.request,
        messages=[_plain(message) for message in request.messages],
        **_offered(request.context),
    )


def _offered(context: AgentContext) -> dict[str, Any]:
    tools = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in context.tools]
    return {"model": _plain(context.model), "prompt": list(context.prompt), "tools": tools}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)

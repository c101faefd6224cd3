"""Runs one model request."""

from __future__ import annotations

import asyncio

import msgspec

from agentos.codec import encode_json
from agentos.effects.base import Running, Services, words_of
from agentos.errors import ModelError
from agentos.events.effects import RequestModel
from agentos.events.intake import Item, ModelReport
from agentos.events.model import Finish, ModelDelta, ModelReply
from agentos.ids import Name, name_of


async def request_model(services: Services, effect: RequestModel, running: Running) -> Item:
    """A ModelReport, whatever happens: with a whole reply, or with an error's kind and what had come."""
    text: list[str] = []

    def on_delta(piece: str) -> None:
        text.append(piece)
        if services.wants_deltas(effect.log):
            index = len(text) - 1
            services.publish_delta(ModelDelta(effect.log, effect.base_seq, effect.attempt, index, piece))

    request = services.request(effect)
    running.limit(request.context.limits.model_s)
    try:
        reply = await services.model(request.context.slug, request.context.model).complete(request, on_delta)
        _check(reply)
    except ModelError as error:
        return _failed(effect, error.kind, words_of(error), error.text or "".join(text), error.retry_after_s)
    except asyncio.CancelledError:
        if not running.was_cancelled():
            return _failed(effect, "adapter", "the model adapter cancelled itself", "".join(text))
        if running.ended == "timeout":
            limit = request.context.limits.model_s
            return _failed(effect, "timeout", f"no whole reply within {limit:g} s", "".join(text))
        cut = ModelReply(text="".join(text), finish=Finish.CANCELLED)
        return ModelReport(turn=effect.turn, base_seq=effect.base_seq, reply=cut)
    except (Exception, SystemExit) as error:
        return _failed(effect, "adapter", f"{type(error).__name__}: {words_of(error)}", "".join(text))
    if not reply.text and not reply.calls and reply.finish in (Finish.STOP, Finish.TOOL_USE):
        reply = msgspec.structs.replace(reply, finish=Finish.EMPTY, opaque=None, kept_for="")
    return ModelReport(turn=effect.turn, base_seq=effect.base_seq, reply=reply)


def _check(reply: ModelReply) -> None:
    """Raises when it holds what cannot be stored: that is the adapter's fault, and costs its turn alone."""
    for text in (reply.text, reply.thinking, reply.kept_for, reply.model, reply.response, reply.finish_word):
        str.isascii(text)  # raises for what is no text
    if reply.opaque is not None:
        encode_json(reply.opaque)
    for call in reply.calls:
        encode_json(call.arguments)


def _failed(effect: RequestModel, kind: str, message: str, text: str, retry_after_s: float | None = None) -> Item:
    return ModelReport(
        turn=effect.turn,
        base_seq=effect.base_seq,
        reply=ModelReply(text=text, finish=Finish.ERROR),
        error=Name(name_of(kind)),
        message=message[:2_000],
        retry_after_s=float(retry_after_s) if retry_after_s is not None else None,
    )

"""Tokens counted without a tokenizer: about four characters each, the same on every machine."""

from __future__ import annotations

from agentos.events.model import ModelReply, ModelRequest, Usage

CHARS_PER_TOKEN = 4


def usage_of(request: ModelRequest, reply: ModelReply) -> Usage:
    """What a request and its reply cost by this count."""
    asked = sum(map(len, request.context.prompt)) + sum(len(message.text) for message in request.messages)
    calls = sum(len(call.name) + len(str(call.arguments)) for call in reply.calls)
    return Usage(tokens(asked), tokens(len(reply.text) + calls))


def tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)

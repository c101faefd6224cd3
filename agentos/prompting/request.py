"""From a transcript to a model request, and the digest that model.requested records of it."""

from __future__ import annotations

import hashlib

from agentos.components import AgentContext
from agentos.events.model import ModelRequest
from agentos.ids import Digest, LogId
from agentos.world import Transcript


def request_digest(context: Digest, transcript: Transcript) -> Digest:
    """Over the context (model, prompt layers, tools) and, by their chained hash, every message; O(1) in both."""
    return Digest(hashlib.sha256(context.encode() + transcript.hash).hexdigest())


def build_request(
    context: AgentContext, digest: Digest, transcript: Transcript, log: LogId, turn: int, step_index: int, attempt: int
) -> ModelRequest:
    """The neutral request over the whole window."""
    return ModelRequest(context, transcript.messages, log, digest, turn, step_index, attempt)


def context_tokens(context: AgentContext, transcript: Transcript) -> int:
    """An estimate of the size of the next request, in tokens."""
    return transcript.tokens + sum(len(part) for part in context.prompt) // 4

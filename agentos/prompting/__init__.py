"""Building what goes to a model."""

from agentos.prompting.request import build_request, context_tokens, request_digest

__all__ = ["build_request", "context_tokens", "request_digest"]

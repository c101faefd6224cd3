"""Chat Completions: the request, the stream, the errors and the client that joins them."""

from agentos.models.openai_chat.client import OpenAIChat

__all__ = ["OpenAIChat"]

"""A server of the Chat Completions API for tests: scripted answers, judged requests, and faults at any byte."""

from agentos.testing.chat_server.faults import (
    BadByte,
    Close,
    ContentType,
    Cut,
    EmptyChoices,
    ErrorObject,
    NoDone,
    NoFinish,
    NoIndex,
    Pieces,
    Reset,
    SlowHead,
    Stall,
    Status,
    WireFault,
)
from agentos.testing.chat_server.reply import ChatCall, ChatReply, ChatRequest
from agentos.testing.chat_server.server import ChatServer

__all__ = [
    "BadByte",
    "ChatCall",
    "ChatReply",
    "ChatRequest",
    "ChatServer",
    "Close",
    "ContentType",
    "Cut",
    "EmptyChoices",
    "ErrorObject",
    "NoDone",
    "NoFinish",
    "NoIndex",
    "Pieces",
    "Reset",
    "SlowHead",
    "Stall",
    "Status",
    "WireFault",
]

"""Processes that speak JSON-RPC 2.0, a message a line."""

from agentos.resources.kinds.jsonrpc.exchange import (
    Counts,
    Exchange,
    ExchangeLimits,
    Heard,
    NotSent,
    RpcError,
    Unanswered,
)
from agentos.resources.kinds.jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND
from agentos.resources.kinds.jsonrpc.process import JSONRPC, JsonRpcLimits, JsonRpcProcess, jsonrpc_process, opening
from agentos.resources.kinds.jsonrpc.silence import Question, SilenceLimits

__all__ = [
    "INVALID_PARAMS",
    "JSONRPC",
    "METHOD_NOT_FOUND",
    "Counts",
    "Exchange",
    "ExchangeLimits",
    "Heard",
    "JsonRpcLimits",
    "JsonRpcProcess",
    "NotSent",
    "Question",
    "RpcError",
    "SilenceLimits",
    "Unanswered",
    "jsonrpc_process",
    "opening",
]

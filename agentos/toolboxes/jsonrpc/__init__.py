"""A process that offers tools over JSON-RPC as a toolbox."""

from agentos.toolboxes.jsonrpc.toolbox import JsonRpcToolbox

__all__ = ["JsonRpcToolbox"]

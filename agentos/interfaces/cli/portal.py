"""The client's side of a script's portal: one line of JSON out, one in. It needs nothing but the standard library."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any

from agentos.errors import ConfigurationError

PORTAL_VARIABLE = "AGENTOS_PORTAL"
TOKEN_VARIABLE = "AGENTOS_PORTAL_TOKEN"
_CHUNK_BYTES = 65_536


def ask_portal(tool: str, arguments: Any) -> dict[str, Any]:
    """Calls a tool of the agent whose call this script is; gives status, kind, text and call. Waits as long as it takes:
    the limits of the tool and of the script's own call hold. Raises ConfigurationError when nobody answers."""
    request = {"token": os.environ.get(TOKEN_VARIABLE, ""), "tool": tool, "arguments": arguments}
    try:
        with socket.socket(socket.AF_UNIX) as portal:
            portal.connect(os.environ[PORTAL_VARIABLE])
            with contextlib.suppress(BrokenPipeError):  # a portal that refuses says why before it hangs up
                portal.sendall(json.dumps(request).encode() + b"\n")
            line = _line(portal)
    except OSError as error:
        raise ConfigurationError(f"the portal in {PORTAL_VARIABLE} does not answer: {error.strerror}") from error
    if not line.endswith(b"\n"):
        raise ConfigurationError("the portal hung up: the call that this script works for has ended")
    reply: dict[str, Any] = json.loads(line)
    return reply


def _line(portal: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = portal.recv(_CHUNK_BYTES)
        if not chunk:
            break
        line += chunk
    return bytes(line)

"""Who is at the other end of a Unix socket, as the system knows it."""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def credentials_of(peer: socket.socket) -> tuple[int, int]:
    """The process and the user: of who connected, or, seen by the client, of who made the socket listen."""
    pid, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user

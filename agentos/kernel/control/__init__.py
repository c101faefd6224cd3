"""The control socket: a running kernel is asked from other processes of the same user, by lines of JSON."""

from agentos.kernel.control.client import SocketClient
from agentos.kernel.control.place import Place, place_of

__all__ = ["Place", "SocketClient", "place_of"]

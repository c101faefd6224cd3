"""The program of a worker process: keeps one Lua state, and runs the scripts that it reads.

It is started as a file by an interpreter that loads no site and no user code, and imports nothing of this package; its
arguments are the folder that holds lupa, and the bounds as JSON. One line of JSON for each message:

    in   {"script": ..., "now_s": ..., "time_s": ..., "fresh": ..., "ticks": ...}, and after each `call` the reply to it
    out  {"type": "ready"}, {"type": "printed"}, {"type": "call"}, {"type": "ended"}; see `wire`

Whoever started it kills it when a script takes too long. Where nobody is left to do so, its own limits do: of CPU time,
of time on the clock, and the end of its input.
"""

from __future__ import annotations

import _json
import _signal  # type: ignore[import-not-found]
import os
import resource
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any
# A conversation waits for what is loaded here: typing, signal, json and contextlib, which load enum, re and collections,
# take longer than Python and Lua together. The two modules with a _ are what signal and json are made of.

PYTHON_BYTES = 64 * 1024 * 1024
LINES = 8
"""Address space beside what Lua may take: the interpreter with its libraries, and so many messages of the longest kind."""
CPU_S = 2
ALARM_S = 5.0
"""How much longer than its time a script may use the CPU, and run, before the process ends by itself."""
HEADROOM_BYTES = 65_536
NO_MEMORY = 71
"""The exit code of a process that has no memory left for a message."""
SOURCES = ("sandbox.lua", "json.lua", "modules.lua")
FOLDER = os.path.dirname(os.path.abspath(__file__))


class Wire:
    """Messages over what were stdin and stdout; anything else that is written there goes nowhere."""

    def __init__(self, line_bytes: int) -> None:
        self._in = os.fdopen(os.dup(0), "rb")
        self._out = os.dup(1)
        self._line_bytes = line_bytes
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)

    def line(self) -> bytes:
        """The next line that comes in. Ends the process when there is none, or it is too long."""
        line = self._in.readline(self._line_bytes + 1)
        if not line.endswith(b"\n"):
            os._exit(0)
        return line

    def send(self, message: bytes) -> None:
        data = memoryview(message + b"\n")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            os._exit(0)


class Printed:
    """What the script of a run prints, up to a number of bytes; the rest is only counted."""

    def __init__(self, wire: Wire, bytes_max: int) -> None:
        self._wire, self._bytes_max = wire, bytes_max
        self.total = 0

    def __call__(self, text: bytes) -> None:
        room = self._bytes_max - self.total
        self.total += len(text)
        if room > 0:
            self._wire.send(_message("printed", text=text[:room].decode(errors="ignore")))


class State:
    """One Lua state, and the road into it."""

    def __init__(self, lua54: Any, sources: Sequence[bytes], wire: Wire, limits: dict[str, Any]) -> None:
        self._wire, self._limits = wire, limits
        self._printed = Printed(wire, limits["printed_bytes"])
        self._now_s = self._begun = 0.0
        self._time_s = 0.0
        self._ticks = True
        self._memory_error = lua54.LuaMemoryError
        self._lua = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            max_memory=limits["memory_bytes"],
            attribute_filter=_deny,
            encoding=None,
        )
        self._run = self._lua.execute(
            *sources,
            limits["values_bytes"],
            f"[{','.join(map(_json.encode_basestring, limits['tools']))}]".encode(),
            self._ask,
            self._printed,
            self._now,
            self._settle,
            name=b"=sandbox",
            mode=b"t",
        )

    def run(self, script: bytes, now_s: float, time_s: float, ticks: bool) -> bytes:
        """Runs a script; gives the message of its end."""
        self._now_s, self._begun, self._time_s, self._ticks = now_s, time.monotonic(), time_s, ticks
        self._printed.total = 0
        self._admit(len(script))
        try:
            kind, text = self._run(script)
        except self._memory_error:
            kind, text = b"memory", b"not enough memory"
        finally:
            self._settle()
        if kind == b"memory":
            text = b"%b: all of %d bytes are taken, by data or by a recursion without end" % (
                text,
                self._limits["memory_bytes"],
            )
        return self._ended(kind.decode(), text)

    def close(self) -> None:
        """Gives its memory back. Lua holds methods of this object, which holds Lua: neither would go by itself."""
        del self._lua, self._run

    def _ended(self, kind: str, text: bytes) -> bytes:
        facts = {"memory_bytes": self._lua.get_memory_used(), "printed_bytes": self._printed.total}
        if kind == "done":
            head = _message("ended", kind=kind, text="", **facts)
            return b'%b,"values":%b}' % (head[:-1], text)
        return _message("ended", kind=kind, text=_begun(text, self._limits["printed_bytes"]), **facts)

    def _ask(self, tool: bytes, arguments: bytes) -> bytes:
        """Has a tool called; whoever reads the message limits the time meanwhile."""
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        name = _json.encode_basestring(tool.decode(errors="replace")).encode()
        try:
            self._wire.send(b'{"type":"call","tool":%b,"arguments":%b}' % (name, arguments))
            reply = self._wire.line()
        except MemoryError:  # the script could go on, and take this reply for that of its next call
            os._exit(NO_MEMORY)
        self._admit(len(reply))
        _signal.setitimer(_signal.ITIMER_REAL, self._time_s + ALARM_S)
        return reply

    def _now(self, now_s: float | None = None) -> float:
        """The time, or from here on the one that a reply says."""
        if now_s is not None:
            self._now_s = now_s
        return self._now_s + time.monotonic() - self._begun if self._ticks else self._now_s

    def _admit(self, size: int) -> None:
        """Makes room for a text on its way into Lua, where running out of memory would be the end of the process."""
        self._lua.set_max_memory(max(self._lua.get_memory_used(), self._limits["memory_bytes"]) + size + HEADROOM_BYTES)

    def _settle(self) -> None:
        self._lua.set_max_memory(self._limits["memory_bytes"])


def main(lupa_folder: str, limits: dict[str, Any]) -> None:
    wire = Wire(limits["line_bytes"])
    lua54 = _lua54(lupa_folder)
    sources = [_source(name) for name in SOURCES]
    _bound_process(PYTHON_BYTES + LINES * limits["line_bytes"] + limits["memory_bytes"])
    state = State(lua54, sources, wire, limits)
    wire.send(_message("ready"))
    while True:
        asked = _read(wire.line().decode())
        _bound_time(asked["time_s"])
        if asked["fresh"]:
            state.close()
            state = State(lua54, sources, wire, limits)
        ended = state.run(asked["script"].encode(), asked["now_s"], asked["time_s"], asked["ticks"])
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        wire.send(ended)


def _lua54(lupa_folder: str) -> Any:
    """The module of Lua 5.4 alone: what its package loads beside is for choosing among versions."""
    package = type(sys)("lupa")
    package.__path__ = [os.path.join(lupa_folder, "lupa")]
    sys.modules["lupa"] = package
    sys.path.insert(0, lupa_folder)
    import lupa.lua54  # type: ignore[import-untyped]

    return lupa.lua54


def _bound_process(address_bytes: int) -> None:
    """No file can be written, opened or locked, no process begun, no core left; memory has a bound."""
    for number in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        resource.setrlimit(number, (0, 0))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes))
    except (ValueError, OSError):  # where the system knows no such limit, that of Lua holds
        return


def _bound_time(time_s: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit_s = int(used.ru_utime + used.ru_stime + time_s) + CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    _signal.setitimer(_signal.ITIMER_REAL, time_s + ALARM_S)


def _deny(value: object, name: object, setting: bool) -> object:
    raise AttributeError("nothing of Python can be reached from here")


class _Plain:
    """How a scanner of JSON reads: everything as it stands."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def _read(text: str) -> dict[str, Any]:
    """The message in a line, which begins with it."""
    message, _ = _json.make_scanner(_Plain)(text, 0)  # type: ignore[arg-type]
    assert isinstance(message, dict), "the kernel sends objects"
    return message


def _message(kind: str, /, **fields: str | int) -> bytes:
    told: dict[str, str | int] = {"type": kind, **fields}
    return ("{" + ",".join(f'"{name}":{_json_of(value)}' for name, value in told.items()) + "}").encode()


def _json_of(value: str | int) -> str:
    return _json.encode_basestring(value) if isinstance(value, str) else str(value)


def _begun(text: bytes, bytes_max: int) -> str:
    """What was raised, which may be as long as all memory."""
    if len(text) <= bytes_max:
        return text.decode(errors="replace")
    return f"{text[:bytes_max].decode(errors='ignore')} [... {len(text) - bytes_max:,} bytes left out]"


def _source(name: str) -> bytes:
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1], _read(sys.argv[2]))

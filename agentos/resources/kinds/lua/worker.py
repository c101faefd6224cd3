"""One Lua state, in a process of its own that can be killed at any time.

Lua runs nothing in this process: a script may loop for ever, exhaust its memory, or find a hole in what it is given, and
ends its worker alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from agentos.errors import ConfigurationError, ResourceError
from agentos.resources.account import Place, process_place
from agentos.resources.kinds.lua.inbox import Inbox
from agentos.resources.kinds.lua.limits import LuaLimits
from agentos.resources.kinds.lua.wire import Call, Ended, Printed, Ready, Reply, Script, heard, said
from agentos.resources.process.command import Command, ProcessLimits
from agentos.resources.process.descendants import signal_group
from agentos.resources.process.live import LiveProcess

PROGRAM = Path(__file__).parent / "child" / "worker.py"
KILL = ProcessLimits(grace_s=0.0, leftover_s=0.05)
"""A worker holds nothing that it would have to put in order."""

NO_MEMORY = 71
"""The exit code of a worker that has no memory left for a message, as in its program."""

CallTool = Callable[[str, dict[str, Any]], Awaitable[Reply]]
"""Calls a tool for a script. It raises only what ends the call of the script too."""


class LuaUnavailable(ResourceError):
    """A worker process did not become ready."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the process that runs Lua did not become ready: {why}")


class Lost(msgspec.Struct, frozen=True):
    """A script that took its worker with it. kind: timeout, memory, or died."""

    kind: str
    text: str


class LuaWorker:
    """A worker that is ready, until `end` or a script that is Lost. One script at a time."""

    def __init__(
        self, limits: LuaLimits, tools: tuple[str, ...], name: str = "lua", place: Place | None = None
    ) -> None:
        """Starts the process, which gives its place back at its end. Raises ConfigurationError without lupa, LuaUnavailable
        when nothing can be started."""
        self._limits = limits
        self._inbox = Inbox(limits.line_bytes, self._flooded)
        self._lost: Lost | None = None
        try:
            command = _command(limits, tools, name)
            self._process = LiveProcess(command, KILL, self._inbox.heard, 2 * limits.line_bytes, place)
        except OSError as error:
            raise LuaUnavailable(str(error)) from error
        self._watcher = asyncio.ensure_future(self._watch())
        self._ended: asyncio.Future[int] | None = None
        self.memory_bytes = 0
        self.scripts = 0
        self.running = False
        self.idle: Callable[[], None] = lambda: None
        """Called each time that a script has ended, or was ended."""

    @classmethod
    async def start(cls, limits: LuaLimits, tools: tuple[str, ...] = (), name: str = "lua") -> LuaWorker:
        """A worker that can take a script. Raises as the making does; LuaUnavailable when it is not ready in start_s; as
        `Place.take` where processes are bounded, for one of which it waits wait_s."""
        check_lupa()
        place = process_place(f"lua {name}", kept=True)
        if place is not None:
            await place.take(limits.wait_s)
        try:
            worker = cls(limits, tools, name, place)
        except BaseException:
            if place is not None:
                place.give_back()
            raise
        try:
            line = await worker._inbox.line(limits.start_s)
        except BaseException:
            await worker.end()
            raise
        if line is not None and isinstance(heard(line), Ready):
            return worker
        late = "" if worker._inbox.closed else f"nothing was heard of it within {limits.start_s:g} s"
        code = await worker.end()
        raise LuaUnavailable(late or f"it ended with {_how(code)}: {worker._process.last_words() or 'without a word'}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._ended is None and not self._inbox.closed and self._process.alive

    async def run(self, script: Script, call: CallTool, printed: Callable[[str], None]) -> Ended | Lost:
        """Runs a script to its end, which is Lost with the worker when it does not come.

        printed is called with each piece of what the script prints. A cancellation ends the worker before it goes on.
        """
        if not self.alive:
            return _lost_by(await self.end(), self._limits)
        self.scripts += 1
        self.running = True
        try:
            ended = await self._follow(script, call, printed)
        except BaseException:
            await self.end()
            raise
        finally:
            self.running = False
            self.idle()
        if isinstance(ended, Ended):
            self.memory_bytes = ended.memory_bytes
            return ended
        code = await self.end()
        return ended or self._lost or _lost_by(code, self._limits)

    async def end(self) -> int:
        """Kills the process, waits until it is gone, and gives its exit code. More than one may ask for it."""
        if self._ended is None:
            self._kill()
        self._begin_end()
        ended = self._ended
        assert ended is not None, "it was begun just now"
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as error:
                cancelled = error
        self._watcher.cancel()
        if cancelled is not None:
            raise cancelled
        return ended.result()

    async def _follow(self, script: Script, call: CallTool, printed: Callable[[str], None]) -> Ended | Lost | None:
        """Hears what the worker says until the script has ended; None when the worker did."""
        loop = asyncio.get_running_loop()
        left_s = script.time_s
        if not self._say(said(script)):
            return None
        while True:
            begun = loop.time()
            line = await self._inbox.line(left_s)
            left_s -= loop.time() - begun
            if line is None:
                return None if self._inbox.closed else _late(script.time_s)
            match heard(line):
                case Ended() as ended:
                    return ended
                case Printed(text):
                    printed(text)
                case Call(tool, arguments):
                    reply = await self._called(call, tool, arguments)
                    if reply is None or not self._say(self._reply(reply)):
                        return None
                case _:
                    return Lost("died", "its process sent a line that is no message, and was ended")
            if left_s <= 0:
                return _late(script.time_s)

    async def _called(self, call: CallTool, tool: str, arguments: dict[str, Any]) -> Reply | None:
        """The reply of a tool; None when the worker is gone meanwhile, for then nobody waits for it any more.

        It is asked for in this very task, by which the wait graph knows who waits.
        """
        waiting = asyncio.timeout(None)

        def give_up(_: object) -> None:
            if not over:
                waiting.reschedule(0)

        over = False
        try:
            async with waiting:
                self._watcher.add_done_callback(give_up)
                return await call(tool, arguments)
        except TimeoutError:
            if not waiting.expired():
                raise
            return None
        finally:
            over = True
            self._watcher.remove_done_callback(give_up)

    def _reply(self, reply: Reply) -> bytes:
        line = said(reply)
        if len(line) <= self._limits.line_bytes:
            return line
        text = f"the result of {len(line):,} bytes is over line_bytes ({self._limits.line_bytes:,})"
        return said(msgspec.structs.replace(reply, status="error", result_txt=text))

    def _say(self, line: bytes) -> bool:
        return self._process.alive and self._process.write(line) is not None

    def _flooded(self) -> None:
        text = f"its process said over {self._limits.line_bytes:,} bytes at once (line_bytes), and was ended"
        self._lost = Lost("died", text)
        self._kill()

    def _kill(self) -> None:
        signal_group(self._process.pid, signal.SIGKILL)

    def _begin_end(self) -> None:
        if self._ended is None:
            self._ended = asyncio.ensure_future(self._process.end())
            self._inbox.close()

    async def _watch(self) -> None:
        """Sees to it that one which ends by itself is gone at once, whether or not anybody asks for it again."""
        await self._process.wait_lost()
        self._begin_end()


def check_lupa() -> None:
    """Raises ConfigurationError when Lua is not installed."""
    _lupa_folder()


def _lupa_folder() -> str:
    found = importlib.util.find_spec("lupa")
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError("Lua needs the package lupa, which is not installed: pip install 'lupa>=2.8,<3'")
    return str(Path(found.submodule_search_locations[0]).parent)


def _command(limits: LuaLimits, tools: tuple[str, ...], name: str) -> Command:
    """Our interpreter, without site packages and without an environment, at the root of the file system."""
    bounds = {key: getattr(limits, key) for key in ("memory_bytes", "line_bytes", "values_bytes", "printed_bytes")}
    said_bounds = msgspec.json.encode({**bounds, "tools": tools}).decode()
    argv = [sys.executable, "-I", "-S", "-B", str(PROGRAM), _lupa_folder(), said_bounds]
    return Command(argv=argv, environment={}, cwd="/", mark=f"lua:{name}")


def _late(time_s: float) -> Lost:
    return Lost("timeout", f"the script did not end within {time_s:g} s (time_s)")


def _lost_by(code: int, limits: LuaLimits) -> Lost:
    """What the exit code of a worker tells of the script."""
    if code in (-signal.SIGXCPU, -signal.SIGALRM):  # by its own limits, while nobody here came to end it
        return Lost("timeout", f"the script ran longer than it may ({limits.time_s:g} s, time_s)")
    if code in (-signal.SIGABRT, NO_MEMORY):
        return Lost("memory", f"the script ran out of memory beyond rescue ({limits.memory_bytes:,} bytes)")
    return Lost("died", f"its process ended with {_how(code)}")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"

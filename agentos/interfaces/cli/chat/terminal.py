"""Lines from a person or a pipe, read in the main thread while the event loop runs in another.

Signals come to the main thread alone, and line editing wants it: so Ctrl-C reaches whoever types, and a loop that works
is never held up by somebody who thinks about an answer.

Python handles a signal where it next looks, and a call that begins to wait at that moment is not disturbed: the press
would count with the next key. So the loop, which hears of each signal by a pipe, sends those again that nobody saw.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NamedTuple, Protocol

from agentos.interfaces.cli.output import is_terminal

SEEN_S = 0.25
"""How long the main thread has for a signal until it is sent again."""


class EndOfInput(Exception):
    """Ctrl-D, or the end of a pipe."""


class Interrupted(Exception):
    """Ctrl-C while a line was read. discarded: something was typed already."""

    def __init__(self, *, discarded: bool) -> None:
        self.discarded = discarded
        super().__init__("interrupted")


class Lines(Protocol):
    """Where lines come from; called in the main thread."""

    def read(self, prompt: str) -> str:
        """A line without its end. Raises EOFError; KeyboardInterrupt comes out of it by a signal."""
        ...

    def typed(self) -> str:
        """What stands in the line that is being read."""
        ...


class _Request(NamedTuple):
    prompt: str
    answered: asyncio.Future[str]


class Terminal:
    """Runs a coroutine beside the reading of lines, and hands Ctrl-C to whom it is for.

    on_interrupt is called on the loop when Ctrl-C comes while no line is read; by default everything is cancelled.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[int] | None = None
        self._ear = -1
        self._heard = self._sent = self._seen = 0
        self._discarded = self._ours = False
        self._reading: asyncio.Future[str] | None = None
        self._withdrawn: asyncio.Future[str] | None = None
        self._error: BaseException | None = None
        self._code = 0
        self.on_interrupt: Callable[[], None] | None = None

    def run(self, main: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Runs it to its end in a thread of its own; gives what it returns, or raises what it raises."""
        before = signal.signal(signal.SIGINT, self._signalled)
        self._ear, end = os.pipe()
        os.set_blocking(end, False)
        wakeup = signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        thread = threading.Thread(target=self._run, args=(main,), name="agentos-loop", daemon=True)
        try:
            thread.start()
            while (request := self._requests.get()) is not None:
                self._answer(request)
            thread.join()
        finally:
            signal.set_wakeup_fd(wakeup)
            signal.signal(signal.SIGINT, before)
            os.close(self._ear)
            os.close(end)
        if self._error is not None:
            raise self._error
        return self._code

    async def read(self, prompt: str) -> str:
        """A line. Cancelled, it takes the prompt back. Raises EndOfInput, Interrupted."""
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._requests.put(_Request(prompt, answered))
        try:
            return await answered
        except asyncio.CancelledError:
            self._take_back(answered)
            raise

    def forget_typed(self) -> None:
        """Drops what was typed before it was asked for: it cannot have been meant as an answer."""
        if is_terminal(sys.stdin):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def cancel(self) -> None:
        """Ends the coroutine at once."""
        if self._main is not None:
            self._main.cancel()

    def _run(self, main: Callable[[], Coroutine[Any, Any, int]]) -> None:
        try:
            self._code = asyncio.run(self._begin(main))
        except BaseException as error:  # raised again in the main thread
            self._error = error
        finally:
            self._requests.put(None)
            self._let_go()

    async def _begin(self, main: Callable[[], Coroutine[Any, Any, int]]) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ear, self._hear)
        self._main = self._loop.create_task(main())
        return await self._main

    # In the main thread

    def _answer(self, request: _Request) -> None:
        """Reads one line, and gives it or what came instead to who asked."""
        what: str | Exception
        try:
            what = self._line(request)
        except KeyboardInterrupt:  # another one than was raised: input() makes its own
            self._reading = None
            what = Interrupted(discarded=self._discarded)
        assert self._loop is not None, "only a running loop asks for lines"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_settle, request.answered, what)

    def _line(self, request: _Request) -> str | Exception:
        try:
            self._reading = request.answered
            return "" if request.answered.cancelled() else self._lines.read(request.prompt)
        except EOFError:
            return EndOfInput()
        except Exception as fault:
            return fault
        finally:
            self._reading = None

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """A person's Ctrl-C, or the loop that takes a line back."""
        if self._ours:
            self._ours = False
            if self._reading is not None and self._reading is self._withdrawn:
                raise KeyboardInterrupt
            return
        self._seen += 1
        if self._reading is not None:
            self._discarded = bool(self._lines.typed())
            raise KeyboardInterrupt
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pressed)

    # In the loop's thread

    def _hear(self) -> None:
        """Signals came: soon the main thread must have seen them."""
        assert self._loop is not None, "it hears"
        self._heard += os.read(self._ear, 512).count(signal.SIGINT)
        self._loop.call_later(SEEN_S, self._send_again)

    def _send_again(self) -> None:
        """When the main thread saw less than there were, without those that were sent from here."""
        if self._seen < self._heard - self._sent:
            self._send()

    def _send(self) -> None:
        self._sent += 1
        signal.pthread_kill(_main_thread(), signal.SIGINT)

    def _pressed(self) -> None:
        if self.on_interrupt is not None:
            self.on_interrupt()
        else:
            self.cancel()

    def _take_back(self, line: asyncio.Future[str]) -> None:
        """Until the main thread has let go of it."""
        assert self._loop is not None, "a line was asked for"
        self._withdrawn = line
        if self._reading is line:
            self._ours = True
            self._send()
            self._loop.call_later(SEEN_S, self._take_back, line)

    def _let_go(self) -> None:
        """At the end: the main thread may be in a line that nobody waits for."""
        while (reading := self._reading) is not None:
            self._withdrawn, self._ours = reading, True
            self._send()
            time.sleep(SEEN_S)


def _main_thread() -> int:
    ident = threading.main_thread().ident
    assert ident is not None, "the main thread has begun"
    return ident


def _settle(answered: asyncio.Future[str], what: str | Exception) -> None:
    if answered.done():
        return
    if isinstance(what, Exception):
        answered.set_exception(what)
    else:
        answered.set_result(what)

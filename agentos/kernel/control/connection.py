"""One client at the control socket of a kernel: its requests, each a task, and what it is told. All of it is bounded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import msgspec

from agentos.errors import CodecError, ControlRefused, KernelClosed
from agentos.kernel.control.faults import fault_of
from agentos.kernel.control.lines import Lines, LineTooLong
from agentos.kernel.control.wire import Answer, Greeting, Request, line_of, read_line
from agentos.kernel.control.words import WORDS, Hosted, Word
from agentos.settings import Settings

FLUSH_S = 1.0
"""How long the last words to a client may take: at the close of the kernel, and once the client says no more."""


class Connection:
    """Runs from the greeting to the end of the client, of its patience, or of the kernel."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: Hosted, settings: Settings
    ) -> None:
        self._lines = Lines(reader, settings.control_line_bytes_max)
        self._writer, self._host, self._settings = writer, host, settings
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._last_at = asyncio.get_running_loop().time()
        writer.transport.set_write_buffer_limits(high=settings.control_output_bytes_max)

    @property
    def idle_since(self) -> float | None:
        """Since when, by the clock of the loop, it has had nothing open; None while it has."""
        return None if self._requests else self._last_at

    async def run(self, greeting: Greeting) -> None:
        try:
            await self._write(line_of(greeting))
            await self._take_lines()
        except (OSError, TimeoutError):
            self.drop()  # it went away, or does not read
        finally:
            await self._end()

    def drop(self) -> None:
        """At once, whatever waits for it."""
        self._writer.transport.abort()

    def send_away(self, error: Exception) -> None:
        """At once, with one last word, as far as there is room for it: nobody waits until it is read."""
        self._writer.write(last_word(error))
        if self._unread:
            self.drop()
        else:
            self._writer.close()

    async def refuse(self, error: Exception) -> None:
        """One last word about the connection as a whole."""
        with contextlib.suppress(OSError, TimeoutError):
            await self._answer(0, error)

    async def close(self) -> None:
        """With the kernel: requests that know their end by now tell it, the others hear that the kernel is closed."""
        if self._requests:
            await asyncio.wait(list(self._requests.values()), timeout=FLUSH_S)
        try:
            async with asyncio.timeout(FLUSH_S):
                for number in list(self._requests):
                    await self._answer(number, KernelClosed())
        except (OSError, TimeoutError):
            self.drop()
        self._writer.close()

    async def _take_lines(self) -> None:
        while True:
            try:
                while (line := self._lines.ready()) is not None:
                    self._last_at = asyncio.get_running_loop().time()
                    await self._take(line)
                if not await self._more():
                    await self._finish()
                    return
            except LineTooLong:
                limit = self._settings.control_line_bytes_max
                await self.refuse(ControlRefused(f"a request is over control_line_bytes_max ({limit} bytes)"))
                return
            except CodecError as error:
                await self.refuse(ControlRefused(f"what came is no request: {error}"))
                return

    async def _finish(self) -> None:
        """Who has said all may still read what comes of it, for a moment."""
        if self._requests:
            await asyncio.wait(list(self._requests.values()), timeout=FLUSH_S)

    async def _more(self) -> bool:
        """False at the end of the client, or of the patience with it."""
        limits = self._settings
        begun = self._lines.begun
        try:
            return await self._lines.more(limits.control_line_s if begun else limits.control_idle_s)
        except TimeoutError:
            if begun:
                await self.refuse(ControlRefused(f"a request was not whole within {limits.control_line_s:g} s"))
            return not begun and bool(self._requests)

    async def _take(self, line: bytes) -> None:
        """Begins what one line asks for. Raises CodecError when it asks for nothing that can be read."""
        request = read_line(line, Request)
        if request.word == "ping":
            await self._answer(request.id, None)
        elif request.word == "drop":
            self._give_up(request.given.get("id"))
        elif request.id in self._requests or request.id < 1:
            raise CodecError(f"{request.id} is no number of a new request")
        elif len(self._requests) >= self._settings.control_requests_max:
            limit = self._settings.control_requests_max
            await self._answer(request.id, ControlRefused(f"{limit} requests are open (control_requests_max)"))
        else:
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._requests[request.id] = task

    def _give_up(self, number: Any) -> None:
        task = self._requests.get(number) if isinstance(number, int) else None
        if task is not None:
            task.cancel()

    async def _serve(self, request: Request) -> None:
        try:
            await self._write(await self._outcome_of(request))
        except (OSError, TimeoutError):
            self.drop()
        finally:
            del self._requests[request.id]
            self._last_at = asyncio.get_running_loop().time()

    async def _outcome_of(self, request: Request) -> bytes:
        """The last line of an answer, after its items. Raises OSError, TimeoutError when the client does not take them."""
        try:
            word, given = _checked(request)
            if word.run is not None:
                return line_of(Answer(request.id, value=await word.run(self._host, given)))
            assert word.items is not None, "a word gives a value, or items"
            items = cast("AsyncIterator[Any]", word.items(self._host, given))
        except Exception as error:
            return _error_line(request.id, error)
        return await self._items(request.id, items)

    async def _items(self, number: int, items: AsyncIterator[Any]) -> bytes:
        async with aclosing(items) as items:  # type: ignore[type-var]
            while True:
                try:
                    line = line_of(Answer(number, item=await anext(items)))
                except StopAsyncIteration:
                    return line_of(Answer(number))
                except Exception as error:
                    return _error_line(number, error)
                await self._write(line)

    async def _answer(self, number: int, error: Exception | None) -> None:
        await self._write(_error_line(number, error) if error is not None else line_of(Answer(number)))

    async def _write(self, line: bytes) -> None:
        """One line whole, before the next; waits while the client reads slowly. Raises OSError; TimeoutError when it reads
        nothing at all."""
        async with self._writing:
            self._writer.write(line)
            left = self._unread
            while True:
                try:
                    async with asyncio.timeout(self._settings.control_stall_s):
                        return await self._writer.drain()
                except TimeoutError:
                    if self._unread >= left:
                        raise
                    left = self._unread

    @property
    def _unread(self) -> int:
        """Bytes that wait here for the client."""
        return self._writer.transport.get_write_buffer_size()

    async def _end(self) -> None:
        tasks = list(self._requests.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._writer.wait_closed()
        self.drop()


def _checked(request: Request) -> tuple[Word[Any, Any], msgspec.Struct]:
    """Raises ControlRefused for a word that is none, or that is given what it does not take."""
    word = WORDS.get(request.word)
    if word is None:
        raise ControlRefused(f"there is no word {request.word[:80]!r}; there are {', '.join(sorted(WORDS))}")
    try:
        return word, msgspec.convert(request.given, word.given)
    except msgspec.ValidationError as error:
        raise ControlRefused(f"{request.word}: {error}") from error


def last_word(error: Exception) -> bytes:
    """What is said to somebody about his connection as a whole."""
    return _error_line(0, error)


def _error_line(number: int, error: Exception) -> bytes:
    return line_of(Answer(number, error=msgspec.to_builtins(fault_of(error))))

"""Lines read in the main thread beside a loop: who gets Ctrl-C, and what becomes of a line that nobody waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from agentos.interfaces.cli.chat.terminal import EndOfInput, Interrupted, Terminal
from tests.cli.support import LIMIT_S


class Script:
    """Lines as somebody gives them. A function is called, and waits for a signal."""

    def __init__(self, *lines: str | Callable[[], None]) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.reading = threading.Event()
        self.half = ""

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self._lines.pop(0) if self._lines else None
        self.reading.set()  # the last thing: from here on it may be taken back
        if line is None:
            raise EOFError
        if isinstance(line, str):
            return line
        line()
        return "it was not interrupted"

    def typed(self) -> str:
        return self.half


def wait() -> None:
    """Until a signal ends it."""
    time.sleep(LIMIT_S)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    wait()


def test_lines_are_read_in_the_main_thread_and_the_loop_runs_in_another() -> None:
    script = Script("one", "two")
    terminal = Terminal(script)
    threads = []

    async def main() -> int:
        threads.append(threading.current_thread() is threading.main_thread())
        assert [await terminal.read("a> "), await terminal.read("b> ")] == ["one", "two"]
        with pytest.raises(EndOfInput):
            await terminal.read("c> ")
        return 3

    assert terminal.run(main) == 3
    assert (script.prompts, threads) == (["a> ", "b> ", "c> "], [False])


@pytest.mark.parametrize("half", ["", "half a line"])
def test_ctrl_c_in_a_line_goes_to_who_reads_it(half: str) -> None:
    script = Script(press, "next")
    script.half = half
    terminal = Terminal(script)

    async def main() -> int:
        with pytest.raises(Interrupted) as interrupted:
            await terminal.read("> ")
        assert interrupted.value.discarded == bool(half)
        assert await terminal.read("> ") == "next"
        return 0

    assert terminal.run(main) == 0


def test_ctrl_c_beside_a_line_goes_to_who_listens_or_ends_all() -> None:
    terminal = Terminal(Script())

    async def main() -> int:
        pressed = asyncio.Event()
        terminal.on_interrupt = pressed.set
        os.kill(os.getpid(), signal.SIGINT)
        await pressed.wait()
        terminal.on_interrupt = None
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.get_running_loop().create_future()
        return 0

    with pytest.raises(asyncio.CancelledError):
        terminal.run(main)


def test_a_line_that_is_taken_back_is_left_and_the_next_one_is_read() -> None:
    script = Script(wait, "next")
    terminal = Terminal(script)

    async def main() -> int:
        reading = asyncio.create_task(terminal.read("first> "))
        await asyncio.to_thread(script.reading.wait)
        reading.cancel()
        await asyncio.wait([reading])
        assert await terminal.read("second> ") == "next"
        return 0

    assert terminal.run(main) == 0
    assert script.prompts == ["first> ", "second> "]


def test_an_end_while_a_line_is_read_leaves_the_line() -> None:
    script = Script(wait)
    terminal = Terminal(script)

    async def main() -> int:
        reading = asyncio.create_task(terminal.read("> "))
        await asyncio.to_thread(script.reading.wait)
        assert not reading.done()
        raise ValueError("something broke")

    with pytest.raises(ValueError, match="something broke"):
        terminal.run(main)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_press_that_nobody_saw_is_sent_again() -> None:
    terminal = Terminal(Script())

    async def main() -> int:
        pressed = asyncio.Event()
        terminal.on_interrupt = pressed.set
        terminal._heard += 1  # as the pipe tells it of a signal that came just before the main thread began to wait
        terminal._send_again()
        await pressed.wait()
        pressed.clear()
        terminal._send_again()
        assert terminal._sent == 1
        return 0

    assert terminal.run(main) == 0

"""The shells in which the commands of a page run, one for each of its terminals: in one folder, with one home."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
HANGS_S = 270
"""After this the shell is killed, so that what never ends does not hold up all tests."""
MORE_S = 0.3
"""How long a terminal is looked at for more than a page shows of it."""
END = ":end:\n"


class Shell:
    """One bash in which all commands of a page run, in a folder and with a home of its own; used as a context manager.

    `agentos` and `python` are those of this tree. Whatever the commands left running is ended with it.
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        self._work, self._side, self._name = folder / "work", folder / "side", name
        for path in (self._work, self._side / "home", self._side / "bin"):
            path.mkdir(parents=True, exist_ok=True)
        _program(self._side / "bin" / "agentos", f'exec "{sys.executable}" -m agentos "$@"')
        _program(self._side / "bin" / "python", f'exec "{sys.executable}" "$@"')

    def __enter__(self) -> Shell:
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._work,
            env=self._environment(),
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        self._watchdog = threading.Timer(HANGS_S, self._kill)
        self._watchdog.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.cancel()
        self._kill()
        self._bash.communicate()

    def run(self, command: str) -> str:
        """What a command prints, without the last line break. Raises EOFError when the shell is gone."""
        assert self._bash.stdout is not None
        self.begin(command)
        lines: list[str] = []
        while (line := self._bash.stdout.readline()) != END:
            if not line:
                raise EOFError(f"the shell ended, or was ended after {HANGS_S} s, in: {command}\n{lines}")
            lines.append(line.rstrip())
        return self.shown(lines)

    def begin(self, command: str) -> None:
        """Has the shell run something; END comes on a line of its own once it has ended."""
        assert self._bash.stdin is not None
        step = self._side / f"step{self._name}"
        step.write_text(command + "\n")
        self._bash.stdin.write(f". {step} </dev/null; printf '\\n{END.strip()}\\n'\n")
        self._bash.stdin.flush()

    def shown(self, lines: list[str]) -> str:
        """Lines as a page has them."""
        return "\n".join(lines).rstrip("\n").replace(f"{self._work.resolve()}/", "…/")

    def write(self, name: str, content: str) -> None:
        """A file in the folder that the shell is in; one that begins with #! is made executable."""
        path = Path(self.run("pwd -P").replace("…", str(self._work.resolve()))) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if content.startswith("#!"):
            path.chmod(0o755)

    def _environment(self) -> dict[str, str]:
        foreign = ("AGENTOS", "OPENAI", "XDG", "PYTHON", "NO_COLOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        path = f"{self._side / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**kept, "PATH": path, "HOME": str(self._side / "home"), "PYTHONUNBUFFERED": "1"}

    def _kill(self) -> None:
        if self._bash.poll() is None:
            os.killpg(self._bash.pid, signal.SIGKILL)


class Terminal(Shell):
    """A shell whose command may go on while others run: what it prints is taken as far as it is wanted."""

    def __enter__(self) -> Terminal:
        super().__enter__()
        self._lines: queue.Queue[str] = queue.Queue()
        self._goes_on = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.cancel()
        self._kill()
        self._bash.wait()
        self._reader.join()
        for stream in (self._bash.stdin, self._bash.stdout):
            assert stream is not None
            stream.close()

    def go_on(self, command: str, is_whole: Callable[[str], bool], quiet_s: float) -> str:
        """What a command prints until that is whole, or it ends, or prints nothing for a while; without a command, what the
        last one goes on to print."""
        if command:
            if self._goes_on:
                self._take(lambda _: False, quiet_s)
            self.begin(command)
            self._goes_on = True
        return self._take(is_whole, quiet_s) if self._goes_on else ""

    def _take(self, is_whole: Callable[[str], bool], quiet_s: float) -> str:
        lines: list[str] = []
        while True:
            whole = bool(lines) and is_whole(self.shown(lines))
            try:
                line = self._lines.get(timeout=MORE_S if whole else quiet_s)
            except queue.Empty:
                return self.shown(lines)
            if line == END:
                self._goes_on = False
                return self.shown(lines)
            lines.append(line.rstrip())

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            self._lines.put(line)
        self._lines.put(END)


def _program(path: Path, line: str) -> None:
    """The package comes from this tree also where a script runs without the variables of this process."""
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" {line}\n')
    path.chmod(0o755)

"""Pages whose commands are run again: the outputs that they show have to be those that come.

In a block ```console a line that begins with `$ ` is a command, one that begins with `> ` goes on with it, and the lines
below are what it prints, stderr with stdout; `...` stands for any number of them. A block of another kind is written to a
file when the line before it ends with the name of the file in backticks and a colon.

An id, a time and a digest stand for those of the run. The same id in two places is the same one, in commands too. Blanks
count as one, and as none at the end of a line, and `…/` stands for the folder that all is done in.

`python -m tests.transcript PAGE` puts what comes now in the place of all that is shown.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
HANGS_S = 120
"""After this the shell is killed, so that what never ends does not hold up all tests."""

_FENCE = re.compile(r"```(\w*)")
_FILE = re.compile(r"`([^`\s]+)`:")
_ID = "[0-9a-hjkmnp-tv-z]"
_TOKEN = re.compile(
    r"(?P<clock>\d\d:\d\d:\d\d\.\d+)"
    r"|(?P<took>(?<![\w.+])\d+(?:\.\d+)? ?(?:ms|s)(?!\w))"
    r"|(?P<digest>[0-9a-f]{64}|[0-9a-f]{12}…)"
    rf"|(?P<id>(?<![0-9A-Za-z])(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])(?:{_ID}{{18}})?{_ID}{{8}}(?![0-9A-Za-z]))"
    r"|(?P<blank>\s+)"
)
_SHAPES = {
    "clock": r"\d\d:\d\d:\d\d\.\d+",
    "took": r"\d+(?:\.\d+)? ?(?:ms|s)",
    "digest": r"(?:[0-9a-f]{64}|[0-9a-f]{12}…)",
    "blank": r"\s+",
}


_GAP = r"((?:.*\n)*?.*)"


class Step(NamedTuple):
    """A command with what it prints, or a file with its content; first and last are the lines of that, from 0."""

    text: str
    shown: str
    first: int
    last: int
    is_file: bool = False


class Mismatch(NamedTuple):
    """What the page shows and what came."""

    step: Step
    came: str

    def __str__(self) -> str:
        return f"line {self.step.first}: $ {self.step.text}\n--- shown\n{self.step.shown}\n--- came\n{self.came}\n"


def steps_of(page: str) -> Iterator[Step]:
    """The commands and files of a page, in order."""
    lines = page.split("\n")
    number = 0
    while number < len(lines):
        opened = _FENCE.fullmatch(lines[number])
        number += 1
        if opened is None:
            continue
        end = lines.index("```", number)
        if opened[1] == "console":
            yield from _commands(lines, number, end)
        elif named := _named(lines, number - 1):
            yield Step(named, "\n".join(lines[number:end]) + "\n", number, end, is_file=True)
        number = end + 1


def mismatch(page: str, folder: Path) -> Mismatch | None:
    """Runs a page in a folder; the first command that prints something else."""
    ids: dict[str, str] = {}
    for step, came in _run(page, folder, ids):
        found = _match(step.shown, came, ids)
        if found is None:
            return Mismatch(step, came)
        ids |= _bound(found)
    return None


def renewed(page: str, folder: Path) -> str:
    """The page with what comes now; what `...` stood for stays out where the rest still fits."""
    lines = page.split("\n")
    ids: dict[str, str] = {}
    outputs: list[tuple[Step, str]] = []
    for step, came in _run(page, folder, ids):
        found = _match(step.shown, came, ids)
        ids |= _in_order(step.shown, came, ids) if found is None else _bound(found)
        outputs.append((step, came if found is None else _elided(found)))
    for step, came in reversed(outputs):
        lines[step.first : step.last] = came.split("\n") if came else []
    return _with_ids("\n".join(lines), ids)


def _run(page: str, folder: Path, ids: dict[str, str]) -> Iterator[tuple[Step, str]]:
    """Each command of a page with what it printed. ids are those that a page's own stand for, as far as they are known."""
    with Shell(folder) as shell:
        for step in steps_of(page):
            if step.is_file:
                shell.write(step.text, step.shown)
            else:
                yield step, shell.run(_with_ids(step.text, ids))


class Shell:
    """One bash in which all commands of a page run, in a folder and with a home of its own; used as a context manager.

    `agentos` and `python` are those of this tree. Whatever the commands left running is ended with it.
    """

    def __init__(self, folder: Path) -> None:
        self._work, self._side = folder / "work", folder / "side"
        for path in (self._work, self._side / "home", self._side / "bin"):
            path.mkdir(parents=True)
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
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        step = self._side / "step"
        step.write_text(command + "\n")
        self._bash.stdin.write(f". {step} </dev/null; printf '\\n:end:\\n'\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        while (line := self._bash.stdout.readline()) != ":end:\n":
            if not line:
                raise EOFError(f"the shell ended, or was ended after {HANGS_S} s, in: {command}\n{lines}")
            lines.append(line.rstrip())
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


def _program(path: Path, line: str) -> None:
    """The package comes from this tree also where a script runs without the variables of this process."""
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" {line}\n')
    path.chmod(0o755)


def _commands(lines: list[str], first: int, end: int) -> Iterator[Step]:
    starts = [number for number in range(first, end) if lines[number].startswith("$ ")]
    assert starts[:1] == [first], f"line {first + 1}: a block of commands begins with a command"
    for start, stop in zip(starts, [*starts[1:], end], strict=True):
        rest = start + 1
        while rest < stop and lines[rest].startswith("> "):
            rest += 1
        command = "\n".join(line[2:] for line in lines[start:rest])
        yield Step(command, "\n".join(lines[rest:stop]), rest, stop)


def _named(lines: list[str], fence: int) -> str | None:
    """The file that the text before a block names at its end."""
    before = next((line for line in reversed(lines[:fence]) if line), "")
    found = list(_FILE.finditer(before))
    return found[-1][1] if found and found[-1].end() == len(before) else None


def _with_ids(text: str, ids: dict[str, str]) -> str:
    return _TOKEN.sub(lambda found: ids.get(found[0], found[0]) if found["id"] else found[0], text)


def _match(shown: str, came: str, ids: dict[str, str]) -> re.Match[str] | None:
    """Whether an output is the one that a page shows, with groups for the ids that are new and for what `...` leaves out."""
    names: list[str] = []
    lines = [_GAP if line == "..." else _pattern(line, ids, names) for line in shown.split("\n")]
    return re.fullmatch("\n".join(lines), came)


def _pattern(line: str, ids: dict[str, str], names: list[str]) -> str:
    parts: list[str] = []
    position = 0
    for token in _TOKEN.finditer(line):
        parts.append(re.escape(line[position : token.start()]))
        parts.append(_id_pattern(token[0], ids, names) if token["id"] else _SHAPES[str(token.lastgroup)])
        position = token.end()
    return "".join([*parts, re.escape(line[position:])])


def _id_pattern(text: str, ids: dict[str, str], names: list[str]) -> str:
    """The short form is the end of the whole one, and stands for it."""
    short, before = text[-8:], f"{_ID}{{{len(text) - 8}}}"
    if short in ids:
        return before + re.escape(ids[short])
    if short in names:
        return f"{before}(?P=id_{short})"
    names.append(short)
    return f"{before}(?P<id_{short}>{_ID}{{8}})"


def _bound(found: re.Match[str]) -> dict[str, str]:
    return {name.removeprefix("id_"): id_ for name, id_ in found.groupdict().items()}


def _in_order(shown: str, came: str, ids: dict[str, str]) -> dict[str, str]:
    """Where an output does not fit: its ids are those that are shown, one after the other."""
    old, new = (
        list(dict.fromkeys(token[0][-8:] for token in _TOKEN.finditer(text) if token["id"])) for text in (shown, came)
    )
    return {name: id_ for name, id_ in zip(old, new, strict=False) if name not in ids}


def _elided(found: re.Match[str]) -> str:
    """What came, with `...` where the page leaves something out."""
    text = found.string
    unnamed = set(range(1, found.re.groups + 1)) - set(found.re.groupindex.values())
    for group in sorted(unnamed, reverse=True):
        text = f"{text[: found.start(group)]}...{text[found.end(group) :]}"
    return text


def main(pages: list[str]) -> None:
    for name in pages:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(renewed(path.read_text(), Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])

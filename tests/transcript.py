"""Pages whose commands are run again: the outputs that they show have to be those that come.

In a block ```console a line that begins with `$ ` is a command, one that begins with `> ` goes on with it, and the lines
below are what it prints, stderr with stdout; `...` stands for any number of them. A block of another kind is written to a
file when the line before it ends with the name of the file in backticks and a colon.

A line `first$ agentos up` is a command in a terminal of that name, in the same folder. It goes on while the page does: as
much of what it prints is taken as the page shows, and below a line `first$` stands what came since.

An id, a time, a digest, the key of an input and the number of a process stand for those of the run. The same id or process
in two places is the same one, in commands too. Blanks count as one, and as none at the end of a line, and `…/` stands for
the folder that all is done in.

`python -m tests.transcript PAGE` puts what comes now in the place of all that is shown.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.transcript_shell import ROOT, Shell, Terminal

__all__ = ["ROOT", "mismatch", "renewed", "steps_of"]

QUIET_S, RENEWED_QUIET_S = 60.0, 4.0
"""How long a terminal may print nothing before what the page shows is missed; less where the page is made anew."""

_FENCE = re.compile(r"```(\w*)")
_FILE = re.compile(r"`([^`\s]+)`:")
_ID = "[0-9a-hjkmnp-tv-z]"
_TOKEN = re.compile(
    r"(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)"
    r"|(?P<took>(?<![\w.+])\d+(?:\.\d+)? ?(?:ms|s)(?!\w))"
    r"|(?P<pid>(?:(?<=process )|(?<=pid )|(?<=kill ))\d+(?!\w))"
    r"|(?P<digest>[0-9a-f]{64}|[0-9a-f]{12}…|(?<=key=)[0-9a-f]{32})"
    rf"|(?P<id>(?<![0-9A-Za-z])(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])(?:{_ID}{{18}})?{_ID}{{8}}(?![0-9A-Za-z]))"
    r"|(?P<blank>\s+)"
)
_SHAPES = {
    "clock": r"\d\d:\d\d:\d\d(?:\.\d+)?",
    "took": r"\d+(?:\.\d+)? ?(?:ms|s)",
    "digest": r"(?:[0-9a-f]{64}|[0-9a-f]{12}…|[0-9a-f]{32})",
    "blank": r"\s+",
}


_GAP = r"((?:.*\n)*?.*)"


_PROMPT = re.compile(r"(?P<terminal>[a-z]*)\$(?: (?P<command>.*))?")


def _fits(shown: str, ids: dict[str, str], came: str) -> bool:
    return _match(shown, came, ids) is not None


class Step(NamedTuple):
    """A command with what it prints, or a file with its content; first and last are the lines of that, from 0. terminal is
    empty for the shell that waits for each; there, text is empty for what the last command goes on to print."""

    text: str
    shown: str
    first: int
    last: int
    is_file: bool = False
    terminal: str = ""


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
    for step, came in _run(page, folder, ids, QUIET_S):
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
    for step, came in _run(page, folder, ids, RENEWED_QUIET_S):
        found = _match(step.shown, came, ids)
        ids |= _in_order(step.shown, came, ids) if found is None else _bound(found)
        outputs.append((step, came if found is None else _elided(found)))
    for step, came in reversed(outputs):
        lines[step.first : step.last] = came.split("\n") if came else []
    return _with_ids("\n".join(lines), ids)


def _run(page: str, folder: Path, ids: dict[str, str], quiet_s: float) -> Iterator[tuple[Step, str]]:
    """Each command of a page with what it printed. ids are those that a page's own stand for, as far as they are known."""
    terminals: dict[str, Terminal] = {}
    with ExitStack() as stack:
        shell = stack.enter_context(Shell(folder))
        for step in steps_of(page):
            if step.is_file:
                shell.write(step.text, step.shown)
                continue
            command = _with_ids(step.text, ids)
            if not step.terminal:
                yield step, shell.run(command)
                continue
            if step.terminal not in terminals:
                terminals[step.terminal] = stack.enter_context(Terminal(folder, step.terminal))
            yield step, terminals[step.terminal].go_on(command, partial(_fits, step.shown, ids), quiet_s)


def _commands(lines: list[str], first: int, end: int) -> Iterator[Step]:
    prompts = [(number, found) for number in range(first, end) if (found := _PROMPT.fullmatch(lines[number]))]
    assert [number for number, _ in prompts[:1]] == [first], (
        f"line {first + 1}: a block of commands begins with a command"
    )
    for (start, prompt), stop in zip(prompts, [*(number for number, _ in prompts[1:]), end], strict=True):
        rest = start + 1
        while rest < stop and lines[rest].startswith("> "):
            rest += 1
        command = "\n".join([prompt["command"] or "", *(line[2:] for line in lines[start + 1 : rest])])
        yield Step(command, "\n".join(lines[rest:stop]), rest, stop, terminal=prompt["terminal"])


def _named(lines: list[str], fence: int) -> str | None:
    """The file that the text before a block names at its end."""
    before = next((line for line in reversed(lines[:fence]) if line), "")
    found = list(_FILE.finditer(before))
    return found[-1][1] if found and found[-1].end() == len(before) else None


def _with_ids(text: str, ids: dict[str, str]) -> str:
    return _TOKEN.sub(lambda found: ids.get(found[0], found[0]) if found["id"] or found["pid"] else found[0], text)


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
        if token["id"]:
            parts.append(_id_pattern(token[0], ids, names))
        elif token["pid"]:
            parts.append(_named_pattern(token[0], r"\d+", ids, names))
        else:
            parts.append(_SHAPES[str(token.lastgroup)])
        position = token.end()
    return "".join([*parts, re.escape(line[position:])])


def _id_pattern(text: str, ids: dict[str, str], names: list[str]) -> str:
    """The short form is the end of the whole one, and stands for it."""
    before = f"{_ID}{{{len(text) - 8}}}"
    return before + _named_pattern(text[-8:], f"{_ID}{{8}}", ids, names)


def _named_pattern(name: str, shape: str, ids: dict[str, str], names: list[str]) -> str:
    """What a name of the page stands for: always the same."""
    if name in ids:
        return re.escape(ids[name])
    if name in names:
        return f"(?P=id_{name})"
    names.append(name)
    return f"(?P<id_{name}>{shape})"


def _bound(found: re.Match[str]) -> dict[str, str]:
    return {name.removeprefix("id_"): id_ for name, id_ in found.groupdict().items()}


def _in_order(shown: str, came: str, ids: dict[str, str]) -> dict[str, str]:
    """Where an output does not fit: its ids are those that are shown, one after the other."""
    old, new = (
        list(dict.fromkeys(token[0][-8:] for token in _TOKEN.finditer(text) if token["id"] or token["pid"]))
        for text in (shown, came)
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

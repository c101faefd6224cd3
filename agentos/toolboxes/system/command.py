"""Commands of a system toolbox, each judged by a filter program before it runs.

The filter is a program of the person in charge. It gets the command on its stdin and answers on its stdout with
`{"acceptance": "allowed" | "refused", "note": TEXT}`; another answer, another exit code than 0 or no answer in time
refuses. AGENTOS_COMMAND_FORM tells it which of the two forms it judges:

    argv    a list of words, run as they are, without a shell; on stdin they stand quoted as a shell would read them
    shell   a text that /bin/sh runs, as it stands on stdin

What is judged is what runs, byte for byte. The command ends with all its processes, in time or not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.resources.process.command import Command, ProcessLimits, inherited
from agentos.resources.process.descendants import MARK
from agentos.resources.process.partial import partial_of
from agentos.resources.process.process import Ended, run_process
from agentos.resources.process.reasons import code_text, reason_of
from agentos.toolboxes.base import Failed
from agentos.toolboxes.results import Media

FORM = "AGENTOS_COMMAND_FORM"
COMMAND_CHARS_MAX = 100_000
FAILURE_CHARS = 4_000
_ANSWER_BYTES = 64 * 1024
_SHELL = "/bin/sh"


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A command may take command_s, and its filter filter_s before it; process bounds what they print and leave."""

    command_s: float = 30.0
    filter_s: float = 10.0
    process: ProcessLimits = ProcessLimits()


class Judgement(msgspec.Struct, frozen=True):
    """What a filter says of a command."""

    allowed: bool
    note: str


class Commands:
    """Runs commands in one folder, after one filter."""

    def __init__(self, filter_program: Path, cwd: Path, limits: CommandLimits) -> None:
        self.filter_program = filter_program
        self._cwd, self._limits = cwd, limits

    def check(self, toolbox: str) -> None:
        """Raises ConfigurationError when the filter is no program."""
        if not self.filter_program.is_file() or not os.access(self.filter_program, os.X_OK):
            raise ConfigurationError(
                f"toolbox {toolbox}: the command filter {self.filter_program} is no executable file"
            )

    async def run(self, command: object, key: str) -> object:
        """A text, or Failed. command is a list of words or a text for the shell; key marks the processes."""
        try:
            form, judged, argv = _forms(command)
        except ValueError as error:
            return Failed(Name("invalid"), str(error))
        judgement = await self._judged(form, judged, key)
        if not judgement.allowed:
            return Failed(Name("refused"), f"the command filter refused this command: {judgement.note}")
        environment = inherited()
        program = self._program(argv[0], environment["PATH"])
        if program is None:
            return Failed(Name("start"), f"{argv[0]!r} is no program here, nor on PATH")
        return await self._result([program, *argv[1:]], environment, key)

    async def _judged(self, form: str, text: str, key: str) -> Judgement:
        command = Command(
            argv=[str(self.filter_program)],
            environment={**inherited(), FORM: form, MARK: key},
            cwd=str(self._cwd),
            mark=key,
            stdin=text.encode(),
        )
        limits = msgspec.structs.replace(self._limits.process, memory_bytes=4 * _ANSWER_BYTES)
        try:
            async with asyncio.timeout(self._limits.filter_s):
                ended = await run_process(command, limits)
        except TimeoutError:
            return Judgement(False, f"it gave no answer within {self._limits.filter_s:g} s (filter_s)")
        except OSError as error:
            return Judgement(False, f"it could not be started: {reason_of(error, self.filter_program, self._cwd)}")
        return _answer(ended)

    def _program(self, word: str, path: str) -> str | None:
        if "/" in word:
            return str(self._cwd / word)
        return shutil.which(word, path=path)

    async def _result(self, argv: list[str], environment: Mapping[str, str], key: str) -> object:
        command = Command(argv=argv, environment={**environment, MARK: key}, cwd=str(self._cwd), mark=key)
        try:
            async with asyncio.timeout(self._limits.command_s):
                ended = await run_process(command, self._limits.process)
        except TimeoutError as error:
            said = partial_of(error)
            so_far = f"\nOutput so far:\n{said}" if said else ""
            limit = f"{self._limits.command_s:g} s (command_s)"
            return Failed(
                Name("timeout"), f"it did not end within {limit}, and was ended with all its processes{so_far}"
            )
        except OSError as error:
            return Failed(Name("start"), f"it could not be started: {reason_of(error, Path(argv[0]), self._cwd)}")
        return _shown(ended)


def _forms(command: object) -> tuple[str, str, list[str]]:
    """The form, what the filter reads, and what is run. Raises ValueError."""
    if isinstance(command, str):
        form, judged, argv = "shell", command, [_SHELL, "-c", "--", command]
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        form, judged, argv = "argv", shlex.join(command), list(command)
    else:
        raise ValueError("command is a list of words (the program first), or a text for the shell")
    if not judged.strip() or not argv[0]:
        raise ValueError("the command is empty")
    if "\0" in judged:
        raise ValueError("the command holds a NUL, which no program can be given")
    if len(judged) > COMMAND_CHARS_MAX:
        raise ValueError(f"the command is over {COMMAND_CHARS_MAX:,} characters; put long text into a file")
    try:
        judged.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the command holds half a character (a lone surrogate)") from error
    return form, judged, argv


def _answer(ended: Ended) -> Judgement:
    """What a filter printed; everything but a clear permission refuses."""
    if ended.code != 0:
        said = ended.err.end(400).strip()
        return Judgement(False, f"it ended with {code_text(ended.code)}{f': {said}' if said else ''}")
    if ended.out.total > _ANSWER_BYTES:
        return Judgement(False, f"its answer is over {_ANSWER_BYTES:,} bytes")
    try:
        answer = json.loads(ended.out.data(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return Judgement(False, "its answer is no JSON object")
    note = answer.get("note") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or answer.get("acceptance") not in ("allowed", "refused"):
        return Judgement(False, "its answer says neither allowed nor refused")
    if note is not None and not isinstance(note, str):
        return Judgement(False, "the note of its answer is no text")
    return Judgement(answer["acceptance"] == "allowed", note or "it gives no reason")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _shown(ended: Ended) -> object:
    if ended.code != 0:
        lines = [f"the command ended with {code_text(ended.code)}"]
        for title, output in (("stderr", ended.err), ("stdout", ended.out)):
            if output.total:
                lines.append(f"{title}:\n{output.end(FAILURE_CHARS).rstrip()}")
        return Failed(Name("exit"), "\n".join(lines))
    taken = ended.out.take()
    if not isinstance(taken, str):
        return Media("application/octet-stream", taken, ended.out.total)
    said = ended.err.end(FAILURE_CHARS).rstrip()
    return f"{taken}\nstderr:\n{said}" if said else taken

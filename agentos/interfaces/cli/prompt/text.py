"""From the parts of a prompt to its text: files, stdin, commands of a shell, aliases; each within its limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.output import is_terminal
from agentos.interfaces.cli.prompt.alias import Alias, filled, find_alias
from agentos.interfaces.cli.prompt.parts import REPEATED, Part, PartKind
from agentos.kernel.commands import BLANK

SHELL_S = 60.0
"""How long a command of --shell may take."""
STDIN = "-"
_POLL_S = 0.01
_PIECE_BYTES = 65_536


class PromptText:
    """Builds a text from parts.

    bytes_max bounds each source and the whole; shell_s is how long one command may take, in seconds.
    """

    def __init__(self, aliases: Mapping[str, Alias], bytes_max: int, shell_s: float = SHELL_S) -> None:
        self._aliases, self._bytes_max, self._shell_s = aliases, bytes_max, shell_s
        self._stdin_taken = False

    async def build(self, parts: Sequence[Part]) -> str:
        """The parts joined by line breaks, one at the end of a source left out; without parts what stdin has.

        Errors: UsageError for a blank or too large text, a source that cannot be read or is no text, an unknown alias, a
        command that fails or takes too long; OSError for a file.
        """
        text = "\n".join([await self._part(part) for part in _with_files(parts, self._aliases)])
        if not parts:
            text = self._from_stdin("nothing to ask: give the text with -p TEXT, or on stdin")
        if not text.strip(BLANK):
            raise UsageError("the prompt is blank; nobody was asked")
        self._check_size(len(text.encode("utf-8", "surrogatepass")), "the prompt")
        return text

    async def _part(self, part: Part) -> str:
        match part.kind:
            case PartKind.FILE:
                return self._from_file(part.value)
            case PartKind.SHELL:
                return await self._from_shell(part.value)
            case PartKind.ALIAS:
                return self._from_alias(part.value)
            case _:
                return part.value * REPEATED.get(part.kind, 1)

    def _from_alias(self, value: str) -> str:
        name, equals, file = value.partition("=")
        alias = find_alias(self._aliases, name)
        if equals:
            return filled(alias, self._from_file(file), None if file == STDIN else file)
        way = f"--alias {name} needs a text on stdin, or a file: --alias {name}=FILE"
        return filled(alias, self._from_stdin(way), None)

    def _from_file(self, name: str) -> str:
        if name == STDIN:
            return self._from_stdin("-f - reads stdin, and a terminal is no text")
        with Path(name).open("rb") as file:
            body = file.read(self._bytes_max + 1)
        return self._text(body, name)

    def _from_stdin(self, lacking: str) -> str:
        """Raises UsageError with `lacking` when a terminal is there, which would be waited for."""
        if self._stdin_taken:
            raise UsageError("stdin is read by two parts of the prompt; it can be read once")
        if is_terminal(sys.stdin):
            raise UsageError(lacking)
        self._stdin_taken = True
        body = sys.stdin.buffer.read(self._bytes_max + 1)
        self._check_size(len(body), "stdin")
        return _without_end(body.decode("utf-8-sig", sys.stdin.errors or "strict"))

    async def _from_shell(self, command: str) -> str:
        """What the person's own command prints; it goes to a shell, since a person wrote it for one."""
        process = _shell(command)
        try:
            async with asyncio.timeout(self._shell_s):
                body = await self._output_of(process)
                code = await _ended(process) if len(body) <= self._bytes_max else 0
        except TimeoutError:
            raise UsageError(f"--shell {command!r}: not done after {self._shell_s:g} s") from None
        finally:
            _kill(process)
        if code:
            raise UsageError(f"--shell {command!r}: ended with exit code {code}")
        return self._text(body, f"--shell {command!r}")

    async def _output_of(self, process: subprocess.Popen[bytes]) -> bytes:
        """All of stdout, or the first bytes when there are more than may be. The pipe is ours and closed here: asyncio's own
        processes cannot be waited for while somebody holds a pipe that nobody reads."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, process.stdout)
        try:
            body = b""
            while len(body) <= self._bytes_max and (piece := await reader.read(_PIECE_BYTES)):
                body += piece
            return body
        finally:
            transport.close()

    def _text(self, body: bytes, source: str) -> str:
        self._check_size(len(body), source)
        try:
            return _without_end(body.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{source}: byte {error.start} is not UTF-8; only text can be a part of a prompt"
            ) from None

    def _check_size(self, size: int, source: str) -> None:
        if size > self._bytes_max:
            raise UsageError(f"{source}: over {self._bytes_max} bytes, the limit for a prompt (input_bytes_max)")


def _with_files(parts: Sequence[Part], aliases: Mapping[str, Alias]) -> list[Part]:
    """An alias that wants a file, and names none, takes the file part right behind it."""
    found: list[Part] = []
    for part in parts:
        before = found[-1] if found else None
        if part.kind is PartKind.FILE and before is not None and _wants_file(before, aliases):
            found[-1] = Part(PartKind.ALIAS, f"{before.value}={part.value}")
        else:
            found.append(part)
    return found


def _without_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _wants_file(part: Part, aliases: Mapping[str, Alias]) -> bool:
    return part.kind is PartKind.ALIAS and part.value in aliases and aliases[part.value].input == "file"


def _shell(command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that has said all it will say."""
    while True:
        code = process.poll()
        if code is not None:
            return code
        await asyncio.sleep(_POLL_S)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The shell with all that it started, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

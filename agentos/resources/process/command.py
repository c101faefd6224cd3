"""What to run, and how much of it is borne."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterable

import msgspec

INHERITED = ("HOME", "LANG", "TMPDIR", "TZ", "USER")
"""Variables that every program sees, with those that begin with LC_, and PATH without the entries that are no whole
paths."""


_UNTOLD = "this program ignores SIGCHLD, so that nobody would be told how it ended: set the signal to SIG_DFL"
"""Each process would seem to end with exit code 0."""


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one run.

    memory_bytes bounds what its output takes, however much is printed: half of it for what is kept of stdout, the rest
    for making that a text. error_bytes are kept of stderr. The process of a cancelled run has grace_s between SIGTERM
    and SIGKILL; what is left when it has ended has leftover_s only. SIGKILL is given kill_s to work. progress_s stands
    between two lines that are told while it runs.
    """

    memory_bytes: int = 16 * 1024 * 1024
    error_bytes: int = 65_536
    drain_s: float = 0.5
    grace_s: float = 2.0
    leftover_s: float = 0.1
    kill_s: float = 5.0
    progress_s: float = 0.5


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. argv[0] is an absolute path; nothing goes through a shell. mark is the value of MARK for its run."""

    argv: list[str]
    environment: dict[str, str]
    cwd: str
    mark: str
    stdin: bytes | None = None


def spawn(command: Command, *, feed: bool) -> subprocess.Popen[bytes]:
    """Starts a command in a session of its own, with pipes; feed: whether its stdin is one, else it is empty.

    Errors: OSError when it cannot be started, ValueError when an argument holds a NUL.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise ChildProcessError(errno.ECHILD, _UNTOLD)
    return subprocess.Popen(
        [argument.encode() for argument in command.argv],
        stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=command.cwd,
        env=command.environment,
        start_new_session=True,
    )


def inherited(names: Iterable[str] = ()) -> dict[str, str]:
    """The variables that a program sees: the few that every one does, and those that are named. No key of a provider."""
    wanted = [*INHERITED, *names, *(name for name in os.environ if name.startswith("LC_"))]
    passed_on = {name: os.environ[name] for name in wanted if name in os.environ}
    path = {"PATH": _whole_paths(os.environ.get("PATH", os.defpath))}
    # A program in Python prints UTF-8 whatever the locale is.
    return {"PYTHONIOENCODING": "utf-8"} | passed_on | path


def _whole_paths(path: str) -> str:
    """Without the entries that would find programs in whatever folder a script runs in."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))

"""Why a process could not be started, and how one ended, in words."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path


def reason_of(error: OSError, path: Path, cwd: Path) -> str:
    """Why a process could not be started, where the system's own word may mean two things."""
    if not cwd.is_dir():
        return f"the folder it runs in is gone: {cwd}"
    if isinstance(error, ChildProcessError):
        return str(error.strerror)
    if path.is_dir():
        return "it is a directory"
    if error.errno == errno.ENOENT and path.exists():
        return "the interpreter named in its first line does not exist"
    if error.errno == errno.ENOEXEC:
        return "it is no program, and its first line names no interpreter"
    if error.errno == errno.E2BIG:
        return "its arguments are longer than the system allows; let it take long text by stdin"
    return os.strerror(error.errno or 0)


def code_text(code: int) -> str:
    """An exit code, or the signal for a negative one."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"

"""The process between a test and its PostgreSQL server: it starts the server, and ends it when the test's process is gone.

    python -I -S postgres_keeper.py PARENT FOLDER USER GROUP PROGRAM [ARGUMENT ...]

It stands alone, as a script, because the server may not run as root and must not outlive its test however that ends: the
parent is watched by number, so that it does not matter which thread of it asked for the server, and if this process is
killed itself the kernel ends the server. USER and GROUP are numbers, -1 for those of this process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import time

POLL_S = 0.05
SERVER_END_S = 5.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(parent: int, folder: str, user: int, group: int, command: list[str]) -> int:
    """Returns once no process of the server is left: its exit status, or 128 and the number of the signal that ended it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # a killed server leaves its processes to this one, which waits for them too
    keeper = os.getpid()
    server = os.fork()
    if server == 0:
        _become_server(keeper, user, group, command)
    while (status := _ended(server)) is None:
        if os.getppid() != parent:
            _end(server)
            _wait_for_all()
            shutil.rmtree(folder)
            return 0
        time.sleep(POLL_S)
    _wait_for_all()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become_server(keeper: int, user: int, group: int, command: list[str]) -> None:
    """Never returns. The wish to die with the parent is made last: a change of user takes it back."""
    if group >= 0:
        os.setgroups([])
        os.setgid(group)
    if user >= 0:
        os.setuid(user)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
    if os.getppid() != keeper:
        os._exit(1)
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    """Only Linux knows these wishes; elsewhere a killed keeper leaves its server to itself."""
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _wait_for_all() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _ended(server: int) -> int | None:
    pid, status = os.waitpid(server, os.WNOHANG)
    return status if pid else None


def _end(server: int) -> None:
    """At once, but in order: a server that is asked gives back the memory that it shares with its processes."""
    os.kill(server, signal.SIGQUIT)
    limit = time.monotonic() + SERVER_END_S
    while _ended(server) is None:
        if time.monotonic() > limit:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
            return
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))

"""Starts the command quickly: each run is a process of its own, forked from one that has imported all of it already.

Most of a short command's time is the import of its modules, and the tests call it some thousand times. What a run gets is
what a program gets: arguments, an environment, a folder, three open files; it ends as the interpreter ends.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

_FILES = 3
_LENGTH_BYTES = 4


class Forks:
    """The process that others are forked from, as seen from the tests; it ends with them."""

    def __init__(self, root: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._address = str(Path(self._folder.name) / "s")
        words = [sys.executable, "-m", "tests.cli.forks", self._address]
        kept = {name: value for name, value in os.environ.items() if name != "AGENTOS_STORE"}
        self._server = subprocess.Popen(
            words, cwd=root, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"
        atexit.register(self.close)

    def close(self) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def run(
        self, words: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """The exit code, as that of `subprocess`, and what was written. Raises TimeoutExpired; it was killed then."""
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            said.write(stdin)
            said.seek(0)
            code = self._ran(words, (said.fileno(), out.fileno(), err.fileno()), cwd, env, timeout_s)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def _ran(
        self, words: Sequence[str], files: tuple[int, ...], cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> int:
        request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self._address)
            socket.send_fds(channel, [len(request).to_bytes(_LENGTH_BYTES, "big")], files)
            channel.sendall(request)
            # One reader for both lines: a command that ends at once has them come together.
            with channel.makefile("rb") as said:
                pid = _number(said)
                channel.settimeout(timeout_s)
                try:
                    return _number(said)
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(words), timeout_s) from None


def _number(said: BinaryIO) -> int:
    line = said.readline()
    assert line, "the process that commands are forked from has ended"
    return int(line)


def _exactly(channel: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        said += channel.recv(size - len(said))
    return said


def _serve(address: str) -> None:
    """Until stdin ends."""
    running: dict[int, socket.socket] = {}
    listener, (ear, mouth) = socket.socket(socket.AF_UNIX), socket.socketpair()
    listener.bind(address)
    listener.listen(16)
    mouth.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(mouth.fileno())
    waiting = selectors.DefaultSelector()
    for one in (listener, ear, sys.stdin):
        waiting.register(one, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        for key, _ in waiting.select():
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is ear:
                ear.recv(4096)
                _tell_the_ended(running)
                continue
            channel, _ = listener.accept()
            length, files, _, _ = socket.recv_fds(channel, _LENGTH_BYTES, _FILES)
            request = json.loads(_exactly(channel, int.from_bytes(length, "big")))
            pid = os.fork()
            if pid == 0:
                waiting.close()
                for mine in (listener, ear, mouth, channel, *running.values()):
                    mine.close()
                _command(request, files)
            for file in files:
                os.close(file)
            running[pid] = channel
            channel.sendall(b"%d\n" % pid)


def _tell_the_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as channel, suppress(BrokenPipeError):  # who waited for it too long has gone
            channel.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _command(request: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    """What the interpreter does at its start, then the command, then what the interpreter does at its end."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False, buffering=1)
    sys.argv = ["agentos", *request["words"]]
    sys.path[0] = request["cwd"]
    from agentos.__main__ import main

    code = 1
    try:
        code = main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # As the interpreter ends, but for the modules: to take apart what is shared with others would copy all of it.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _import_all() -> None:
    import agentos

    for module in pkgutil.walk_packages(agentos.__path__, "agentos."):
        if not module.name.startswith("agentos.testing") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _main() -> None:
    _import_all()
    gc.collect()
    gc.freeze()
    _serve(sys.argv[1])


if __name__ == "__main__":
    _main()

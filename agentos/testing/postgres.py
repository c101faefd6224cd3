"""A PostgreSQL server for tests: real, local, and gone with the process that started it.

    python -m agentos.testing.postgres

starts one, prints its URL and ends it on Ctrl-C or SIGTERM. Data, socket and log stand in one temporary folder, which goes
with the server. It listens on a Unix socket that only this user reaches, and on a port of the loopback interface behind a
password that is made anew each time. What is committed is synced as on any server, so that killing it proves something.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import ClassVar, Literal, Self
from urllib.parse import quote, urlencode

from agentos.errors import AgentosError
from agentos.testing import postgres_keeper
from agentos.testing.postgres_programs import ENVIRONMENT, Account, ServerFailed, account, new_folder, programs

Mode = Literal["smart", "fast", "immediate"]
"""How a server is asked to end: when the last client has left, as soon as all are put out, or without a checkpoint."""

USER = "postgres"
LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections
START_S = 60.0
STOP_S = 60.0
POLL_S = 0.02
PORT_TRIES = 5
_IPC_RMID = 0


class PostgresServer:
    """One server. Use it as a context manager, or call `start` and `stop`; none of these methods is async."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "listen_addresses": LOOPBACK,
        "shared_buffers": "32MB",
        "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing behind
        "timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    }

    def __init__(self, *, max_connections: int = 100, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are the server's own, by their names in postgresql.conf; they win over those given here."""
        self.settings = {**self.SETTINGS, "max_connections": str(max_connections), **(settings or {})}
        self.password = secrets.token_urlsafe(16)
        self.port = 0
        self._account = Account()
        self._folder: Path | None = None
        self._programs = Path()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._schemas = count(1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Where it is

    @property
    def folder(self) -> Path:
        """Holds the socket, the log and the data. Raises RuntimeError before the start and after the stop."""
        if self._folder is None:
            raise RuntimeError("the PostgreSQL server has not been started")
        return self._folder

    @property
    def pid(self) -> int:
        """Of the server's first process. Raises OSError when it does not run."""
        return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])

    @property
    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def url(self, database: str = "postgres", schema: str | None = None, *, tcp: bool = False) -> str:
        """By way of the socket, without a password; by way of the loopback interface, with one."""
        options = {} if tcp else {"host": str(self.folder), "port": str(self.port)}
        if schema is not None:
            options["schema"] = schema
        place = f"{USER}:{quote(self.password, safe='')}@{LOOPBACK}:{self.port}" if tcp else f"{USER}@"
        return f"postgresql://{place}/{quote(database, safe='')}" + (
            f"?{urlencode(options, safe='/')}" if options else ""
        )

    def new_schema_url(self, *, tcp: bool = False) -> str:
        """The URL of a store of its own: a schema that no other call of this server names."""
        return self.url(schema=f"store_{next(self._schemas)}", tcp=tcp)

    # Its life

    def start(self) -> None:
        """Returns once it takes connections; the data are those that it had, if it ran before.

        Errors: ConfigurationError (no programs, no user, no folder), ServerFailed with the end of its log.
        """
        if self.running:
            raise RuntimeError("the PostgreSQL server runs already")
        try:
            if self._folder is None:
                self._prepare()
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self, mode: Mode = "immediate") -> None:
        """Ends it if it runs, and removes its folder with all data, which need no checkpoint for that. A server that does
        not end in STOP_S is killed."""
        folder = self._folder
        if folder is None:
            return
        self._end(mode)
        _give_back_memory(self._data / "postmaster.pid")
        self._folder = None
        shutil.rmtree(folder)

    def restart(self, mode: Mode = "immediate") -> None:
        """As `pg_ctl restart -m MODE`, on the same port. After "immediate" it recovers from its log. Raises ServerFailed."""
        self._end(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL to all its processes at once; `start` brings it back as after a crash.

        Needs psutil, which comes with the programs.
        """
        import psutil

        first = psutil.Process(self.pid)
        first.suspend()  # so that it makes no more of them while they are listed
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._wait(STOP_S)

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    # Steps

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _prepare(self) -> None:
        self._account = account()
        self._folder = new_folder(self._account)
        self._programs = programs(self._account, self.folder)
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password)
        self._account.own(secret)
        command = [str(self._programs / "initdb"), "--pgdata", str(self._data), "--username", USER, "--no-sync"]
        command += ["--encoding", "UTF8", "--locale", "C", "--pwfile", str(secret)]
        command += ["--auth-local", "trust", "--auth-host", "scram-sha-256"]
        if self._account.run(command, self.folder, self.folder / "server.log"):
            raise ServerFailed("could not be set up", self.log)
        secret.unlink()

    def _launch(self) -> None:
        """On the port that it had, or on one that is free; another may take it meanwhile, so more than one is tried."""
        for left in reversed(range(1 if self.port else PORT_TRIES)):
            port = self.port or _free_port()
            seen = len(self.log)
            self._spawn(port)
            if self._wait_ready(port):
                self.port = port
                return
            said = self.log[seen:]
            if not left or "Address already in use" not in said:
                raise ServerFailed(f"did not start on port {port}", said)

    def _spawn(self, port: int) -> None:
        settings = {**self.settings, "port": str(port), "unix_socket_directories": str(self.folder)}
        server = [str(self._programs / "postgres"), "-D", str(self._data)]
        server += [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        keeper = [sys.executable, "-I", "-S", postgres_keeper.__file__, str(os.getpid()), str(self.folder)]
        user, group = (-1 if number is None else number for number in (self._account.user, self._account.group))
        with (self.folder / "server.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [*keeper, str(user), str(group), *server],
                cwd=self.folder,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for this process, which then ends the server
            )

    def _wait_ready(self, port: int) -> bool:
        """Whether it takes connections; False when it ended. What a killed one left in its file is not taken for it."""
        limit = time.monotonic() + START_S
        while self.running:
            with contextlib.suppress(FileNotFoundError):
                lines = (self._data / "postmaster.pid").read_text().splitlines()
                if len(lines) > 7 and lines[3] == str(port) and lines[7].strip() == "ready" and _alive(int(lines[0])):
                    return True
            if time.monotonic() > limit:
                raise ServerFailed(f"was not ready after {START_S:g} s", self.log)
            time.sleep(POLL_S)
        return False

    def _end(self, mode: Mode) -> None:
        if self.running:
            number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is about to end by itself
                os.kill(self.pid, number)
            self._wait(STOP_S)
        self._keeper = None

    def _wait(self, limit_s: float) -> None:
        assert self._keeper is not None
        try:
            self._keeper.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._keeper.kill()  # the kernel ends the server with it
            self._keeper.wait()


def _free_port() -> int:
    """One of PORTS on which nothing listens just now. Raises OSError when chance finds none."""
    for _ in range(1_000):
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            return port
    raise OSError(f"no free port of {LOOPBACK} between {PORTS.start} and {PORTS.stop}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _give_back_memory(file: Path) -> None:
    """The shared memory of a server that was killed: it would outlive all processes. One that ended has no such file."""
    with contextlib.suppress(FileNotFoundError):
        lines = file.read_text().splitlines()
        if len(lines) > 6 and (words := lines[6].split()):
            ctypes.CDLL(None).shmctl(int(words[1]), _IPC_RMID, None)


def main() -> int:
    """One server in the foreground; its URL is the one line on stdout. 1 when it cannot start or ends by itself."""
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)

    previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {
        number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with PostgresServer() as server:
            if not ended:
                print("PostgreSQL runs until Ctrl-C, which removes its data too; a store in it:", file=sys.stderr)
                print(server.url(tcp=True), flush=True)
            while not ended and server.running:
                time.sleep(POLL_S)
            if not ended:
                raise ServerFailed("ended by itself", server.log)
    except AgentosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The PostgreSQL server for tests: it keeps what was committed through any end, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from agentos.errors import ConfigurationError
from agentos.testing import postgres, postgres_programs
from agentos.testing.postgres import PostgresServer
from agentos.testing.postgres_programs import ServerFailed

CHILD_S = 60


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of this module's own, since these tests are rough with it."""
    with PostgresServer(max_connections=20, settings={"work_mem": "5MB"}) as made:
        yield made


async def fetch(url: str, sql: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    return asyncio.run(fetch(url, sql))


async def setting(url: str, name: str) -> Any:
    return (await fetch(url, f"select current_setting('{name}')"))[0][0]


@pytest.mark.parametrize("tcp", [False, True])
async def test_it_is_reached_by_its_socket_and_by_its_port(server: PostgresServer, tcp: bool) -> None:
    assert await fetch(server.url(tcp=tcp), "select 1") == [(1,)]


async def test_the_port_asks_for_the_password(server: PostgresServer) -> None:
    url = server.url(tcp=True).replace(server.password, "another")

    with pytest.raises(asyncpg.InvalidPasswordError):
        await fetch(url, "select 1")
    assert server.password not in server.url()
    assert await setting(server.url(), "listen_addresses") == "127.0.0.1"


async def test_settings_are_the_servers_own(server: PostgresServer) -> None:
    wanted = {"max_connections": "20", "work_mem": "5MB", "fsync": "on", "server_encoding": "UTF8", "lc_messages": "C"}

    assert {name: await setting(server.url(), name) for name in wanted} == wanted
    assert await fetch(server.url(), "select 'a' < 'B' collate \"default\"") == [(False,)]


def test_a_schema_url_is_given_once(server: PostgresServer) -> None:
    urls = {server.new_schema_url() for _ in range(3)} | {server.url(schema="other")}

    assert len(urls) == 4
    assert all("schema=" in url for url in urls)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_keeps_the_port_and_what_was_committed(server: PostgresServer, mode: Any) -> None:
    url, pid = server.url(), server.pid
    await fetch(url, f"create table restarted_{mode} as select 7 as number")
    server.restart(mode)

    assert await fetch(url, f"select number from restarted_{mode}") == [(7,)]
    assert server.pid != pid


async def test_a_killed_server_is_gone_with_all_its_processes_and_recovers(server: PostgresServer) -> None:
    await fetch(server.url(), "create table killed as select 8 as number")
    connection = await asyncpg.connect(server.url())
    processes = psutil.Process(server.pid).children(recursive=True)
    server.kill()

    assert not server.running
    assert processes
    assert not any(process.is_running() for process in processes)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.fetch("select 1")
    connection.terminate()
    server.start()
    assert await fetch(server.url(), "select number from killed") == [(8,)]
    assert "was not properly shut down; automatic recovery in progress" in server.log


async def test_what_it_leaves_is_nothing() -> None:
    made = PostgresServer()
    made.start()
    folder, pid = made.folder, made.pid
    with pytest.raises(RuntimeError, match="runs already"):
        made.start()
    segment = int((folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1])
    made.kill()
    made.stop()

    assert not folder.exists()
    assert not psutil.pid_exists(pid)
    assert str(segment) not in shared_memory()
    made.stop()
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = made.folder


def shared_memory() -> set[str]:
    """Numbers of all segments of System V."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {line.split()[1] for line in lines}


def test_a_server_that_does_not_start_shows_its_log_and_leaves_nothing() -> None:
    made = PostgresServer(settings={"shared_buffers": "none"})

    with pytest.raises(ServerFailed, match=r'did not start on port .*\n.*invalid value for parameter "shared_buffers"'):
        made.start()
    assert not made.running
    with pytest.raises(RuntimeError):
        _ = made.folder


def test_a_taken_port_is_no_hindrance(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = [server.port]
    free_port = postgres._free_port
    monkeypatch.setattr(postgres, "_free_port", lambda: tried.pop() if tried else free_port())

    with PostgresServer() as made:
        assert tried == []
        assert made.port != server.port


KILLED = """
import os, signal, threading
from agentos.testing.postgres import PostgresServer

server = PostgresServer()
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.folder, server.pid, server.url(), flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_lives_as_long_as_the_process_that_started_it_and_no_longer() -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    folder, pid, url = child.stdout.readline().split()
    first = psutil.Process(int(pid))
    keeper = first.parent()
    assert keeper is not None
    assert ask(url, "select 1") == [(1,)]  # though the thread that started it has ended
    child.communicate("now\n", timeout=CHILD_S)
    gone, alive = psutil.wait_procs([first, keeper], timeout=CHILD_S)

    assert child.returncode == -signal.SIGKILL
    assert not alive
    assert len(gone) == 2
    assert not Path(folder).exists()


async def test_a_server_whose_keeper_is_killed_ends_too() -> None:
    with PostgresServer() as made:
        first = psutil.Process(made.pid)
        keeper = first.parent()
        assert keeper is not None
        keeper.kill()
        gone, _ = psutil.wait_procs([first], timeout=CHILD_S)

        assert gone
        assert not made.running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_prints_its_url_and_ends_on_a_signal(number: signal.Signals) -> None:
    child = subprocess.Popen([sys.executable, "-m", "agentos.testing.postgres"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    url = child.stdout.readline().strip()
    data = ask(url, "show data_directory")[0][0]
    child.send_signal(number)
    rest, _ = child.communicate(timeout=CHILD_S)

    assert (child.returncode, rest) == (0, "")
    assert not Path(data).exists()


STOPPED = """
import os, signal, subprocess, sys
from agentos.testing import postgres

class Popen(subprocess.Popen):
    def __init__(self, command, **settings):
        super().__init__(command, **settings)
        if command[0].endswith("/initdb"):
            os.killpg(0, signal.SIGINT)  # as Ctrl-C does: to all processes of the terminal

subprocess.Popen = Popen
sys.exit(postgres.main())
"""


def test_ctrl_c_while_it_starts_ends_it_without_a_word() -> None:
    child = subprocess.run(
        [sys.executable, "-c", STOPPED],
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        start_new_session=True,
        check=False,
    )

    assert (child.returncode, child.stdout, child.stderr) == (0, "", "")


def test_in_the_foreground_it_says_what_is_wrong() -> None:
    script = (
        "import sys; from agentos.testing import postgres, postgres_programs; postgres_programs.PACKAGE = 'no_such'; "
    )
    child = subprocess.run(
        [sys.executable, "-c", script + "sys.exit(postgres.main())"],
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        check=False,
    )

    assert (child.returncode, child.stdout) == (1, "")
    assert child.stderr.startswith("error: the tests' PostgreSQL server is not installed: pip install")


def test_its_folder_is_closed_to_others(server: PostgresServer) -> None:
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700


def test_a_long_name_of_the_folder_for_temporary_files_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = postgres_programs.new_folder(postgres_programs.account())

    assert not folder.is_relative_to(long)
    assert list(long.iterdir()) == []
    folder.rmdir()


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "PACKAGE", "no_such_package")

    with pytest.raises(ConfigurationError, match=r"pip install 'agentos-kernel\[test\]'"):
        PostgresServer().start()


async def test_it_runs_as_a_plain_user_from_a_copy_where_that_user_cannot_run_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec(postgres_programs.PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, tmp_path / part.name)
    for program in (tmp_path / package.name).glob("pginstall*/bin/postgres"):
        program.chmod(0o600)
    spec.origin = str(tmp_path / package.name / "__init__.py")
    monkeypatch.setattr(postgres_programs, "find_spec", lambda name: spec)

    with PostgresServer() as made:
        assert psutil.Process(made.pid).username() != "root"
        assert psutil.Process(made.pid).exe().startswith(str(made.folder))
        assert await fetch(made.url(), "select 1") == [(1,)]

"""Where a control socket lies, and what becomes of one that is there already."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.definitions import AgentSpec
from agentos.errors import ControlTaken
from agentos.kernel import Kernel
from agentos.kernel.control import SocketClient
from agentos.kernel.control.place import PATH_BYTES_MAX, Place, listen, lives, place_of
from tests.control.support import path_of
from tests.support import Mind


def place_in(folder: Path) -> Place:
    found = place_of(f"sqlite:///{folder}/store.db")
    assert found is not None, "a file has a place"
    return found


def dead(path: str) -> None:
    """A socket as a killed process leaves it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)


def occupy(path: str) -> None:
    """Something that is no socket."""
    Path(path).write_text("mine")


def test_it_lies_beside_a_file_and_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = os.path.realpath(tmp_path)

    for url in ("sqlite:///a.db", f"sqlite:///{tmp_path}/a.db", f"sqlite:////{tmp_path}/a.db?durability=full"):
        place = place_of(url)
        assert place is not None
        assert place.socket(3) == f"{here}/a.db-control-3"
    for url in ("file:box", f"file:{tmp_path}/box", f"file://{tmp_path}/box?durability=relaxed"):
        place = place_of(url)
        assert place is not None
        assert place.socket(3) == f"{here}/box/writers/3.sock"


def test_a_store_in_memory_has_none() -> None:
    assert place_of("memory:") is place_of("sqlite:///:memory:") is None


def test_by_a_link_to_the_file_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert place_in(tmp_path / "link") == place_in(tmp_path / "real")


def test_a_database_has_one_whoever_asks_and_with_whatever_password(running: Path) -> None:
    base = place_of("postgresql://ann@db.example/agents")

    assert base is not None
    assert base.is_ours
    assert Path(base.folder) == running / "agentos"
    assert place_of("postgresql://bob:secret@db.example/agents?durability=normal") == base
    assert place_of("postgresql://ann@db.example/agents?schema=other") != base
    assert place_of("postgresql://ann@db.example/others") != base
    assert "secret" not in base.socket(1)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this user for things that run, with a short name."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_a_path_that_is_too_long_is_named_by_its_digest_for_both_sides(tmp_path: Path, running: Path) -> None:
    deep = tmp_path / ("d" * 100)
    place = place_in(deep)
    listening = listen(place, 1)
    try:
        assert place == place_in(deep)
        assert place != place_in(tmp_path / ("e" * 100))
        assert Path(place.folder) == running / "agentos"
        assert len(os.fsencode(place.socket(10**9))) <= PATH_BYTES_MAX
        assert lives(place.socket(1))
    finally:
        listening.socket.close()


def test_a_long_name_that_all_numbers_fit_behind_and_one_that_they_do_not(tmp_path: Path) -> None:
    lengths = [len(os.fsencode(place_in(tmp_path / ("x" * length)).socket(10**10 - 1))) for length in range(1, 100)]

    assert max(lengths) <= PATH_BYTES_MAX


@pytest.mark.parametrize("broken", ["", "relative", "/nowhere/at/all"])
def test_a_variable_that_names_no_folder_of_ours_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", broken)
    place = place_in(tmp_path / ("d" * 100))

    assert place.folder in (f"/run/user/{os.geteuid()}/agentos", f"/tmp/agentos-{os.geteuid()}")


def test_a_shared_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("open", "link"):
        with pytest.raises(ControlTaken, match="not this user's alone"):
            listen(Place(str(tmp_path / name), "x-", ".sock", is_ours=True), 1)


def test_it_is_for_this_user_alone_whatever_the_mask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        listening = listen(place_in(tmp_path), 1)
    finally:
        os.umask(before)
    with listening.socket:
        assert stat.S_IMODE(os.stat(listening.path).st_mode) == 0o600
        assert os.listdir(tmp_path) == ["store.db-control-1"]


def test_what_dead_processes_left_is_cleared_and_what_lives_stays(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    dead(place.socket(1))
    dead(place.socket(3))
    (tmp_path / "store.db-control-4").write_text("no socket")
    (tmp_path / "store.db-control-x").write_text("no number")
    with listen(place, 2).socket, listen(place, 3).socket:
        assert [number for number, _ in place.found()] == [2, 3, 4]
        assert lives(place.socket(2))
        assert lives(place.socket(3))
        assert (tmp_path / "store.db-control-x").exists()


def test_a_living_one_is_never_replaced(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with listen(place, 1).socket:
        with pytest.raises(ControlTaken, match="another process listens there"):
            listen(place, 1)

        assert lives(place.socket(1))
        assert os.listdir(tmp_path) == ["store.db-control-1"]


def test_something_else_of_this_name_is_not_overwritten(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    occupy(place.socket(1))
    with pytest.raises(ControlTaken, match="something else has this name"):
        listen(place, 1)

    assert Path(place.socket(1)).read_text() == "mine"


def test_the_name_of_another_socket_is_not_taken_away(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with (listening := listen(place, 1)).socket:
        os.unlink(listening.path)
        dead(listening.path)
        listening.remove()

        assert os.path.exists(listening.path)


async def test_a_kernel_that_cannot_listen_works_all_the_same_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    occupy(place_in(tmp_path).socket(1))
    async with Kernel(f"sqlite:///{tmp_path}/store.db", control=True) as kernel:
        assert kernel.control_path is None
        assert await kernel.conversations() == []

    assert "no other process can ask this kernel" in caplog.text


async def test_a_kernel_listens_only_when_told_and_takes_the_name_away(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Kernel(url) as quiet:
        assert quiet.control_path is None
    async with Kernel("memory:", control=True) as quiet:
        assert quiet.control_path is None
    async with Kernel(url, control=True) as first, Kernel(url, control=True) as second:
        for kernel in (first, second):
            async with SocketClient(path_of(kernel)) as client:
                assert client.greeting.writer == kernel.ticker.writer
                assert client.greeting.pid == os.getpid()

    assert not list(place_in(tmp_path).found())


async def test_a_store_in_a_folder_has_it_there(tmp_path: Path) -> None:
    async with Kernel(f"file:{tmp_path}/box", control=True) as kernel:
        assert Path(path_of(kernel)).parent == tmp_path / "box" / "writers"
        async with SocketClient(path_of(kernel)) as client:
            assert await client.conversations() == []


async def test_a_kernel_may_begin_to_listen_once_its_agents_are_there(tmp_path: Path) -> None:
    async with Kernel(f"sqlite:///{tmp_path}/store.db") as kernel:
        await kernel.install(AgentSpec(slug="main"), model=Mind())
        assert kernel.control_path is None
        await kernel.listen()
        await kernel.listen()
        async with SocketClient(path_of(kernel)) as client:
            assert await client.begin("main")

    assert not list(place_in(tmp_path).found())


def test_what_somebody_else_may_have_put_into_a_shared_folder_is_not_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o700)
    place = Place(str(folder), "digest-", ".sock", is_ours=True)
    dead(place.socket(1))
    seen = dict(place.found())
    folder.chmod(0o777)

    assert seen == {1: place.socket(1)}
    assert list(place.found()) == []

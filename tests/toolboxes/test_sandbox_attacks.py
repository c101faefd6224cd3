"""Ways out of a file sandbox (attack S04), tried one by one and at random."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.resources.folders import below
from agentos.resources.folders import file_sandbox as sandbox_module
from agentos.resources.folders.file_sandbox import FileRefused, FileSandbox
from tests.mounting import said_with_mounts

SECRET = b"the secret outside"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder `ws` that is allowed, with a secret beside it and many ways to it."""
    root = Path(os.path.realpath(tmp_path))
    for folder in ("ws/sub", "ws-secret", "outside/inner"):
        (root / folder).mkdir(parents=True)
    for secret in ("ws-secret/x", "outside/x", "outside/inner/x", "x", "ws.bak"):
        (root / secret).write_bytes(SECRET)
    for fine in ("ws/fine", "ws/sub/fine", "ws/%2e%2e", "ws/...", "ws/ name ", "ws/sub/x"):
        (root / fine).write_bytes(b"fine")
    (root / "ws/to-file").symlink_to(root / "outside/x")
    (root / "ws/to-folder").symlink_to(root / "outside")
    (root / "ws/up").symlink_to("..")
    (root / "ws/chain").symlink_to("to-folder")
    (root / "ws/loop").symlink_to("loop")
    (root / "ws/to-self").symlink_to("/proc/self")
    (root / "ws/to-fd").symlink_to("/proc/self/root")
    os.mkfifo(root / "ws/pipe")
    return root


def descriptors_open() -> int:
    """How many descriptors this process has open; 0 where the system does not tell."""
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def recursive(place: Path) -> FileSandbox:
    return FileSandbox.from_data(
        {"fsbPredicate": {"tag": "DirectoryRecursive", "contents": "ws"}, "fsbName": "ws"}, place
    )


def everything(place: Path) -> FileSandbox:
    return FileSandbox.from_data({"fsbPredicate": {"tag": "AlwaysAllow"}}, place)


OUT = [
    "ws-secret/x",
    "ws.bak",
    "x",
    "ws/../x",
    "ws/sub/../../x",
    "ws/./../outside/x",
    "ws//..//x",
    "ws/to-file",
    "ws/to-folder/x",
    "ws/to-folder/inner/x",
    "ws/to-folder/../x",
    "ws/chain/x",
    "ws/up/x",
    "ws/up/ws-secret/x",
    "ws/up/up/x",
    "ws/loop",
    "ws/loop/x",
    "ws/to-self/environ",
    "ws/to-self/cmdline",
    "ws/to-fd/etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/dev/null",
    "/dev/stdin",
    "/dev/fd/0",
    "ws/none",
    "ws/fine/x",
    "ws/fine/../../x",
    "",
    "ws/fine\0",
    "ws/fine\0/../../x",
    "\0",
    "ws/\ud800",
    "ws/" + "a" * 5_000,
    "ws/" + "../" * 600 + "etc/passwd",
    "~/x",
    "file:///etc/passwd",
    "ws\\..\\x",
    "WS/fine",
    "ws/%2e%2e/x",
    "ws/..%2fx",
    "ws/․․/x",
]


@pytest.mark.parametrize("path", OUT, ids=[f"{n}-{ascii(path)[:30]}" for n, path in enumerate(OUT)])
@pytest.mark.parametrize("absolute", [False, True])
def test_s04_a_way_out_is_refused(place: Path, path: str, absolute: bool) -> None:
    box = recursive(place)
    asked = f"{place}/{path}" if absolute and path and not path.startswith("/") else path

    assert not box.allows(asked)
    with pytest.raises(FileRefused):
        box.open_for_reading(asked)
    with pytest.raises(FileRefused):
        box.listed(asked, 100)


@pytest.mark.parametrize("path", ["ws/fine", "ws/sub/../fine", "ws/%2e%2e", "ws/...", "ws/ name ", "ws/up/ws/fine"])
def test_s04_what_only_looks_like_a_way_out_is_let_through(place: Path, path: str) -> None:
    with recursive(place).open_for_reading(path) as file:
        assert file.read() == b"fine"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/mem", "/dev/zero", "/dev/tty", "/sys", "/dev/shm"])
def test_s04_the_kernels_own_file_systems_are_closed_under_every_rule(place: Path, path: str) -> None:
    box = everything(place)

    assert not box.allows(path)
    with pytest.raises(FileRefused):
        box.open_for_reading(path)


def test_s04_a_fifo_or_a_socket_is_never_waited_for(place: Path) -> None:
    box = everything(place)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place / "ws/sock"))

        for path in ("ws/pipe", "ws/sock", "ws", "/"):
            with pytest.raises(FileRefused, match="is no regular file"):
                box.open_for_reading(path)


def swapped_between(monkeypatch: pytest.MonkeyPatch, swap: Any) -> None:
    """Does swap once, after a path was judged and before it is opened."""
    descend = sandbox_module._descend

    def swapping(canonical: Path, flags: int) -> int:
        swap()
        return descend(canonical, flags)

    monkeypatch.setattr(sandbox_module, "_descend", swapping)


def test_s04_a_file_that_is_swapped_for_a_link_after_the_check_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (place / "ws/fine").unlink()
        (place / "ws/fine").symlink_to(place / "outside/x")

    swapped_between(monkeypatch, swap)

    with pytest.raises(FileRefused):
        recursive(place).open_for_reading("ws/fine")


def test_s04_a_folder_that_is_swapped_for_a_link_after_the_check_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (place / "ws/sub").rename(place / "ws/old")
        (place / "ws/sub").symlink_to(place / "outside")

    swapped_between(monkeypatch, swap)

    with pytest.raises(FileRefused):
        recursive(place).open_for_reading("ws/sub/x")


def test_s04_a_folder_that_is_swapped_before_it_is_listed_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (place / "ws/sub").rename(place / "ws/old")
        (place / "ws/sub").symlink_to(place / "outside")

    swapped_between(monkeypatch, swap)

    with pytest.raises(FileRefused):
        recursive(place).listed("ws/sub", 100)


def test_s04_a_file_that_is_swapped_for_a_fifo_after_the_check_is_refused_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (place / "ws/fine").unlink()
        os.mkfifo(place / "ws/fine")

    swapped_between(monkeypatch, swap)

    with pytest.raises(FileRefused, match="is no regular file"):
        recursive(place).open_for_reading("ws/fine")


@pytest.mark.parametrize("held", [True, False])
def test_s04_a_file_that_is_swapped_for_a_fifo_at_the_last_moment_is_not_waited_for(
    place: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """What is held while it is looked at is what is opened, also when another stands there by then. Where nothing can be
    held, the second look finds the other."""
    if held and not below.HAS_DESCRIPTOR_FILES:
        pytest.skip("nothing can be held here without being opened: there is no O_PATH, or no /proc")
    monkeypatch.setattr(below, "HAS_DESCRIPTOR_FILES", held)
    look = below._insist_regular
    swapped = threading.Event()

    def swapping(found: os.stat_result, name: str) -> None:
        look(found, name)
        if not swapped.is_set():
            swapped.set()
            os.remove(place / "ws/fine")
            os.mkfifo(place / "ws/fine")

    said: list[str] = []

    def read() -> None:
        try:
            with recursive(place).open_for_reading("ws/fine") as file:
                said.append(file.read().decode())
        except FileRefused as error:
            said.append(str(error))

    monkeypatch.setattr(below, "_insist_regular", swapping)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)

    assert said == (["fine"] if held else ["'ws/fine' is no regular file"])


def test_s04_the_process_file_system_is_closed_under_another_path_too(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("there is no process file system here")
    monkeypatch.setattr(sandbox_module, "_CLOSED", ())
    box = everything(place)

    assert not box.allows("/proc/self/environ")
    with pytest.raises(FileRefused, match="allows no such file"):
        box.open_for_reading("/proc/self/environ")
    with pytest.raises(FileRefused, match="allows no such file"):
        box.listed("/proc/self", 10)


MOUNTS = """
import subprocess, sys
from pathlib import Path
from agentos.resources.folders.file_sandbox import FileRefused, FileSandbox

place = Path(sys.argv[1])
(place / "mounted here").mkdir()
subprocess.run(["mount", "--rbind", "/sys", place / "mounted here"], check=True)
box = FileSandbox.from_data({"fsbPredicate": {"tag": "AlwaysAllow"}}, place)
print((place / "mounted here/kernel/uevent_seqnum").exists(), box.allows("mounted here/kernel/uevent_seqnum"))
for work in (lambda: box.open_for_reading("mounted here/kernel/uevent_seqnum"), lambda: box.listed("mounted here", 10)):
    try:
        print(work())
    except FileRefused as error:
        print(error)
"""


def test_s04_a_second_mount_of_a_file_system_of_the_kernel_is_closed_too(tmp_path: Path) -> None:
    assert said_with_mounts(MOUNTS, tmp_path) == [
        "True False",
        "'mounted here/kernel/uevent_seqnum': the file sandbox allows no such file or folder",
        "'mounted here': the file sandbox allows no such file or folder",
    ]


def test_s04_a_file_that_grows_after_the_check_is_still_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = FileSandbox.from_data(
        {"fsbPredicate": {"tag": "FileSizeLessThan", "contents": 10}, "fsbMaxFileSize": 100}, place
    )
    swapped_between(monkeypatch, lambda: (place / "ws/fine").write_bytes(b"x" * 50))

    with pytest.raises(FileRefused, match="allows no such file"):
        box.open_for_reading("ws/fine")


def test_s04_an_allowed_folder_that_becomes_a_link_leads_nowhere_new(place: Path) -> None:
    box = recursive(place)
    (place / "ws").rename(place / "old")
    (place / "ws").symlink_to(place / "outside")

    with pytest.raises(FileRefused):
        box.open_for_reading("ws/x")


def test_s04_a_link_that_is_swapped_all_the_time_never_leads_outside(place: Path) -> None:
    box = recursive(place)
    path = place / "ws/race"
    other = place / "ws/race-next"
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in ("outside/x", "ws/fine"):
                other.symlink_to(place / target)
                other.rename(path)

    path.symlink_to(place / "ws/fine")
    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = {b"fine": 0, b"refused": 0}
    try:
        for _ in range(3_000):
            try:
                with box.open_for_reading("ws/race") as file:
                    seen[file.read()] += 1  # KeyError: what was read is the secret
            except FileRefused:
                seen[b"refused"] += 1
    finally:
        over.set()
        swapper.join()

    assert seen[b"fine"] + seen[b"refused"] == 3_000
    assert seen[b"fine"]


def test_no_descriptor_is_left_whatever_becomes_of_a_path(place: Path) -> None:
    box = recursive(place)
    before = descriptors_open()

    for path in (*OUT, "ws/pipe", "ws/fine"):
        try:
            box.open_for_reading(path).close()
        except FileRefused:
            continue

    assert descriptors_open() == before


WORDS = (
    *(
        "ws",
        "ws-secret",
        "ws.bak",
        "outside",
        "inner",
        "sub",
        "x",
        "fine",
        "to-file",
        "to-folder",
        "up",
        "chain",
        "loop",
    ),
    *("to-self", "cwd", "root", "environ", "pipe"),
    *("..", ".", "", "...", "%2e%2e", "\0", "~", "/"),
)
PARTS = st.lists(st.sampled_from(WORDS), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=400)
@given(parts=PARTS, absolute=st.booleans())
def test_no_path_whatever_it_is_made_of_leads_outside(place: Path, parts: list[str], absolute: bool) -> None:
    box = recursive(place)
    path = "/".join(parts)
    path = f"{place}/{path}" if absolute else path

    if box.allows(path):
        real = Path(os.path.realpath(place / path))
        assert real == place / "ws" or place / "ws" in real.parents
    try:
        with box.open_for_reading(path) as file:
            assert file.read() == b"fine"
    except FileRefused:
        pass

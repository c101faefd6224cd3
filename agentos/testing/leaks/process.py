"""What this process holds: tasks, open files, threads, child processes, temporary files. By Python's own library.

Each thing has a key that no other thing ever has, so that one that ended and one that began do not cancel out. Words that
could hold a secret (options of a command, what follows them) are never shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

Seen = dict[tuple[str, Hashable], str]
"""Kind and identity of each thing, with words for people."""

LOOP_THREADS = ("asyncio_", "AnyIO worker thread")
"""How the names of threads begin that an event loop keeps until it is closed."""
COMMAND_WORDS_MAX, COMMAND_CHARS_MAX = 3, 80
LOOKS_MAX = 10
"""How often the children of a process are looked for that come and go all the time."""


def held_by_process(temporary: Path | None = None) -> Seen:
    """What is held now, but for the caller's own task. A kind that this system does not tell of is left out."""
    seen: Seen = {}
    _tasks(seen)
    _files(seen)
    _threads(seen)
    _children(seen)
    if temporary is not None:
        _strays(seen, temporary)
        _temporary(seen, temporary)
    return seen


@contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """A folder in which this process and its children make their temporary files, removed at the end."""
    before, before_here = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="agentos-own-") as name:
        os.environ["TMPDIR"] = tempfile.tempdir = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before_here
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def _tasks(seen: Seen) -> None:
    try:
        current = asyncio.current_task()
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs in this thread
        return
    for task in tasks - {current}:
        coroutine = task.get_coro()
        name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
        frames = task.get_stack(limit=1)
        seen["task", task] = f"{task.get_name()}, {name}{_place(frames[0]) if frames else ''}"


def _files(seen: Seen) -> None:
    folder = next((place for place in ("/proc/self/fd", "/dev/fd") if os.path.isdir(place)), None)
    if folder is None:
        return
    for number in os.listdir(folder):
        with suppress(OSError):  # the one that listed the others is closed by now
            target = os.readlink(f"{folder}/{number}") if folder.startswith("/proc") else _kind_of(int(number))
            seen["file", (number, target)] = f"{number} -> {target}"


def _kind_of(descriptor: int) -> str:
    stat = os.fstat(descriptor)
    return f"device {stat.st_dev}, inode {stat.st_ino}"


def _threads(seen: Seen) -> None:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if not thread.name.startswith(LOOP_THREADS):
            frame = frames.get(thread.ident) if thread.ident is not None else None
            seen["thread", thread] = f"{thread.name}{_place(frame) if frame is not None else ''}"


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f", in {code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"


def _children(seen: Seen) -> None:
    """All processes below this one, those that ended but were not waited for included."""
    waiting = [os.getpid()]
    while waiting:
        for child in _children_of(waiting.pop()):
            waiting.append(child)
            started, state = _began(child)
            if started:
                seen["child", (child, started)] = f"{child} {state} {_command(child)}"


def _strays(seen: Seen, temporary: Path) -> None:
    """Processes whose parent has ended are below this one no more. Those that were begun while it had a temporary folder of
    its own are known by that, as long as nobody took it out of their environment."""
    mark = f"TMPDIR={temporary}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is another user's
            if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                started, _ = _began(int(name))
                seen.setdefault(("child", (int(name), started)), f"{name}  {_command(int(name))}")


def _temporary(seen: Seen, folder: Path) -> None:
    """All that is in a folder. What others take away meanwhile is not."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            seen["temporary", str(path)] = str(path.relative_to(folder))


def _children_of(pid: int) -> set[int]:
    """As the system says twice in a row: while one of them ends, or a thread of their parent, it may leave others out."""
    found = _children_told(pid)
    for _ in range(LOOKS_MAX):
        before, found = found, _children_told(pid)
        if found == before:
            break
    return found


def _children_told(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):  # this thread has
                found.update(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split()))
    return found


def _began(pid: int) -> tuple[int, str]:
    """When it began, in clock ticks since boot (a pid alone may soon be another's), and its state; 0 when it is gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return int(fields[19]), "(ended, not waited for)" if fields[0] in b"ZX" else ""
    return 0, ""


def _command(pid: int) -> str:
    """The first words of a command, up to its first option or setting."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if not words[0]:  # it has ended, or not yet become what it was started for
            return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        shown: list[str] = []
        for word in words[:COMMAND_WORDS_MAX]:
            if not word or word.startswith("-") or "=" in word:
                break
            shown.append(os.path.basename(word))
        return " ".join(shown)[:COMMAND_CHARS_MAX]
    return ""

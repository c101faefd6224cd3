"""Python files that are edited while their toolbox is open."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentos.ids import Name
from agentos.toolboxes.base import Reloadable
from agentos.toolboxes.python_file import PythonFileToolbox, load_python_toolbox
from tests.support import until

TEXT = """
import asyncio
from pathlib import Path
from agentos import tool

here = Path(__file__).parent
state = "VERSION"

def open():
    (here / "log").write_text((here / "log").read_text() + "open-VERSION ")

def close():
    global state
    state = "closed"
    (here / "log").write_text((here / "log").read_text() + "close-VERSION ")

@tool
def version() -> str:
    return state

@tool
async def slow() -> str:
    (here / "begun").touch()
    while not (here / "go").exists():
        await asyncio.sleep(0.005)
    return state
"""


EDITS = itertools.count()


def write(folder: Path, version: str, extra: str = "") -> Path:
    """Each time of another size: two edits may lie within one tick of the clock by which files are dated."""
    path = folder / "tools.py"
    path.write_text(TEXT.replace("VERSION", version) + extra + "\n" * next(EDITS))
    return path


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[PythonFileToolbox]:
    """Open, in its first version."""
    (tmp_path / "log").touch()
    before = set(sys.modules)
    toolbox = load_python_toolbox(write(tmp_path, "one"))
    await toolbox.open()
    yield toolbox
    await toolbox.close()
    assert not any(name.startswith("_agentos_tools_") for name in set(sys.modules) - before)


async def reload(toolbox: PythonFileToolbox) -> None:
    assert toolbox.changed()
    await toolbox.reload()
    assert not toolbox.changed()


async def test_a_toolbox_of_python_files_is_reloadable(box: PythonFileToolbox) -> None:
    assert isinstance(box, Reloadable)
    assert not box.changed()


async def test_an_edited_file_is_executed_anew_and_opened_before_the_old_one_is_closed(
    box: PythonFileToolbox, tmp_path: Path, context: Any
) -> None:
    before = box.content
    write(tmp_path, "two", "\n@tool\ndef added() -> int:\n    return 1\n")

    await reload(box)

    assert [tool.name for tool in box.tools()] == ["added", "slow", "version"]
    assert await box.call(Name("version"), {}, context) == "two"
    assert (tmp_path / "log").read_text() == "open-one open-two close-one "
    assert box.content != before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("if x\n", "tools.py:1: SyntaxError: expected ':'"),
        ("import sys\nsys.exit(1)\n", "tools.py:2: SystemExit: 1"),
        ("x = 1\n", "tools.py: no function is marked with @tool"),
        (
            "from agentos import tool\ndef open():\n    raise OSError('no disk')\n@tool\ndef f(): ...\n",
            "OSError: no disk",
        ),
        (None, "tools.py: no such Python file"),
    ],
    ids=["syntax", "exit", "no tools", "open fails", "gone"],
)
async def test_a_file_that_cannot_be_loaded_leaves_all_as_it_was_and_is_told(
    box: PythonFileToolbox, tmp_path: Path, context: Any, text: str | None, reason: str
) -> None:
    before = box.content
    path = tmp_path / "tools.py"
    path.unlink() if text is None else path.write_text(text)

    await reload(box)

    assert await box.call(Name("version"), {}, context) == "one"
    assert box.content == before
    ((place, why),) = [(problem.place, problem.reason) for problem in box.problems]
    assert place == str(path)
    assert why.startswith("the tools stay as they were: ")
    assert reason in why

    write(tmp_path, "two")
    await reload(box)
    assert await box.call(Name("version"), {}, context) == "two"
    assert box.problems == ()


async def test_a_call_goes_on_with_the_module_it_began_with_which_is_closed_after_it(
    box: PythonFileToolbox, tmp_path: Path, context: Any
) -> None:
    call = asyncio.create_task(box.call(Name("slow"), {}, context))
    await until((tmp_path / "begun").exists)
    write(tmp_path, "two")
    await reload(box)
    assert (tmp_path / "log").read_text() == "open-one open-two "

    (tmp_path / "go").touch()

    assert await call == "one"
    assert (tmp_path / "log").read_text() == "open-one open-two close-one "


async def test_a_close_that_fails_is_told_and_fails_nobody(
    box: PythonFileToolbox, tmp_path: Path, context: Any
) -> None:
    write(tmp_path, "two", "\ndef close():\n    raise OSError('stuck')\n")
    await reload(box)
    write(tmp_path, "three")
    await reload(box)

    assert await box.call(Name("version"), {}, context) == "three"
    assert [problem.reason for problem in box.problems] == ["close() of the replaced tools failed: OSError: stuck"]


async def test_an_edit_of_the_same_size_within_the_same_second_is_seen(
    box: PythonFileToolbox, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own cache of compiled files would not see it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for version in ("two", "six"):
        os.utime(write(tmp_path, version), (1_000_000, 1_000_000))
        await reload(box)

    assert await box.call(Name("version"), {}, context) == "six"
    assert not (tmp_path / "__pycache__").exists()

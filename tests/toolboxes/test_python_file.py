"""Toolboxes from Python files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agentos.components import ToolboxSharing
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.toolboxes.python_file import load_python_toolbox

NOTES = '''
from __future__ import annotations
from dataclasses import dataclass
from agentos import tool

notes = None

@dataclass
class Note:
    text: str
    tags: list[str]

async def open():
    global notes
    notes = ["opened"]

def close():
    notes.append("closed")

@tool(effect="idempotent")
async def write(note: Note) -> int:
    """Keeps a note."""
    notes.append(note.text)
    return len(notes)

def helper():
    return "no tool"

@tool
def read() -> list[str]:
    """Reads all notes."""
    return notes
'''


def written(folder: Path, text: str, name: str = "notes.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


async def test_the_marked_functions_of_a_file_are_a_toolbox(tmp_path: Path, context: Any) -> None:
    toolbox = load_python_toolbox(written(tmp_path, NOTES), sharing=ToolboxSharing.EXCLUSIVE)
    await toolbox.open()

    assert (toolbox.name, toolbox.sharing) == ("notes", ToolboxSharing.EXCLUSIVE)
    assert [spec.name for spec in toolbox.tools()] == ["read", "write"]
    assert await toolbox.call(Name("write"), {"note": {"text": "a", "tags": []}}, context) == 2
    notes = await toolbox.call(Name("read"), {}, context)
    await toolbox.close()
    assert notes == ["opened", "a", "closed"]


async def test_two_toolboxes_of_one_file_share_nothing(tmp_path: Path, context: Any) -> None:
    path = written(tmp_path, NOTES)
    one, two = load_python_toolbox(path), load_python_toolbox(path, name="other")
    await one.open()
    await two.open()

    await one.call(Name("write"), {"note": {"text": "a", "tags": []}}, context)

    assert await two.call(Name("read"), {}, context) == ["opened"]
    await one.close()
    await two.close()


async def test_several_files_are_one_toolbox_closed_in_opposite_order(tmp_path: Path, context: Any) -> None:
    log = tmp_path / "log"
    text = """
from agentos import tool
def say(word):
    with __builtins__["open"]({log!r}, "a") as file: file.write(word + " ")
def open(): say("open-{name}")
def close(): say("close-{name}")
@tool
def {name}(): return "{name}"
"""
    paths = [written(tmp_path, text.format(name=name, log=str(log)), f"{name}.py") for name in ("one", "two")]
    toolbox = load_python_toolbox(paths)
    await toolbox.open()
    await toolbox.close()

    assert [spec.name for spec in toolbox.tools()] == ["one", "two"]
    assert log.read_text() == "open-one open-two close-two close-one "


async def test_closing_forgets_the_module(tmp_path: Path) -> None:
    before = set(sys.modules)
    toolbox = load_python_toolbox(written(tmp_path, NOTES))
    assert any(name.startswith("_agentos_tools_") for name in set(sys.modules) - before)
    await toolbox.open()

    await toolbox.close()

    assert not any(name.startswith("_agentos_tools_") for name in set(sys.modules) - before)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("x = 1\nif x\n", 2, "SyntaxError: expected ':'"),
        ("x = 1\n\nx.y\n", 3, "AttributeError: 'int' object has no attribute 'y'"),
        ("import sys\nsys.exit(2)\n", 2, "SystemExit: 2"),
        ("import no_such_module\n", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    raise ValueError('deep')\n\nf()\n", 2, "ValueError: deep"),
        ("from agentos import tool\n@tool(effect='maybe')\ndef f(): ...\n", 2, "ValueError: 'maybe' is not a valid"),
        ("from agentos import tool\n\n@tool\ndef f(*a): ...\n", 3, r"tool f: parameter \*a cannot be given by name"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    path = written(tmp_path, text)
    before = set(sys.modules)

    with pytest.raises(ConfigurationError, match=why) as caught:
        load_python_toolbox(path)

    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert not any(name.startswith("_agentos_tools_") for name in set(sys.modules) - before)


def test_a_file_without_tools_or_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"plain\.py: no function is marked with @tool"):
        load_python_toolbox(written(tmp_path, "x = 1\n", "plain.py"))
    with pytest.raises(ConfigurationError, match=r"gone\.py: no such Python file"):
        load_python_toolbox(tmp_path / "gone.py")
    with pytest.raises(ConfigurationError, match=r"folder: no such Python file"):
        load_python_toolbox(tmp_path / "folder")


async def test_a_failing_open_closes_what_was_opened(tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    good = f"from agentos import tool\ndef open(): ...\ndef close():\n    import pathlib\n    pathlib.Path({str(mark)!r}).touch()\n@tool\ndef f(): ...\n"  # noqa: E501
    bad = "def open():\n    raise OSError('no disk')\n"
    before = set(sys.modules)
    toolbox = load_python_toolbox([written(tmp_path, good, "a.py"), written(tmp_path, bad, "b.py")])

    with pytest.raises(OSError, match="no disk"):
        await toolbox.open()

    assert mark.exists()
    assert not any(name.startswith("_agentos_tools_") for name in set(sys.modules) - before)

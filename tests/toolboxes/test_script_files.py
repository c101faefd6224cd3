"""Who else may write a script, and what its environment leads to: noted, or cut off."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.ids import Name
from agentos.toolboxes.base import notes_of
from agentos.toolboxes.script import ScriptToolbox
from agentos.toolboxes.script.files import openness

Write = Callable[..., Path]


async def opened(folder: Path) -> ScriptToolbox:
    toolbox = ScriptToolbox("box", directories=[folder / "scripts"], cwd=folder, environment=["PATH"])
    await toolbox.open()
    return toolbox


async def test_a_script_that_others_may_write_works_and_is_noted(script: Write, tmp_path: Path) -> None:
    path = script("tool", "true")
    path.chmod(0o777)
    path.parent.chmod(0o775)

    toolbox = await opened(tmp_path)

    assert [spec.name for spec in toolbox.tools()] == ["tool"]
    assert toolbox.problems == ()
    assert [(note.place, note.reason) for note in notes_of(toolbox)] == [
        (str(path), "it may be written by its group and everybody (mode 0777)"),
        (str(path), "its directory may be written by its group (mode 0775)"),
    ]
    await toolbox.close()


async def test_a_script_of_ones_own_needs_no_note(script: Write, tmp_path: Path) -> None:
    script("tool", "true").parent.chmod(0o755)

    toolbox = await opened(tmp_path)

    assert toolbox.notes == ()
    await toolbox.close()


@pytest.mark.parametrize(("first_line", "noted"), [("#!sh", True), ("#! bin/sh", True), ("#!/bin/sh", False)])
def test_an_interpreter_without_a_whole_path_is_noted(tmp_path: Path, first_line: str, noted: bool) -> None:
    path = tmp_path / "tool"
    path.write_text(f"{first_line}\n")

    assert any("interpreter" in note for note in openness(path)) is noted


async def test_no_program_is_found_in_the_folder_where_scripts_run(
    script: Write, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "ls"
    hidden.write_text("#!/bin/sh\necho hijacked\n")
    hidden.chmod(0o755)
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}:bin")
    script("look", "ls; echo $PATH")
    toolbox = await opened(tmp_path)

    printed = str(await toolbox.call(Name("look"), {}, context))

    assert "hijacked" not in printed
    assert printed.endswith(f"{os.environ['PATH'].removeprefix(':.:').removesuffix(':bin')}\n")
    await toolbox.close()

"""Scripts that come, go and change while their toolbox is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.components import EffectClass
from agentos.ids import Name
from agentos.toolboxes.base import Failed, Reloadable
from agentos.toolboxes.script import ScriptToolbox
from tests.support import until

Write = Callable[..., Path]


@pytest.fixture
async def box(script: Write, tmp_path: Path) -> AsyncIterator[ScriptToolbox]:
    """Open, with a script `steady` and a script `edited` that prints 1."""
    script("steady", "echo steady")
    script("edited", "echo 1")
    toolbox = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path)
    await toolbox.open()
    yield toolbox
    await toolbox.close()


def names(toolbox: ScriptToolbox) -> list[str]:
    return [spec.name for spec in toolbox.tools()]


async def reloaded(toolbox: ScriptToolbox) -> list[str]:
    """The names of the tools after a reload that was called for."""
    assert toolbox.changed()
    await toolbox.reload()
    assert not toolbox.changed()
    return names(toolbox)


async def test_a_script_toolbox_is_reloadable(box: ScriptToolbox) -> None:
    assert isinstance(box, Reloadable)
    assert not box.changed()


async def test_an_edited_script_is_called_in_its_new_form(box: ScriptToolbox, script: Write, context: Any) -> None:
    before = box.content
    script("edited", "echo 2", effect="pure")

    assert await reloaded(box) == ["edited", "steady"]
    assert box.tools()[0].effect is EffectClass.PURE
    assert box.content != before
    assert await box.call(Name("edited"), {}, context) == "2\n"


async def test_an_edit_that_the_description_does_not_tell_is_another_content(box: ScriptToolbox, script: Write) -> None:
    tools, before = list(box.tools()), box.content
    script("edited", "echo 2")
    await reloaded(box)

    assert (list(box.tools()), box.content != before) == (tools, True)


async def test_a_new_script_comes_and_a_removed_one_goes(box: ScriptToolbox, script: Write, context: Any) -> None:
    script("new", "true")
    assert await reloaded(box) == ["edited", "new", "steady"]

    script("edited", "true").unlink()
    assert await reloaded(box) == ["new", "steady"]
    gone = await box.call(Name("edited"), {}, context)
    assert gone == Failed(Name("unknown_tool"), "toolbox box has no tool edited")


async def test_a_script_that_may_not_be_run_any_more_goes_and_comes_back(box: ScriptToolbox, tmp_path: Path) -> None:
    path = tmp_path / "scripts" / "edited"
    path.chmod(0o644)
    assert await reloaded(box) == ["steady"]

    path.chmod(0o755)
    assert await reloaded(box) == ["edited", "steady"]


async def test_a_script_replaced_by_one_of_the_same_size_and_time_is_another(
    box: ScriptToolbox, script: Write, context: Any
) -> None:
    path = script("edited", "echo 1")
    await box.reload()
    found = path.stat()
    script("other", "true")
    other = path.with_name("next")
    other.write_text(path.read_text().replace("echo 1", "echo 2"))
    other.chmod(0o755)
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.replace(path)

    await reloaded(box)

    assert await box.call(Name("edited"), {}, context) == "2\n"


async def test_a_broken_script_leaves_and_takes_no_other_with_it(box: ScriptToolbox, tmp_path: Path) -> None:
    path = tmp_path / "scripts" / "edited"
    mended = path.read_text()
    path.write_text("#!/bin/sh\nexit 4\n")

    assert await reloaded(box) == ["steady"]
    assert [(problem.place, problem.reason) for problem in box.problems] == [
        (str(path), "describe ended with exit code 4")
    ]

    path.write_text(mended)
    assert await reloaded(box) == ["edited", "steady"]
    assert box.problems == ()


async def test_only_scripts_that_changed_are_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name in ("a", "b"):
        path = folder / name
        path.write_text(
            f"#!/bin/sh\necho {name} >> {tmp_path}/asked\n"
            f"""echo '{{"slug": "{name}", "description": "", "args": []}}'\n"""
        )
        path.chmod(0o755)
    toolbox = ScriptToolbox("box", directories=[folder], cwd=tmp_path)
    await toolbox.open()
    (tmp_path / "asked").unlink()
    with (folder / "b").open("a") as file:
        file.write("# edited\n")

    await toolbox.reload()

    assert (tmp_path / "asked").read_text() == "b\n"
    assert names(toolbox) == ["a", "b"]
    await toolbox.close()


async def test_a_directory_that_goes_takes_its_tools_and_brings_them_back(box: ScriptToolbox, tmp_path: Path) -> None:
    (tmp_path / "scripts").rename(tmp_path / "away")
    assert await reloaded(box) == []
    assert [problem.place for problem in box.problems] == [str(tmp_path / "scripts")]

    (tmp_path / "away").rename(tmp_path / "scripts")
    assert await reloaded(box) == ["edited", "steady"]
    assert box.problems == ()


async def test_a_call_goes_on_with_the_file_that_it_began_with(
    box: ScriptToolbox, script: Write, tmp_path: Path, context: Any
) -> None:
    script("edited", "touch begun; until [ -e go ]; do sleep 0.01; done; echo old")
    await box.reload()
    call = asyncio.create_task(box.call(Name("edited"), {}, context))
    await until((tmp_path / "begun").exists)
    (tmp_path / "scripts" / "edited").unlink()
    assert await reloaded(box) == ["steady"]

    (tmp_path / "go").touch()

    assert await call == "old\n"


async def test_reloads_at_the_same_time_end_with_the_files_as_they_are(box: ScriptToolbox, script: Write) -> None:
    script("new", "true")

    await asyncio.gather(*[box.reload() for _ in range(3)])

    assert names(box) == ["edited", "new", "steady"]
    assert not box.changed()


async def test_an_override_for_a_tool_that_went_is_a_problem(script: Write, tmp_path: Path) -> None:
    path = script("tool", "true")
    script("other", "true")
    toolbox = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path, effects={"tool": EffectClass.PURE})
    await toolbox.open()
    path.unlink()

    await toolbox.reload()

    assert names(toolbox) == ["other"]
    assert [problem.place for problem in toolbox.problems] == ["effects.tool"]
    await toolbox.close()

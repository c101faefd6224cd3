"""What a file given to `--against` holds follows from what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentos.errors import ConfigurationError
from agentos.history.against.variant_files import variant_of
from agentos.ids import Name

AGENT = "slug: clerk\nsystem_prompt: Keep order.\n"
TOOL = {"name": "note", "toolbox": "desk", "effect": "once", "access": "write", "description": "", "schema": {}}


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.yaml", AGENT, "agent"),
        ("a.json", json.dumps({"slug": "clerk"}), "agent"),
        ("a.toml", 'slug = "clerk"\n', "agent"),
        ("a.md", f"---\n{AGENT}---\nMore.\n", "agent"),
        ("a.md", "Keep order.\n\nAnd be brief.\n", "prompt"),
        ("a.txt", "slug: clerk\n", "prompt"),
        ("a.json", json.dumps({"tools": [TOOL], "problems": []}), "tools"),
        ("a.json", json.dumps([TOOL]), "tools"),
        ("a.yaml", "- text: hello\n", "script"),
        ("a.yaml", "clerk:\n- text: hello\n- {calls: [{tool: note, arguments: {text: a}}]}\n", "script"),
    ],
)
def test_a_file_tells_what_it_holds(tmp_path: Path, name: str, text: str, part: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = variant_of(path)

    assert [known for known in ("agent", "prompt", "tools", "script") if getattr(found, known) is not None] == [part]
    assert found.name == f"the {part} of {path}"


def test_tools_stand_by_their_toolbox(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([TOOL, {**TOOL, "name": "find", "toolbox": "shelf"}, {**TOOL, "name": "wait"}]))
    found = variant_of(path).tools

    assert found is not None
    assert {box: [tool.name for tool in tools] for box, tools in found.items()} == {
        Name("desk"): ["note", "wait"],
        Name("shelf"): ["find"],
    }


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("gone.yaml", None, "cannot be read"),
        ("a.json", json.dumps([{**TOOL, "toolbox": None}]), "does not name its toolbox"),
        ("a.json", json.dumps([{**TOOL, "effect": "twice"}]), "tool 'note'"),
        ("a.yaml", "- text: hello\n  wait: 3\n", "wait"),
        ("a.yaml", "slug: clerk\nsubagent: [a]\n", "a.yaml:2"),
        ("a.yaml", "slug: [\n", "a.yaml"),
        ("a.txt", b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_holds_none_of_it_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str | bytes | None, why: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(ConfigurationError, match=why):
        variant_of(path)

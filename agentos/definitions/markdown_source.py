"""Markdown with front matter: YAML between two lines `---`, and below it the text of the system prompt.

    ---
    slug: reviewer
    announce: Reads a change and says what is wrong with it.
    toolboxes: [files]
    ---
    You review changes. ...

The text goes after `system_prompt`, when both are there. Files that other programs share may use their words:
`name` for slug, `description` for announce, and `tools` for toolboxes, there as a list or as one text with commas,
in which `files(read_*)` stands for the toolbox files with only the tools read_*. `color` is passed over.
"""

from __future__ import annotations

import re
from typing import Any

from agentos.definitions.json_source import Read
from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Keys, Place, Refused
from agentos.definitions.yaml_source import read_yaml_text

FENCE = "---"
WORDS = {"name": "slug", "description": "announce", "tools": "toolboxes"}
"""What others call it, and what we do."""

PASSED_OVER = frozenset({"color"})
_TOOLS = re.compile(r"\s*([^\s(),]+)\s*(?:\(([^()]*)\))?\s*(?:,|\Z)")


def has_front_matter(beginning: str) -> bool:
    """Whether a text that begins so may be an agent; other Markdown is left alone."""
    return beginning.split("\n", 1)[0].rstrip() == FENCE and "\n" in beginning


def read_markdown_text(text: str, limits: FileLimits) -> Read:
    """Raises Refused. Places are those of the file."""
    if not has_front_matter(text):
        raise Refused(Place(1, 1), "front matter is missing: a line '---', keys in YAML, and a line '---'")
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise Refused(Place(1, 1), "the front matter has no end: a line '---' closes it")
    # An empty line in place of the fence keeps the numbers of all lines.
    value, places, problems = read_yaml_text("\n".join(["", *lines[1:end]]), limits)
    if value is None:
        value = {}
    if isinstance(value, dict):
        value, places = _renamed(value, places, problems)
        body = "\n".join(lines[end + 1 :]).strip()
        if body:
            first = next(n for n, line in enumerate(lines[end + 1 :], end + 2) if line.strip())
            _add_prompt(value, body, places, Place(first, 1))
    return value, places, problems


def _renamed(
    value: dict[str, Any], places: dict[Keys, Place], problems: list[tuple[Place, str]]
) -> tuple[dict[str, Any], dict[Keys, Place]]:
    names: dict[str, str] = {}
    for key in value:
        ours = WORDS.get(key, key)
        if ours != key and ours in value:
            problems.append((places[(key,)], f"{key} is another word for {ours}, which stands here too; keep one"))
        elif key not in PASSED_OVER:
            names[key] = ours
    found = {ours: _toolboxes(value[key]) if key == "tools" else value[key] for key, ours in names.items()}
    moved = {(names[str(keys[0])], *keys[1:]): at for keys, at in places.items() if keys and keys[0] in names}
    return found, {(): places.get((), Place(1, 1)), **moved}


def _toolboxes(tools: Any) -> Any:
    """`files(read_*, count), notes` as uses of toolboxes; what is not of this form stays for the check to refuse."""
    if isinstance(tools, list):
        return [_use(item) if isinstance(item, str) else item for item in tools]
    if not isinstance(tools, str):
        return tools
    uses: list[Any] = []
    position = 0
    while position < len(tools.rstrip()):
        match = _TOOLS.match(tools, position)
        if match is None:
            return [*uses, tools[position:].strip()]
        uses.append(_use(match[0].strip().removesuffix(",").strip()))
        position = match.end()
    return uses


def _use(text: str) -> Any:
    match = _TOOLS.fullmatch(text)
    if match is None or match[2] is None:
        return text
    return {"name": match[1], "expose": [part.strip() for part in match[2].split(",") if part.strip()]}


def _add_prompt(value: dict[str, Any], body: str, places: dict[Keys, Place], place: Place) -> None:
    given = value.get("system_prompt")
    if given is None:
        value["system_prompt"] = body
        places["system_prompt",] = place
        return
    parts = list(given) if isinstance(given, list) else [given]
    value["system_prompt"] = [*parts, body]
    places["system_prompt", len(parts)] = place

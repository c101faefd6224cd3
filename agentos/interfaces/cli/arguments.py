"""JSON arguments of a tool as people and programs give them. It loads nothing: `tool call` in a script is to be quick."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str) -> Any:
    """What a text says; what is no JSON stays the text, which the schema then refuses. Nothing at all is no arguments."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def numbered(problems: list[str]) -> str:
    return "\n".join(f"{number}. {problem}" for number, problem in enumerate(problems, 1))

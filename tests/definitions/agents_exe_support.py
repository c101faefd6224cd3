"""Agent files of agents-exe, real ones and ones of a test's own making."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentos.definitions import AgentSpec, read_source
from agentos.definitions.agents_exe import Imported, native
from agentos.definitions.source import Source

DATA = Path(__file__).parent.parent / "data" / "agents-exe"
AGENTS = DATA / "agents"
CONFIG = AGENTS / "agents-exe.cfg.json"
FILES = sorted(path for path in AGENTS.rglob("*.json") if path != CONFIG)


def whole(**contents: Any) -> dict[str, Any]:
    """An agent with all keys that have to be there, and these."""
    return {
        "tag": "OpenAIAgentDescription",
        "contents": {
            "slug": "helper",
            "apiKeyId": "main-key",
            "flavor": "OpenAIv1",
            "modelUrl": "https://api.example.org/v1",
            "modelName": "small",
            "announce": "Helps.",
            "systemPrompt": ["You help."],
            **contents,
        },
    }


def written(folder: Path, value: Any, name: str = "agent.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def imported(folder: Path, **contents: Any) -> Imported:
    return native(read_source(written(folder, whole(**contents))))


def spec_of(found: Imported) -> AgentSpec:
    """The agent; raises when the native form is none."""
    return AgentSpec.model_validate(found.value)


def shown(found: Imported) -> list[tuple[str, str]]:
    """What stands at the place of each problem, to the end of the line, and what is said of it."""
    lines = {path: path.read_text().splitlines() for path in {problem.path for problem in found.problems}}
    stands = [lines[one.path][one.line - 1][one.column - 1 :].rstrip(",[{ ") for one in found.problems]
    return [(text, f"{one.severity}: {one.text}") for text, one in zip(stands, found.problems, strict=True)]


def texts(found: Imported) -> list[str]:
    return [f"{problem.severity}: {problem.text}" for problem in found.problems]


def ways(value: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value in a value, but the value itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*keys, key)
        yield from ways(item, (*keys, key))


def source_of(path: Path, value: Any) -> Source:
    """What a file would say that holds another value in the same places."""
    return Source(path, value, read_source(path).places)

"""Sessions of agents-exe for tests: the real ones, and documents made of parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentos.history.sessions import Session, session_of

DATA = Path(__file__).parent.parent / "data" / "agents-exe" / "sessions"
CUT_OFF = "conv.bc6d1b31-feb3-4615-bb43-6404dc06befe.json"
EMPTY = "conv.0a648c17-d7b5-4838-bb35-956aac37bc93.json"
WHOLE = sorted(path.name for path in DATA.glob("*.json") if path.name != CUT_OFF)
PRINTED = sorted(path.name.removesuffix(".md") for path in DATA.glob("*.session.md"))

Document = dict[str, Any]


def document(*turns: Document, **more: Any) -> Document:
    """A session with these turns, oldest first; its file has them the other way round."""
    return {"forkedFromSessionId": None, "sessionId": "s1", "turnId": "t1", "turns": list(turns[::-1]), **more}


def session(*turns: Document, **more: Any) -> Session:
    return session_of(document(*turns, **more), "here")


def user(query: Any = None, *results: list[Any], tools: list[Any] | None = None, prompt: str = "Be brief.") -> Document:
    contents = {"userPrompt": prompt, "userTools": tools or [], "userQuery": query, "userToolResponses": list(results)}
    return {"tag": "UserTurn", "contents": contents}


def partial(query: Any = None, **contents: Any) -> Document:
    whole = {"userPrompt": "Be brief.", "userTools": [], "userQuery": query, **contents}
    return {"tag": "PartialUserTurn", "contents": whole}


def llm(text: str | None = None, *calls: Any, raw: Any = None, **response: Any) -> Document:
    said = {"responseText": text, "responseThinking": None, "rawResponse": raw, **response}
    return {"tag": "LlmTurn", "contents": {"llmResponse": said, "llmToolCalls": list(calls)}}


def call(name: str = "look", arguments: Any = "{}", id_: str = "c1") -> Document:
    return {"function": {"arguments": arguments, "name": name}, "id": id_, "index": 0, "type": "function"}


def tool(name: str = "look", **schema: Any) -> Document:
    function = {"name": name, "description": "Looks.", "parameters": {"type": "object", **schema}}
    raw = {"type": "function", "function": function}
    contents = {"name": name, "llmName": name, "description": "Looks.", "properties": [], "raw": raw}
    return {"tag": "V1", "contents": contents}


def write(folder: Path, value: Any, name: str = "session.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path

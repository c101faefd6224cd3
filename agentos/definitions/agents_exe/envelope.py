"""What marks a file as one of agents-exe: `{"tag": "OpenAIAgentDescription", "contents": {...}}` around all of it."""

from __future__ import annotations

import re
from typing import Any

from agentos.definitions.agents_exe.reading import Notes, Part, folded, kind_of, quoted
from agentos.definitions.checking import did_you_mean

TAG = "OpenAIAgentDescription"
AGENT_KEYS = (
    "slug",
    "apiKeyId",
    "flavor",
    "modelUrl",
    "modelName",
    "announce",
    "systemPrompt",
    "toolDirectory",
    "tools",
    "bashToolboxes",
    "mcpServers",
    "openApiToolboxes",
    "postgrestToolboxes",
    "builtinToolboxes",
    "extraAgents",
    "skillSources",
    "autoEnableSkills",
    "fileSandboxes",
    "executionMode",
    "toolCallPolicyConfig",
    "asyncYieldStrategy",
    "maxConcurrency",
    "asyncCallTimeoutSeconds",
    "parameters",
    "bindings",
    "wakeOn",
    "resumeOnAnyMail",
    "mailInToolResult",
    "interruptCompletions",
    "pauseCancelsCalls",
)
_THEIRS_ALONE = {
    folded(key)
    for key in ("apiKeyId", "modelUrl", "modelName", "bashToolboxes", "builtinToolboxes", "mcpServers", "extraAgents")
}


SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
SLUG_WORDS = "a slug has 1 to 60 letters, digits, - and _, and begins with a letter or digit"


def is_agents_exe(value: Any) -> bool:
    """Whether a file is meant for agents-exe: it has the envelope, or keys that no other form has."""
    if not isinstance(value, dict):
        return False
    return "tag" in value or any(folded(key) in _THEIRS_ALONE for key in value)


def opened(notes: Notes, value: dict[str, Any]) -> Part | None:
    """The agent in the envelope. None when there is nothing in it to read; what is wrong is told."""
    if not {"tag", "contents"} & set(value):
        words = (
            f'no {{"tag": "{TAG}", "contents": ...}} stands around these keys, as agents-exe has it; taken as they are'
        )
        notes.warn((), words)
        return Part(notes, (), value, (*AGENT_KEYS, "$schema"))
    envelope = Part(notes, (), value, ("tag", "contents", "$schema"))
    tag = envelope.needed("tag")
    if tag is not None and tag != TAG:
        envelope.error("tag", f"{quoted(tag)} is unknown; agents have {TAG!r}{did_you_mean(tag, [TAG])}")
    if envelope.lacks("contents"):
        return None
    contents = envelope.value("contents")
    if not isinstance(contents, dict):
        envelope.error("contents", f"a mapping of keys is needed here, not {kind_of(contents)}")
        return None
    return Part(notes, envelope.at("contents"), contents, AGENT_KEYS)


def slug_in(value: Any) -> str | None:
    """The slug of an agent of agents-exe, of which nothing else is looked at."""
    contents = value.get("contents", value) if is_agents_exe(value) else None
    if not isinstance(contents, dict):
        return None
    slug = next((item for key, item in contents.items() if folded(key) == "slug"), None)
    return slug if isinstance(slug, str) else None

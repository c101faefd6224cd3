"""Agent files of agents-exe in our native form, and a word on every key that cannot be followed.

All generations are read: the keys in PascalCase of today, the camelCase of its documentation, the kebab-case before that,
and the SQLite toolboxes from before `Versioning`. The names of the tools stay those that its prompts speak of.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agentos.definitions.agents_exe.calls import read_calls
from agentos.definitions.agents_exe.envelope import SLUG, SLUG_WORDS, is_agents_exe, opened
from agentos.definitions.agents_exe.form import Draft
from agentos.definitions.agents_exe.helpers import Helpers, read_helpers
from agentos.definitions.agents_exe.lacking import MCP, OPENAPI, POSTGREST, developer, skills
from agentos.definitions.agents_exe.lua import lua
from agentos.definitions.agents_exe.reading import Notes, Part, folded, quoted
from agentos.definitions.agents_exe.sandbox import Sandboxes
from agentos.definitions.agents_exe.sqlite import sqlite
from agentos.definitions.agents_exe.system import system
from agentos.definitions.agents_exe.toolboxes import SCRIPTS, Boxes, Kinds, read_list
from agentos.definitions.checking import did_you_mean
from agentos.definitions.problem import Problem
from agentos.definitions.source import Keys, Place, Source

__all__ = ["Imported", "is_agents_exe", "native"]

FLAVORS = ("OpenAIv1", "MistralV1", "KimiV1", "ClaudeV1")
_BUILTIN: Kinds = {"SqliteToolbox": sqlite, "SystemToolbox": system, "DeveloperToolbox": developer, "LuaToolbox": lua}


class Imported(NamedTuple):
    """The native form of a file, and where in the file each of its parts stands.

    With an error among the problems the value lacks what is wrong, and is not to be used.
    """

    value: dict[str, Any]
    places: dict[Keys, Place]
    problems: list[Problem]


def native(source: Source) -> Imported:
    """What a file of agents-exe says, in our form. Never raises for what is in the file."""
    notes, draft = Notes(source), Draft(source)
    agent = opened(notes, source.value if isinstance(source.value, dict) else {})
    if agent is not None:
        _identity(agent, draft)
        _prompt(agent, draft)
        _model(agent, draft)
        _toolboxes(agent, draft)
        read_helpers(Helpers(notes, draft), agent)
        read_calls(agent, draft)
    return Imported(draft.value, draft.places, notes.told())


def _identity(agent: Part, draft: Draft) -> None:
    slug = agent.needed("slug")
    if slug is not None and not SLUG.fullmatch(slug):
        agent.error("slug", f"{quoted(slug)} cannot be used: {SLUG_WORDS}")
        slug = None
    draft.put(("slug",), slug, agent.at("slug"))
    draft.put(("announce",), agent.needed("announce"), agent.at("announce"))


def _prompt(agent: Part, draft: Draft) -> None:
    """The parts are the lines of one text there."""
    if agent.lacks("systemPrompt"):
        return
    text = agent.value("systemPrompt")
    if isinstance(text, str):
        agent.warn("systemPrompt", "agents-exe needs a list of texts here; the one text is taken")
    else:
        text = "\n".join(line for _, line in agent.texts("systemPrompt"))
    draft.put(("system_prompt",), text, agent.at("systemPrompt"))


def _model(agent: Part, draft: Draft) -> None:
    name, key = agent.needed("modelName"), agent.needed("apiKeyId")
    flavor, url = _flavor(agent), _url(agent)
    draft.put(("model", "kind"), "openai", agent.at("modelName"))
    draft.put(("model", "name"), name, agent.at("modelName"))
    draft.put(("model", "options", "flavor"), flavor, agent.at("flavor"))
    draft.put(("model", "options", "base_url"), url, agent.at("modelUrl"))
    if key is not None and not key.strip():
        agent.warn("apiKeyId", "it is empty, so requests go out without a key")
    elif key is not None and key != key.strip():
        agent.error("apiKeyId", "blanks stand around it, as no key has them")
    elif key is not None:
        draft.put(("model", "options", "api_key"), f"key:{key}", agent.at("apiKeyId"))


def _flavor(agent: Part) -> str | None:
    given = agent.needed("flavor")
    if given is None:
        return None
    flavor = next((flavor for flavor in FLAVORS if folded(flavor) == folded(given)), None)
    if flavor is None:
        near = did_you_mean(given, list(FLAVORS))
        agent.warn("flavor", f"{quoted(given)} is none of {', '.join(FLAVORS)}{near}; OpenAIv1 is taken")
    return flavor or "OpenAIv1"


def _url(agent: Part) -> str | None:
    """The base of the requests. It is never told: some put a password into one."""
    given = agent.needed("modelUrl")
    if given is None:
        return None
    try:
        url = urlsplit(given)
        fault = "an address that begins with http:// or https:// is needed"
        good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError as error:
        good, fault = False, f"no address: {error}"
    if good and (url.username or url.password):
        good, fault = (
            False,
            "it is stored with each conversation; a user or password does not belong in it",
        )
    if not good:
        agent.error("modelUrl", fault)
    return given if good else None


def _toolboxes(agent: Part, draft: Draft) -> None:
    boxes = Boxes(agent.notes, draft, Sandboxes(agent.notes, agent))
    for key in ("toolDirectory", "tools"):
        if directory := agent.text(key):
            boxes.scripts(directory, agent.at(key))
    read_list(boxes, agent, "bashToolboxes", SCRIPTS)
    read_list(boxes, agent, "builtinToolboxes", _BUILTIN)
    read_list(boxes, agent, "mcpServers", MCP)
    read_list(boxes, agent, "openApiToolboxes", OPENAPI)
    read_list(boxes, agent, "postgrestToolboxes", POSTGREST)
    skills(boxes, agent)

"""What newer agents-exe files say of how calls run, and of what they have besides: followed where the meaning is ours."""

from __future__ import annotations

from typing import Any

from agentos.definitions.agents_exe.form import Draft
from agentos.definitions.agents_exe.reading import Notes, Part, kind_of
from agentos.definitions.source import Keys

_NO_MAIL = "mail between conversations is not in this version; read past"
_NOT_FOLLOWED = {
    "maxConcurrency": "how many calls run at once is a matter of each toolbox here; read past",
    "parameters": "parameters are not in this version; nothing is filled in for them",
    "bindings": "not in this version; the model sees and chooses the bound arguments itself",
    "wakeOn": _NO_MAIL,
    "resumeOnAnyMail": _NO_MAIL,
    "mailInToolResult": _NO_MAIL,
    "interruptCompletions": _NO_MAIL,
    "pauseCancelsCalls": "a pause lets calls end here; read past",
}
"""Said of each of these keys that says something."""
_DENIED = {
    "runIsolated": "workers of their own for calls are not in this version",
    "defer": "calls that an outside worker finishes are a matter of their tools here",
}
"""Running them here would be what the file keeps from happening."""
TOOL_NAME_CHARS_MAX = 128
_DISPOSITIONS = ("runSync", "runAsync", "runIsolated", "defer", "decorate")
_ALL_TOOLS = "*"


def read_calls(agent: Part, draft: Draft) -> None:
    """The time that a call may take, the policy of calls, and a word on each key that is not followed."""
    draft.put(("tool_s",), _timeout_s(agent), agent.at("asyncCallTimeoutSeconds"))
    for name, words in _NOT_FOLLOWED.items():
        if agent.value(name):
            agent.warn(name, words)
    _modes(agent)
    value = agent.mapping("toolCallPolicyConfig")
    if value is not None:
        known = ("default", "rules", "wrappers")
        _policy(Part(agent.notes, agent.at("toolCallPolicyConfig"), value, known), draft)


def _timeout_s(agent: Part) -> float | None:
    seconds = agent.number("asyncCallTimeoutSeconds")
    if seconds is not None and seconds <= 0:
        agent.error("asyncCallTimeoutSeconds", "a number over 0 is needed here")
        return None
    return seconds


def _modes(agent: Part) -> None:
    mode = (
        None if agent.value("executionMode") is None else agent.choice("executionMode", ("synchronous", "asynchronous"))
    )
    if mode == "synchronous":
        agent.warn("executionMode", "the calls of one reply run side by side here, as far as their toolboxes allow")
    elif mode == "asynchronous":
        agent.warn(
            "executionMode", "calls run side by side here; the model is asked again once all of a reply are done"
        )
    if agent.value("asyncYieldStrategy") not in (None, "yieldWhenAllDone"):
        agent.warn("asyncYieldStrategy", "the model is asked again once all calls of a reply are done; read past")


def _policy(part: Part, draft: Draft) -> None:
    """Rules name one tool each there, and the default is for all others."""
    if part.value("wrappers"):
        part.warn("wrappers", "not in this version; the calls run without them")
    value = part.mapping("default")
    default = None if value is None else _verdict(part.notes, part.at("default"), value)
    if default == "deny":
        # A rule that denies wins over all that allow, so what the others say would make no difference.
        _rule(draft, _ALL_TOOLS, default, part.at("default"))
        for keys, _ in part.items("rules"):
            part.notes.warn(keys, "the default is to deny all calls, so this rule changes nothing")
        return
    for keys, item in part.items("rules"):
        if not isinstance(item, dict):
            part.notes.error(keys, f"""{{"tool": ..., "disposition": ...}} is needed here, not {kind_of(item)}""")
            continue
        rule = Part(part.notes, keys, item, ("tool", "disposition"))
        tool, disposition = rule.needed("tool"), None if rule.lacks("disposition") else rule.mapping("disposition")
        if tool is None or disposition is None:
            continue
        verdict = _verdict(part.notes, rule.at("disposition"), disposition)
        if set(tool) & set("*?"):
            rule.warn("tool", "agents-exe has no patterns here, so this rule is for no tool; read past")
        elif not 1 <= len(tool) <= TOOL_NAME_CHARS_MAX:
            rule.error("tool", f"the name of a tool has 1 to {TOOL_NAME_CHARS_MAX} characters")
        else:
            _rule(draft, tool, verdict, rule.at("tool"))


def _rule(draft: Draft, tool: str, verdict: str | None, origin: Keys) -> None:
    if verdict is not None:
        keys = draft.add(("policy",), {}, origin)
        draft.put((*keys, "tool"), tool, origin)
        draft.put((*keys, "verdict"), verdict, origin)


def _verdict(notes: Notes, keys: Keys, value: dict[str, Any]) -> str | None:
    """allow for what runs, deny for what is not to run in this process; None for what has no meaning there either."""
    part = Part(notes, keys, value, ("tag", "reason", "spec", "decorators", "inner"))
    tag = part.choice("tag", _DISPOSITIONS)
    if tag == "decorate":
        part.warn("decorators", "limits, retries and labels of single calls are not in this version; read past")
        inner = None if part.lacks("inner") else part.mapping("inner")
        return None if inner is None else _verdict(notes, part.at("inner"), inner)
    if tag in _DENIED:
        part.warn("tag", f"{_DENIED[tag]}; the calls are denied")
    elif tag == "runAsync":
        part.warn("tag", "the call runs, and the model waits for it with the others of its reply")
    return None if tag is None else "deny" if tag in _DENIED else "allow"

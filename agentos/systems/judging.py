"""What can be said of a call before it runs: grant, schema, policy and approval, and a hook's word on it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import AgentContext, ApprovalMode, CallConfig, CallStatus, GivenEnd, ToolSpec, Verdict
from agentos.events.intake import HookReport
from agentos.events.model import Finish
from agentos.governance.policy import judge, near_names
from agentos.governance.schema import explain, normalized, problems_of
from agentos.ids import Name
from agentos.world import View


class Judged(msgspec.Struct, frozen=True):
    """allow, ask or hook; or deny, with the status, kind and text of the result that the model gets, or with the end that a
    hook gives the call in place of running it."""

    verdict: Verdict
    status: CallStatus = CallStatus.PROPOSED
    kind: str = ""
    text: str = ""
    given: GivenEnd | None = None


ALLOWED = Judged(Verdict.ALLOW)


def judged_call(context: AgentContext, tool: ToolSpec | None, name: Name, arguments: Any, finish: Finish) -> Judged:
    """Everything that can be said of a call before a hook or a person is asked. finish is that of the reply."""
    if finish is Finish.LENGTH:
        return failed("cut", "not run: the reply was cut off at its length limit; send the call again, shorter")
    if tool is None:
        near = near_names(name, context.granted)
        known = ", ".join(context.granted) or "none"
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return failed("unknown_tool", f"there is no tool {name!r}.{hint} The tools are: {known}")
    if name not in context.granted:
        return refused("grant", f"not run: this agent may not call {name}")
    arguments = normalized(arguments)
    problems = problems_of(tool, arguments)
    if problems:
        return failed("invalid", f"not run: the arguments of {name} are wrong.\n{explain(problems)}")
    if context.hooks:
        return Judged(Verdict.HOOK)
    return _by_policy(context, tool, arguments)


def _by_policy(context: AgentContext, tool: ToolSpec, arguments: Any) -> Judged:
    verdict = judge(context, tool, arguments)
    if verdict is Verdict.ALLOW:
        return ALLOWED
    if verdict is Verdict.DENY:
        return refused("policy", f"not run: a rule denies {tool.name}")
    return _by_approval(context, tool.name)


def _by_approval(context: AgentContext, name: Name) -> Judged:
    if context.approval is ApprovalMode.ALLOW:
        return ALLOWED
    if context.approval is ApprovalMode.PARK:
        return Judged(Verdict.ASK)
    return refused("approval", f"not run: {name} needs the approval of a person, and nobody listens")


def judged_after_hook(context: AgentContext, config: CallConfig, item: HookReport, view: View) -> Judged:
    """A hook's deny ends the matter; its allow satisfies an ask of the policy, never a deny."""
    tool = find_tool(context, config.tool)
    assert tool is not None, "a call of an unknown tool waits for no hook"
    if item.verdict is Verdict.DENY:
        return refused("hook", f"not run: {item.reason or 'a hook denied it'}")
    if item.arguments is not None and (problems := problems_of(tool, item.arguments)):
        return failed("invalid", f"not run: a hook's arguments for {tool.name} are wrong.\n{explain(problems)}")
    if item.verdict is Verdict.ASK:
        return _by_approval(context, tool.name)
    arguments = item.arguments if item.arguments is not None else normalized(view.body(*config.arguments))
    judged = _by_policy(context, tool, arguments)
    if item.verdict is not Verdict.ALLOW or judged.kind == "policy":
        return judged
    return Judged(Verdict.DENY, given=item.given) if item.given is not None else ALLOWED


def find_tool(context: AgentContext, name: str) -> ToolSpec | None:
    """The tool of this name, offered or hidden."""
    for tool in context.tools:
        if tool.name == name:
            return tool
    return next((tool for tool in context.hidden if tool.name == name), None)


def over_limit(limit: int) -> Judged:
    return refused("call_limit", f"not run: the turn's limit of {limit} calls is reached")


def refused(kind: str, text: str) -> Judged:
    return Judged(Verdict.DENY, CallStatus.DENIED, kind, text)


def failed(kind: str, text: str) -> Judged:
    return Judged(Verdict.DENY, CallStatus.FAILED, kind, text)

"""What happens in a kernel, a line for each entry that says something to an operator: who, what, how it ended; no texts."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import CallConfig, ConversationConfig, TurnState
from agentos.events.entry import Entry
from agentos.ids import CallId, call_id, turn_id
from agentos.interfaces.cli.entries import clock_of, iso_of
from agentos.interfaces.cli.finding import short
from agentos.interfaces.cli.output import put_happened, tell
from agentos.kernel import Kernel
from agentos.kernel.watch import StreamGap

SHOWN = frozenset(
    {
        "conversation.started",
        "conversation.paused",
        "conversation.unpaused",
        "conversation.closed",
        "turn.started",
        "turn.resumed",
        "turn.cancelling",
        "turn.finished",
        "call.started",
        "call.finished",
        "call.doubted",
        "call.resolved",
        "approval.requested",
        "approval.decided",
        "payload.erased",
        "resource.noted",
    }
)


class Happening:
    """Prints the entries of all conversations of one kernel as they are stored."""

    def __init__(self, kernel: Kernel, *, json: bool) -> None:
        self._kernel, self._json = kernel, json
        self._tools: dict[CallId, str] = {}

    async def follow(self) -> None:
        """Until the kernel closes."""
        async for item in self._kernel.everything():
            if isinstance(item, StreamGap):
                tell("more happened than could be printed; some lines are left out")
            elif item.data.kind in SHOWN:
                self._show(item)

    def _show(self, entry: Entry) -> None:
        """Who reads this may go: the agents are hosted all the same."""
        put_happened(self._as_object(entry) if self._json else self._as_line(entry))

    def _as_object(self, entry: Entry) -> dict[str, Any]:
        return {
            "type": entry.data.kind,
            "conversation": entry.log,
            "seq": entry.seq,
            "at": iso_of(entry.at),
            "agent": self._agent(entry),
            "turn": turn_id(entry.log, entry.turn) if entry.turn else None,
            "call": call_id(entry.log, entry.call) if entry.call else None,
            "tool": self._tool(entry),
            "by": entry.by or None,
            "outcome": _outcome(entry) if entry.data.kind == "turn.finished" else None,
            "data": msgspec.to_builtins(entry.data),
        }

    def _as_line(self, entry: Entry) -> str:
        head = f"{clock_of(entry.at)}  {short(entry.log)}  {self._agent(entry) or '-'}"
        tool = self._tool(entry)
        facts = [fact for fact in (tool, self._end(entry)) if fact]
        return f"{head}  {entry.data.kind}{'  ' if facts else ''}{': '.join(facts)}"

    def _end(self, entry: Entry) -> str:
        """How it ended, or what is to be done about it."""
        said: dict[str, Any] = msgspec.to_builtins(entry.data)
        match entry.data.kind:
            case "turn.finished":
                return _outcome(entry)
            case "call.finished":
                kind = said.get("call_kind")
                return f"{said['status']}({kind})" if kind else str(said["status"])
            case "approval.requested":
                return f"waits for approval: agentos answer {short(call_id(entry.log, entry.call))} allow|deny"
            case "call.doubted":
                return (
                    f"may have taken effect: agentos resolve {short(call_id(entry.log, entry.call))} done|failed|retry"
                )
            case "approval.decided":
                return str(said["verdict"])
            case "resource.noted":
                return f"{said['what']} {said['resource']}"
            case "call.resolved":
                return str(said.get("resolution", ""))
            case _:
                return f"by {entry.by}" if entry.by else ""

    def _agent(self, entry: Entry) -> str | None:
        config = self._kernel.world.get(entry.log, ConversationConfig)
        return config.slug if config is not None else None

    def _tool(self, entry: Entry) -> str | None:
        """Kept while a call runs: when its end is printed, its turn may have left memory."""
        if not entry.call:
            return None
        call = call_id(entry.log, entry.call)
        config = self._kernel.world.get(call, CallConfig)
        tool = self._tools.get(call) if config is None else config.tool
        if entry.data.kind == "call.finished":
            self._tools.pop(call, None)
        elif tool is not None and entry.data.kind in ("call.started", "approval.requested"):
            self._tools[call] = tool
        return tool


def _outcome(entry: Entry) -> str:
    """How a turn ended, which its entry says by the state that it changes."""
    for _, state in entry.changes:
        if isinstance(state, TurnState) and state.outcome is not None:
            return f"{state.outcome.value}({state.outcome_name})" if state.outcome_name else state.outcome.value
    return ""

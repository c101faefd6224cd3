"""What stands between a live replay and the world: each call gets its recorded end, or must be let through.

It is a hook, so its word on each call is an entry of the fork: `hook.decided` by `record`. The turn pins it, and where it is
missing, as in a process that takes the fork up after a crash, the calls of that turn are denied.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from agentos.components import CallConfig, EffectClass, Verdict
from agentos.governance.approval import AllowAll, DenyAll
from agentos.history.live.record import Record
from agentos.ids import CallId, LogId, Name, log_and_seq
from agentos.ports import Approval, HookVerdict
from agentos.world import World

NOT_RECORDED = "{tool} with these arguments is not in the record; --with-tools runs it"
NOBODY = "{tool} is not in the record, and may change something; nobody is asked here, and --yes allows it"


GATE = Name("record")


class Tools(Enum):
    """What becomes of calls that the record does not have: they are denied; or `pure` ones run, and the others are asked
    about, denied since nobody can be asked, or allowed."""

    NONE = "none"
    ASK = "ask"
    PURE = "pure"
    ALL = "all"


class Ruled(msgspec.Struct, frozen=True):
    """What was said of one call. recorded is the call whose end it was given."""

    call: CallId
    tool: Name
    word: str
    recorded: CallId | None = None


class RecordGate:
    """Implements `ports.Hook`. ruled is what it said, in order.

    Only calls of the models of `fork` have a record. Those of subagents and inner calls have none: their callers do.
    """

    def __init__(self, record: Record, tools: Tools) -> None:
        self.name = GATE
        self._record, self._tools = record, tools
        self._world: World | None = None
        self._fork: LogId | None = None
        self.ruled: list[Ruled] = []

    def approval(self, person: Approval) -> Approval:
        """Who answers for calls that it or a rule has asked about; person, where one is to be asked."""
        return person if self._tools is Tools.ASK else AllowAll() if self._tools is Tools.ALL else DenyAll()

    def guard(self, world: World, fork: LogId) -> None:
        """From here on it is asked about the calls of this World."""
        self._world, self._fork = world, fork

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
        config = self._world.get(call, CallConfig) if self._world is not None else None
        log, _ = log_and_seq(call)
        if config is not None and config.parent is None and log == self._fork:
            recorded = self._record.take(tool, arguments)
            if recorded is not None:
                self.ruled.append(Ruled(call, tool, "recorded", recorded.call))
                return HookVerdict(given=recorded.end, reason=f"as {recorded.call} ended")
        effect = config.effect if config is not None else EffectClass.ONCE
        word, said = self._unrecorded(tool, effect)
        self.ruled.append(Ruled(call, tool, word))
        return said

    def _unrecorded(self, tool: Name, effect: EffectClass) -> tuple[str, HookVerdict | None]:
        if self._tools is Tools.NONE:
            return "denied", HookVerdict(verdict=Verdict.DENY, reason=NOT_RECORDED.format(tool=tool))
        if effect is EffectClass.PURE:
            return "run", None
        if self._tools is Tools.PURE:
            return "denied", HookVerdict(verdict=Verdict.DENY, reason=NOBODY.format(tool=tool))
        if self._tools is Tools.ALL:
            return "run", HookVerdict(verdict=Verdict.ALLOW)
        return "asked", HookVerdict(verdict=Verdict.ASK)

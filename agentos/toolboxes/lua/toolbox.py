"""Scripts in Lua: one tool that runs a text, in a process of its own for each conversation.

What a script leaves in global variables is there for the next one of the conversation, until its process ends: because a
script took too long, was cancelled or ran out of memory, because nothing ran for idle_s, or with the kernel. The result
says when a script began with a new state. Scripts reach no file, no network and no other process; they call the tools
that the toolbox lists, each call passing the gate as one of the model's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Literal

from agentos.clock import Clock, SystemClock
from agentos.components import EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ResourceClosed
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources.kinds.lua import (
    KIND,
    Ended,
    Lost,
    LuaLimits,
    LuaWorker,
    LuaWorkers,
    Script,
    check_lupa,
    lua_kind,
)
from agentos.resources.process.partial import attach_partial
from agentos.toolboxes.base import Doubt, Failed
from agentos.toolboxes.lua.portal import Portal, ticks
from agentos.toolboxes.lua.printed import Printed

_RUNS = (
    "Runs a script in Lua 5.4 and gives what it returns, and what it prints.\n"
    "The modules of Lua are string, table, math, utf8 and coroutine; beside them are json (encode, decode, null), text "
    "(split, join, lines, trim, find, contains, startswith, endswith, replace, gsub, lower, upper, len, sub) and time "
    "(now, format, diff). There are no files, no network and no require."
)
_KEEPS = "Global variables stay for the next script of the conversation."
_FORGETS = "Every script begins with a new state."
_TOOLS = (
    "tools.NAME{{argument = value}} calls a tool and gives its result, a table where that is JSON; tools.call(name, "
    "arguments) gives {{status, result_txt}} instead of raising. Tools that may be called: {}."
)


class LuaToolbox:
    """A toolbox with the one tool `<name>_run`, or as `tool` names it.

    tools are those that scripts may call: names, or patterns with `*` and `?`, none by default; the agent has to grant
    them too. state says whether global variables stay in a conversation, or a script has none of another. description
    stands before what the tool says of itself. prepared: how many processes are started ahead; clock: by
    which those that nobody uses are ended.
    """

    kind: ClassVar[Name] = Name("lua")

    def __init__(
        self,
        name: str,
        *,
        tools: Sequence[str] = (),
        state: Literal["conversation", "call"] = "conversation",
        description: str = "",
        tool: str | None = None,
        sharing: ToolboxSharing = ToolboxSharing.PER_CONVERSATION,
        size: int = 0,
        limits: LuaLimits | None = None,
        prepared: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self._tools, self._fresh = tuple(tools), state == "call"
        self._limits, self._clock = limits or LuaLimits(), clock or SystemClock()
        self.resource_kinds = {KIND: lua_kind(self._limits)}
        self._spec = self._spec_of(tool or f"{name}_run", description)
        self._prepared = prepared
        self._workers: LuaWorkers | None = None

    async def open(self) -> None:
        """Raises ConfigurationError when Lua is not installed. No process is started before it is needed."""
        check_lupa()
        self._workers = LuaWorkers(self._limits, self._tools, self.name, self._prepared, self._clock)

    def tools(self) -> Sequence[ToolSpec]:
        return (self._spec,)

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        if tool != self._spec.name:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if self._workers is None:
            return Failed(Name("closed"), f"toolbox {self.name} is not open")
        asked = self._script_of(arguments, context.clock)
        if isinstance(asked, Failed):
            return asked
        async with AsyncExitStack() as stack:
            worker = await self._borrow(self._workers, context, stack)
            self._workers.used(worker)
            return await self._run(worker, asked, context)

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            await workers.close()

    async def _run(self, worker: LuaWorker, script: Script, context: CallContext) -> object:
        new = script.fresh or not worker.scripts
        printed = Printed(self._limits.printed_bytes)
        try:
            ended = await worker.run(script, Portal(self._tools, context).call, printed.add)
        except BaseException as error:
            attach_partial(error, printed.text())
            raise
        if isinstance(ended, Lost):
            return Failed(
                Name(ended.kind), f"{ended.text}; its state is lost, the next one begins anew{printed.told()}"
            )
        printed.total_bytes = ended.printed_bytes
        if ended.kind != "done":
            return Failed(Name(ended.kind), ended.text + printed.told())
        return self._result(ended, printed, new)

    def _result(self, ended: Ended, printed: Printed, new: bool) -> dict[str, Any]:
        result: dict[str, Any] = {"values": ended.values}
        if printed.total_bytes:
            result["printed"] = printed.text()
        if not self._fresh:
            result["state"] = "new" if new else "kept"
        return result

    def _script_of(self, arguments: dict[str, Any], clock: Clock) -> Script | Failed:
        text, timeout_s = arguments.get("script"), arguments.get("timeout")
        if not isinstance(text, str):
            return Failed(Name("invalid"), "script is the text of a script in Lua")
        if len(text.encode("utf-8", "replace")) > self._limits.script_bytes:
            return Failed(Name("invalid"), f"script is over {self._limits.script_bytes:,} bytes (script_bytes)")
        if timeout_s is not None and (not isinstance(timeout_s, (int, float)) or not timeout_s > 0):
            return Failed(Name("invalid"), "timeout is a number of seconds above 0")
        return Script(
            script=text,
            now_s=clock.now() / 1e6,
            ticks=ticks(clock),
            time_s=min(self._limits.time_s, timeout_s or self._limits.time_s),
            fresh=self._fresh or arguments.get("fresh") is True,
        )

    async def _borrow(self, workers: LuaWorkers, context: CallContext, stack: AsyncExitStack) -> LuaWorker:
        """The worker of the conversation, until the stack is left. Raises ResourceError.

        One of a toolbox of this name that was here before may still be there; it is left to end with its conversation.
        """
        for number in itertools.count(1):
            name = self.name if number == 1 else f"{self.name}#{number}"
            one = AsyncExitStack()
            try:
                lent = context.resource(KIND, name, scope="conversation", options={"workers": workers})
                worker: LuaWorker = await one.enter_async_context(lent)
            except ResourceClosed:
                if workers.closed:
                    raise
                continue
            if worker in workers.taken:
                stack.push_async_exit(one)
                return worker
            await one.aclose()
        raise AssertionError("numbers do not end")

    def _spec_of(self, tool: str, description: str) -> ToolSpec:
        keeps = _FORGETS if self._fresh else _KEEPS
        may_call = _TOOLS.format(", ".join(self._tools)) if self._tools else "It can call no tools."
        words = (description.strip(), f"{_RUNS} {keeps} {may_call}")
        return ToolSpec(
            name=Name(tool),
            description="\n".join(word for word in words if word),
            schema=_schema(self._limits.time_s, self._fresh),
            effect=EffectClass.ONCE if self._tools else EffectClass.IDEMPOTENT,
            toolbox=self.name,
        )


def _schema(time_s: float, fresh: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "script": {"type": "string", "description": "the script; what it returns is the result"},
        "timeout": {
            "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}],
            "description": f"seconds that it may run, at most {time_s:g}; waiting for tools does not count",
        },
    }
    if not fresh:
        properties["fresh"] = {
            "anyOf": [{"type": "boolean"}, {"type": "null"}],
            "description": "whether to begin with a new state, without the variables of earlier scripts",
        }
    return {"type": "object", "properties": properties, "required": ["script"], "additionalProperties": False}

"""A program that stays and offers tools: asked over JSON-RPC 2.0, a message a line, on its stdin and stdout.

One process serves all agents, many calls at the same time; every answer goes to the call that asked, by its id. It is
asked `describe` once it is started, and `call` for each call:

    -> {"jsonrpc":"2.0","id":1,"method":"describe","params":{"protocol":1}}
    <- {"jsonrpc":"2.0","id":1,"result":{"protocol":1,"tools":[{"name":"add","description":"...","schema":{...}}]}}
    -> {"jsonrpc":"2.0","id":2,"method":"call","params":{"name":"add","arguments":{...},"call":{"id":"...","key":"..."}}}
    <- {"jsonrpc":"2.0","id":2,"result":3}

It may say `progress` of a call ({"id":2,"data":...}) and `changed` when it offers other tools; it is told
`$/cancelRequest` ({"id":2}) of a call that nobody waits for any more. See docs/tools.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agentos.clock import Clock
from agentos.components import EffectClass, Pattern, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError, ProcessError, ProcessGaveUp, ProcessLost, ResourceBroken, ResourceClosed
from agentos.ids import Name, log_and_seq
from agentos.ports import CallContext
from agentos.resources.borrowing import Borrower
from agentos.resources.kinds.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Exchange,
    JsonRpcLimits,
    JsonRpcProcess,
    NotSent,
    Question,
    RpcError,
    Unanswered,
    opening,
)
from agentos.resources.kinds.process import ProcessState, Program, bounds_of
from agentos.resources.process.command import inherited
from agentos.resources.process.family import insist
from agentos.resources.shared import Shared
from agentos.toolboxes.base import CutOff, Doubt, Failed, ToolboxProblem
from agentos.toolboxes.jsonrpc.reading import PROTOCOL, Described, Wanted, read_tools

DESCRIBE_S = 10.0
"""How long the process may take to describe its tools, where the toolbox does not say."""
_DESCRIBE = {"protocol": PROTOCOL}
_KINDS = {METHOD_NOT_FOUND: Name("unknown_tool"), INVALID_PARAMS: Name("invalid")}


class JsonRpcToolbox:
    """The tools of one process.

    command: the program and its arguments; a program without a stroke in it is looked for on PATH, another counts from
    cwd, where it runs. environment names further variables to pass on. effects overrides the effect class of single
    tools; prefix stands before every name. describe_s bounds an answer to `describe`, call_s a call of a tool that does
    not say how long it may take. A process that has fallen silent (limits.exchange.silence) is asked health, a method
    without parameters, or else `describe`; when it says nothing it is replaced. It bears many calls at once unless sharing
    says otherwise.
    """

    kind: ClassVar[Name] = Name("jsonrpc")

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str],
        cwd: Path,
        sharing: ToolboxSharing = ToolboxSharing.STATELESS,
        size: int = 0,
        environment: Sequence[str] = (),
        effects: Mapping[str, EffectClass] | None = None,
        prefix: str = "",
        describe_s: float = DESCRIBE_S,
        call_s: float | None = None,
        limits: JsonRpcLimits | None = None,
        clock: Clock | None = None,
        health: str | None = None,
    ) -> None:
        if not command or not all(command):
            raise ConfigurationError(f"toolbox {name}: command names no program")
        self.name, self.sharing, self.size = Name(name), sharing, size
        self._command, self._cwd = tuple(command), Path(os.path.abspath(cwd))
        self._environment = tuple(environment)
        self._wanted = Wanted(self.name, prefix, dict(effects or {}), call_s)
        self._limits, self._clock = limits or JsonRpcLimits(), clock
        self._tools: dict[Name, str] = {}
        self._shown = self._described = Described({}, (), ())
        self._shown_down = ""
        self._again = False
        self._describe_s = describe_s
        self._health = Question("describe", _DESCRIBE) if health is None else Question(health, {})
        self._shared: Shared[JsonRpcProcess] | None = None
        self.process: JsonRpcProcess | None = None

    async def open(self) -> None:
        """Starts the process and has it describe itself. Raises ConfigurationError saying why it cannot be had."""
        process = JsonRpcProcess(
            f"toolbox {self.name}",
            self._program(),
            limits=self._limits,
            clock=self._clock,
            prepare=self._describe,
            changed=self._ask_again,
            health=self._health,
        )
        kept = self._limits.process
        shared = Shared(self.name, self.kind, Pattern.STATELESS, opening(process), bounds=bounds_of(kept))
        try:
            await shared.open()
        except (ProcessError, ResourceBroken) as error:
            raise ConfigurationError(str(error)) from error
        self._shared, self.process = shared, process
        self._take()
        if self._wanted.effects and (unknown := self._wanted.effects.keys() - self._described.tools.keys()):
            await self.close()
            raise ConfigurationError(f"toolbox {self.name}: effects names no tool {min(unknown)!r}")

    @property
    def resources(self) -> Sequence[Shared[JsonRpcProcess]]:
        """Its process, while it is open."""
        return () if self._shared is None else (self._shared,)

    def tools(self) -> Sequence[ToolSpec]:
        return sorted(self._shown.tools.values(), key=lambda spec: spec.name)

    @property
    def problems(self) -> tuple[ToolboxProblem, ...]:
        """The tools that are left out, and what became of the process when it is not there."""
        down = self._down()
        return (*self._shown.problems, *((ToolboxProblem("process", down),) if down else ()))

    @property
    def notes(self) -> tuple[ToolboxProblem, ...]:
        return self._shown.notes

    @property
    def unavailable(self) -> str:
        """Why it has given up, and what begins it anew; empty while it is started anew by itself."""
        failed = self.process is not None and self.process.state is ProcessState.FAILED
        return f"the process {self._down()}; {self._way_out}" if failed else ""

    @property
    def content(self) -> str:
        """The digest of what is run, which tells an edited command from the one before."""
        return hashlib.sha256("\0".join((*self._command, str(self._cwd))).encode()).hexdigest()

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        name = self._tools.get(tool)
        if name is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if self._shared is None:
            return Failed(Name("closed"), f"toolbox {self.name} is not open")
        by = Borrower(context.lineage.frames, log_and_seq(context.call_id))
        try:
            async with self._shared.borrow(by) as process:
                return await process.ask("call", _params(name, arguments, context), context.progress)
        except RpcError as error:
            return Failed(_KINDS.get(error.code, Name("error")), error.message)
        except (ProcessLost, Unanswered) as error:
            return CutOff(Name("process"), str(error))
        except ProcessGaveUp as error:
            return Failed(Name("unavailable"), f"not run: {error}; {self._way_out}")
        except (ProcessError, NotSent, ResourceClosed) as error:
            return Failed(Name("unavailable"), f"not run: {error}")

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    def changed(self) -> bool:
        return self._again or self._described is not self._shown or self._down() != self._shown_down

    async def reload(self) -> None:
        """Takes up what the process says of itself now, and where it stands. One that gave up stays so until `renew`."""
        if self._again and self.process is not None and self.process.healthy():
            self._again = False
            self._described = await self._asked(self.process.ask)
        self._take()

    async def renew(self) -> int:
        """The next call has another process started, also where this one has given up."""
        if self._shared is None or self.process is None:
            return 0
        return int(await self.process.renew(self._shared.bounds.drain_s))

    async def close(self) -> None:
        shared, self._shared, self.process = self._shared, None, None
        if shared is not None:
            await insist(shared.close())

    async def _describe(self, exchange: Exchange) -> None:
        """What each incarnation is asked first. What it says is taken up by `reload`."""
        self._again = False
        described = await self._asked(exchange.ask)
        if described != self._described:
            self._described = described

    async def _asked(self, ask: Callable[[str, object], Awaitable[object]]) -> Described:
        """Raises ValueError for what is no description, or none in time; and what ask raises."""
        limit = asyncio.timeout(self._describe_s)
        try:
            async with limit:
                answer = await ask("describe", _DESCRIBE)
        except TimeoutError as error:
            raise ValueError(f"describe was not answered within {self._describe_s:g} s (describe_s)") from error
        return read_tools(answer, self._wanted)

    def _ask_again(self) -> None:
        self._again = True

    def _take(self) -> None:
        self._shown, self._shown_down = self._described, self._down()
        self._tools = {spec.name: name for name, spec in self._shown.tools.items()}

    @property
    def _way_out(self) -> str:
        return f"'agentos release {self.name}' has it started again"

    def _down(self) -> str:
        return self.process.problem if self.process is not None else ""

    def _program(self) -> Program:
        """Raises ConfigurationError when there is no such program."""
        environment = inherited(self._environment)
        first, *more = self._command
        if not self._cwd.is_dir():
            raise ConfigurationError(f"toolbox {self.name}: the folder that it is to run in is gone: {self._cwd}")
        found = str(self._cwd / first) if "/" in first else shutil.which(first, path=environment["PATH"])
        if found is None or not os.path.exists(found):
            where = f"there is no {found}" if found is not None else f"{first!r} is not on PATH"
            raise ConfigurationError(f"toolbox {self.name}: no program to run: {where}")
        return Program(argv=(found, *more), environment=environment, cwd=str(self._cwd))


def _params(name: str, arguments: dict[str, Any], context: CallContext) -> dict[str, object]:
    return {
        "name": name,
        "arguments": arguments,
        "call": {
            "id": context.call_id,
            "key": context.key,
            "attempt": context.attempt,
            "turn": context.turn,
            "conversation": context.conversation,
            "agent": context.agent,
        },
    }

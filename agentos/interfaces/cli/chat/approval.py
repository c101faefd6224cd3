"""Approvals in place: what wants to run, whole and escaped, and an answer that counts for this request and no other.

Nothing that an agent, a tool or a model says can put such a question, or answer it: what they say stands indented, a
prompt begins at the edge, what was typed before the question is dropped, and arguments are one line of escaped JSON each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from agentos.components import CallConfig, CallState, CallStatus, ConversationConfig, TurnConfig, Verdict, Waiting
from agentos.history import frames_of
from agentos.ids import CallId, ConversationId, LogId, log_and_seq, turn_id
from agentos.interfaces.cli.chat.screen import Screen
from agentos.interfaces.cli.chat.terminal import Terminal
from agentos.interfaces.cli.entry_parts import arguments_of, as_json, private
from agentos.interfaces.cli.progress import tree_of
from agentos.kernel import Kernel
from agentos.kernel.rest import open_doubts, open_requests

LOOK_S = 0.1
"""How often it is looked whether somebody else has answered meanwhile."""
WHY = ("w", "why", "?")
HELP = "y allows this call once; n denies it, and n REASON tells the agent why; w says why it is asked"


class Request(NamedTuple):
    """One call that waits: what is shown of it is what an answer is for."""

    call: CallId
    config: CallConfig
    agent: str
    arguments: Any


class Approvals:
    """Asks whoever sits at the terminal."""

    def __init__(self, kernel: Kernel, terminal: Terminal, screen: Screen) -> None:
        self._kernel, self._terminal, self._screen = kernel, terminal, screen
        self._answered: set[CallId] = set()
        """They wait on until that is stored, which a slow disk may take long for; nobody is asked again."""

    def waiting(self, conversation: ConversationId) -> list[CallId]:
        """The calls of the tree of this conversation that wait for a person, in order; none that was answered here."""
        tree = tree_of(self._kernel, conversation)
        open_ = (call for call in open_requests(self._kernel) if call not in self._answered)
        return [call for call in open_ if log_and_seq(call)[0] in tree]

    def in_doubt(self, conversation: ConversationId) -> list[CallId]:
        """The calls of the tree that wait for somebody who knows what became of them."""
        tree = tree_of(self._kernel, conversation)
        return [call for call in open_doubts(self._kernel) if log_and_seq(call)[0] in tree]

    async def ask(self, call: CallId) -> None:
        """Until this call is answered, here or elsewhere. Raises EndOfInput, Interrupted: then it waits on."""
        request = await self._request(call)
        if request is None:
            return
        self._screen.line(f"{request.agent} wants to run {request.config.tool}:")
        self._screen.foreign("\n".join(arguments_shown(request.arguments)))
        while self._waits(request):
            said = await self._answer(request)
            if said is None:
                return
            verdict, reason = meant(said)
            if verdict is not None:
                await self._give(request, verdict, reason)
                return
            if said.strip().lower() in WHY:
                self._screen.foreign("\n".join(await self._why(request)))
            else:
                self._screen.line(HELP)

    async def _answer(self, request: Request) -> str | None:
        """What is typed, None when the call waits no more."""
        self._screen.hold()
        self._terminal.forget_typed()
        prompt = f"allow {request.config.tool}? [y/n/why] "
        reading = asyncio.get_running_loop().create_task(self._terminal.read(prompt))
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=LOOK_S)
                if not reading.done() and not self._waits(request):
                    self._screen.break_line()
                    self._screen.line(f"{request.config.tool}: answered elsewhere meanwhile")
                    return None
            return reading.result()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            self._screen.release()

    async def _give(self, request: Request, verdict: Verdict, reason: str) -> None:
        """The answer is for what was shown: not for the call as somebody may have changed it meanwhile."""
        if self._waits(request):
            await self._kernel.answer(request.call, verdict, reason=reason)
            self._answered.add(request.call)
        else:
            self._screen.line(f"{request.config.tool}: answered elsewhere meanwhile; yours counts for nothing")

    def _waits(self, request: Request) -> bool:
        state = self._kernel.world.get(request.call, CallState)
        return (
            state is not None
            and state.status is CallStatus.WAITING
            and state.waiting is Waiting.APPROVAL
            and self._kernel.world.get(request.call, CallConfig) == request.config
        )

    async def _request(self, call: CallId) -> Request | None:
        log = log_and_seq(call)[0]
        config = self._kernel.world.get(call, CallConfig)
        conversation = self._kernel.world.get(log, ConversationConfig)
        if config is None or conversation is None:
            return None
        return Request(call, config, conversation.slug, await arguments_of(self._kernel, log, config))

    async def _why(self, request: Request) -> list[str]:
        """Who asks, by which way, and what was said with the call."""
        log = log_and_seq(request.call)[0]
        frames = await frames_of(self._kernel.store, request.call)
        said = await self._said(log, request.config)
        facts = {
            "request": request.call,
            "agent": request.agent,
            "toolbox": request.config.toolbox or "-",
            "effect": request.config.effect.value,
            "step": str(request.config.step),
            "asked by": " > ".join(frame.entity_id for frame in frames),
            "said with it": as_json(said) if said else "-",
            "asked because": self._reason(log, request.config),
        }
        return [f"{name}: {value}" for name, value in facts.items()]

    def _reason(self, log: LogId, config: CallConfig) -> str:
        turn = self._kernel.world.get(turn_id(log, config.turn), TurnConfig)
        policy = self._kernel.catalog.pinned(turn.context).policy if turn is not None else ()
        rules = [rule.tool for rule in policy if rule.verdict is Verdict.ASK and fnmatchcase(config.tool, rule.tool)]
        return f"a rule for {', '.join(rules)} lets a person decide" if rules else "a hook lets a person decide"

    async def _said(self, log: LogId, config: CallConfig) -> str:
        seq = config.arguments.seq
        return next((private(entry, "text") for entry in await self._kernel.history(log, seq - 1, seq)), "")


def arguments_shown(arguments: Any) -> Iterator[str]:
    """Each argument whole and on one line of JSON, so that none can make a line of its own."""
    if not isinstance(arguments, dict):
        yield as_json(arguments)
        return
    for name, value in arguments.items():
        yield f"{as_json(name)}: {as_json(value)}"
    if not arguments:
        yield "(no arguments)"


def meant(said: str) -> tuple[Verdict | None, str]:
    """The verdict of what was typed, None for what is none, and the reason given with a denial."""
    word, _, reason = said.strip().partition(" ")
    match word.lower():
        case "y" | "yes":
            return (Verdict.ALLOW, "") if not reason else (None, "")
        case "n" | "no":
            return Verdict.DENY, reason.strip()
    return None, ""

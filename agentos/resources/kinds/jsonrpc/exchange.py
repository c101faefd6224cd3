"""Requests to one incarnation of a process, and their answers: each goes to the request with its id, or to nobody."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from agentos.errors import AgentosError, ProcessLost, ResourceError
from agentos.resources.kinds.jsonrpc import messages
from agentos.resources.kinds.jsonrpc.lines import Lines
from agentos.resources.kinds.jsonrpc.messages import NotUnderstood, Reply, Said
from agentos.resources.kinds.jsonrpc.silence import Question, Silence, SilenceLimits
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.pipes import Piece

Heard = Callable[[Any], None]
REASON_CHARS = 2_000


class ExchangeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what is said. A line may have line_bytes, either way. A request that is cancelled waits cancel_s for its
    answer, so that what it began has ended. A process that says over strays_max lines in a row that answer nothing is
    ended. requests_max requests may be under way at once. What is borne of a process that says nothing stands in silence.
    """

    line_bytes: int = 8 * 1024 * 1024
    cancel_s: float = 1.0
    strays_max: int = 10_000
    requests_max: int = 10_000
    silence: SilenceLimits = SilenceLimits()


class Counts(msgspec.Struct, kw_only=True):
    """What became of the lines of all incarnations: answers that were given to their requests; answers that came when the
    request was over (late) or was cancelled; ids that no request ever had; lines that are no message; other messages."""

    answered: int = 0
    late: int = 0
    cancelled: int = 0
    unknown: int = 0
    misread: int = 0
    notified: int = 0


class RpcError(ResourceError):
    """The process answered a request with an error; code is one of JSON-RPC's or its own."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code, self.message, self.data = code, message, data
        super().__init__(message)


class Unanswered(ResourceError):
    """The process answered a request with what is no answer."""


class NotSent(ResourceError):
    """A request that the process has seen nothing of."""


class _Asked:
    """A request under way."""

    __slots__ = ("answer", "over", "progress")

    def __init__(self, answer: asyncio.Future[Reply | NotUnderstood | ProcessLost], progress: Heard | None) -> None:
        self.answer, self.progress = answer, progress
        self.over = False


class Exchange:
    """The requests to one incarnation. numbers gives ids that no incarnation had before. broken and hangs are told why the
    process is of no more use; one that hangs would not heed a request to end. health is what it is asked when in doubt."""

    def __init__(
        self,
        limits: ExchangeLimits,
        counts: Counts,
        numbers: itertools.count[int],
        *,
        prepare: Callable[[Exchange], Any],
        broken: Callable[[str], None],
        hangs: Callable[[str], None],
        changed: Callable[[], None],
        health: Question,
    ) -> None:
        self._limits, self._counts, self._numbers = limits, counts, numbers
        self._prepare, self._broken, self._changed = prepare, broken, changed
        self._health, self._health_number = health, 0
        self._silence = Silence(limits.silence, self._oldest, self._ask_health, hangs)
        self._lines = Lines(limits.line_bytes, self._line, self._too_long)
        self._asked: dict[int, _Asked] = {}
        self._strays = 0
        self._last = 0
        self._live: LiveProcess | None = None
        self._lost: ProcessLost | None = None

    # What a KeptProcess asks of its use

    def heard(self, chunk: memoryview) -> None:
        self._silence.heard()
        if self._strays <= self._limits.strays_max:  # else it is being ended, and nothing it says matters
            self._lines.add(chunk)

    async def prepare(self, live: LiveProcess) -> None:
        self._live = live
        await self._prepare(self)

    def lost(self, error: ProcessLost) -> None:
        self._lost = error
        self._silence.close()
        for asked in self._asked.values():
            _answer(asked, error)

    # What its users ask of it

    @property
    def under_way(self) -> int:
        return len(self._asked)

    async def ask(self, method: str, params: object, progress: Heard | None = None) -> Any:
        """The result of a request. progress is told what the process says of it meanwhile; it may raise AgentosError.

        A cancellation is told to the process, and goes on when that has answered, or after cancel_s.
        Errors: RpcError; Unanswered; ProcessLost when it ended meanwhile; NotSent when it saw nothing of the request.
        """
        if self._lost is not None or self._live is None:
            raise NotSent(f"the process has ended: {self._lost}")
        if len(self._asked) >= self._limits.requests_max:
            raise NotSent(f"{len(self._asked):,} requests are under way (requests_max)")
        number = self._last = next(self._numbers)
        line = self._request(number, method, params)
        asked = _Asked(asyncio.get_running_loop().create_future(), progress)
        self._silence.asks()
        self._asked[number] = asked
        try:
            piece = self._live.write(line)
            if piece is None:
                raise NotSent("the process does not read what it is sent (unread_bytes)")
            return self._result(await self._answered(number, asked, piece))
        finally:
            del self._asked[number]

    def _request(self, number: int, method: str, params: object) -> bytes:
        try:
            line = messages.request(number, method, params)
        except (ValueError, TypeError, RecursionError) as error:
            raise NotSent(f"the request has no JSON: {error}") from error
        if len(line) > self._limits.line_bytes:
            raise NotSent(f"the request has {len(line):,} bytes, over {self._limits.line_bytes:,} (line_bytes)")
        return line

    async def _answered(self, number: int, asked: _Asked, piece: Piece) -> Reply | NotUnderstood | ProcessLost:
        try:
            await asyncio.wait([asked.answer])
        except asyncio.CancelledError:
            asked.over = True
            try:
                await self._cancel(number, asked, piece)
            finally:
                if not asked.answer.done():
                    self._silence.gives_up(number)
            raise
        return asked.answer.result()

    async def _cancel(self, number: int, asked: _Asked, piece: Piece) -> None:
        """Until what was asked has ended, as far as the process tells; a second cancellation waits for nothing."""
        assert self._live is not None, "a request went to a process"
        if asked.answer.done() or self._live.take_back(piece):
            return
        if self._live.write(messages.notification(messages.CANCEL, {"id": number})) is not None:
            await asyncio.wait([asked.answer], timeout=self._limits.cancel_s)

    def _oldest(self) -> int | None:
        """Numbers grow, and stand in the order in which they were asked: it is the first that anybody waits for."""
        waited_for = (number for number, asked in self._asked.items() if not asked.over and not asked.answer.done())
        return next(waited_for, None)

    def _ask_health(self) -> None:
        """Its answer says nothing but that there is one. A process that reads nothing gets nothing of it."""
        assert self._live is not None, "what was given up had gone to a process"
        self._health_number = self._last = next(self._numbers)
        self._live.write(messages.request(self._health_number, *self._health))

    def _result(self, answer: Reply | NotUnderstood | ProcessLost) -> Any:
        if isinstance(answer, ProcessLost):
            raise ProcessLost(answer.name, answer.what, answer.said)
        if isinstance(answer, NotUnderstood):
            raise Unanswered(f"the process answered with a line that cannot be read: {answer.why}")
        if answer.error is not None:
            raise _rpc_error(answer.error)
        return answer.result

    # What the process says

    def _line(self, line: bytes) -> None:
        said = messages.read(line)
        useful = self._reply(said) if isinstance(said, Reply | NotUnderstood) else self._said(said)
        self._count_stray(useful)

    def _too_long(self, head: bytes, size: int) -> None:
        why = f"it has {size:,} bytes, over {self._limits.line_bytes:,} (line_bytes)"
        self._count_stray(self._reply(NotUnderstood(why, messages.leading_id(head))))

    def _reply(self, reply: Reply | NotUnderstood) -> bool:
        """Gives an answer to its request, if there is one; whether there was."""
        number = reply.id if type(reply.id) is int else None  # True and 1.0 would find the request 1 too
        asked = self._asked.get(number) if number is not None else None
        if asked is not None and not asked.answer.done():
            if asked.over:
                self._counts.cancelled += 1
            else:
                self._counts.answered += isinstance(reply, Reply)
                self._counts.misread += isinstance(reply, NotUnderstood)
            _answer(asked, reply)
            return True
        if number is not None and number == self._health_number:
            return True
        if number is not None and 0 < number <= self._last:
            self._counts.late += 1
        elif isinstance(reply, NotUnderstood):
            self._counts.misread += 1
        else:
            self._counts.unknown += 1
        return False

    def _said(self, said: Said) -> bool:
        self._counts.notified += 1
        if said.id is not None:
            assert self._live is not None, "what is heard comes from a process"
            self._live.write(
                messages.refusal(said.id, messages.METHOD_NOT_FOUND, f"no method {said.method[:80]!r} here")
            )
            return False
        if said.method == messages.CHANGED:
            self._changed()
        return said.method == messages.PROGRESS and self._progressed(said.params)

    def _progressed(self, params: object) -> bool:
        number = params.get("id") if isinstance(params, dict) else None
        asked = self._asked.get(number) if type(number) is int else None
        if asked is None or asked.over or asked.progress is None or not isinstance(params, dict):
            return False
        try:
            asked.progress(params.get("data"))
        except AgentosError:  # more, or longer, than a call may tell: it counts as a line that says nothing
            return False
        return True

    def _count_stray(self, useful: bool) -> None:
        self._strays = 0 if useful else self._strays + 1
        if self._strays == self._limits.strays_max + 1:
            self._broken(f"was ended: it said {self._strays:,} lines in a row that answer nothing (strays_max)")


def _answer(asked: _Asked, answer: Reply | NotUnderstood | ProcessLost) -> None:
    if not asked.answer.done():
        asked.answer.set_result(answer)


def _rpc_error(error: object) -> RpcError:
    code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    if type(code) is not int or not isinstance(message, str):
        return RpcError(0, f"an error that JSON-RPC does not know: {error!r}"[:REASON_CHARS])
    return RpcError(code, message, error.get("data") if isinstance(error, dict) else None)

"""A long-lived process as a resource: it is there whenever it is asked for, and started anew when it has died.

One task owns it, from its start to its end: whoever waits for it may be cancelled, and it goes on for the others. It is
started anew only when somebody asks for it, and not without end: one that ends too often has given up for good, until
it is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentos.clock import Clock, SystemClock
from agentos.components import Pattern
from agentos.errors import ProcessError, ProcessGaveUp, ProcessLost, ProcessNotStarted, ResourceClosed, ResourceError
from agentos.resources.account import Place, process_place
from agentos.resources.borrowing import Bounds, Factory, Takes
from agentos.resources.kinds.kept import KeptLimits, ProcessState, Program, Restarts, Use
from agentos.resources.process.command import Command
from agentos.resources.process.descendants import MARK, Keeper
from agentos.resources.process.family import insist
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.reasons import code_text, reason_of
from agentos.resources.process.tasks import cancelled, happens, joined
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

__all__ = ["PROCESS", "KeptLimits", "KeptProcess", "ProcessState", "Program", "Use", "bounds_of", "kept_process"]


class KeptProcess:
    """A process that is kept. `open` starts it; `ready` gives the one that runs now; `close` leaves nothing of any."""

    def __init__(
        self,
        name: str,
        program: Program,
        use: Callable[[], Use],
        *,
        limits: KeptLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name, self.program = name, program
        self.limits = limits or KeptLimits()
        self.started = 0
        self._state = ProcessState.DOWN
        self._closed = False
        self._use = use
        self._restarts = Restarts(self.limits, clock or SystemClock())
        self._error: ProcessError | None = None
        self._live: LiveProcess | None = None
        self._owner: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._end_asked = asyncio.Event()
        self._end_reason = ""
        self._end_at_once = False
        self._asked: Place | None = None

    async def open(self) -> None:
        """Starts it for the first time. Raises ProcessNotStarted, and then there is nothing to close."""
        self._owner = asyncio.create_task(self._own(), name=f"process {self.name}")
        try:
            await self.ready()
        except BaseException:
            await self.close()
            raise

    @property
    def state(self) -> ProcessState:
        return ProcessState.CLOSED if self._closed else self._state

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return self._live.pid if self._live is not None else None

    @property
    def problem(self) -> str:
        """Why it does not run, or last ended; empty while all is well."""
        return self._error.how if self._error is not None and self.state is not ProcessState.READY else ""

    def healthy(self) -> bool:
        """Whether it runs, and can be talked to."""
        return self._live is not None and self._live.alive and not self._end_asked.is_set()

    async def ready(self) -> LiveProcess:
        """The process that runs now; it is started anew when none does.

        Errors: ProcessNotStarted; ProcessGaveUp when it ended too often; ResourceClosed.
        """
        while not self.healthy():
            if self._closed or self._owner is None:
                raise ResourceClosed(self.name)
            if isinstance(self._error, ProcessGaveUp):
                raise _again(self._error)
            self._settled.clear()
            self._wanted.set()
            await self._settled.wait()
            if isinstance(self._error, ProcessNotStarted) and not self.healthy():
                raise _again(self._error)
        assert self._live is not None, "a healthy process runs"
        return self._live

    def renew(self) -> bool:
        """Lets the process that runs now go, and forgets how often it has ended: the next to ask has another one started,
        also when this one had given up. False when there was neither."""
        gave_up, runs = self.state is ProcessState.FAILED, self.healthy()
        self._restarts.forget()
        if gave_up:
            self._error, self._state = None, ProcessState.DOWN
        if runs:
            self.end("was let go, for another one")
        return gave_up or runs

    def end(self, reason: str, *, at_once: bool = False) -> None:
        """Has the process that runs now ended, which is of no more use; the next one to ask gets another. at_once: without
        a grace to heed SIGTERM."""
        self._end_reason = self._end_reason or reason
        self._end_at_once = self._end_at_once or at_once
        self._end_asked.set()

    async def close(self) -> None:
        """Ends it, and waits until nothing of it is left. A cancellation goes on when all is done."""
        if self._owner is None:
            return
        self._closed = True
        self._wanted.set()
        self._end_asked.set()
        if self._asked is not None:
            self._asked.refuse(ResourceClosed(self.name))
        await insist(joined(self._owner))

    async def _own(self) -> None:
        keeper = Keeper()
        try:
            while True:
                await self._wanted.wait()
                if self._closed:
                    return
                if self._may_start():
                    await self._live_once()
                else:
                    self._settle()
        finally:
            self._closed = True
            self._settled.set()
            keeper.close()

    def _settle(self) -> None:
        """All who ask now are answered, so that nobody wants another one. Who closes it wants its end."""
        if not self._closed:
            self._wanted.clear()
        self._settled.set()

    def _may_start(self) -> bool:
        if not self._restarts.may_start():
            self._give_up()
            return False
        self.started += 1
        return True

    def _give_up(self) -> None:
        self._state, last = ProcessState.FAILED, self._error
        what = f"ended again after {self.limits.restarts_max} restarts within {self.limits.restarts_s:g} s"
        how = f"; it {last.what}" if last is not None else ""
        self._error = ProcessGaveUp(
            self.name, f"{what}, so it is not started any more{how}", last.said if last is not None else ""
        )

    async def _live_once(self) -> None:
        """One incarnation, from its start to its end."""
        self._state, self._end_reason, self._end_at_once = ProcessState.STARTING, "", False
        self._end_asked.clear()
        use, mark = self._use(), f"{self.name}:{self.started}"
        try:
            live = self._spawn(use, mark, await self._place())
        except (OSError, ValueError, ResourceError) as error:
            self._down(ProcessNotStarted(self.name, f"could not be started: {self._reason(error)}"))
            self._settle()
            return
        unready: str | None = ""
        try:
            unready = await self._prepared(use, live)
            if unready is None:
                self._state, self._live, self._error = ProcessState.READY, live, None
                self._settle()
                await self._until_lost(live)
        finally:
            await self._ended(use, live, unready)
        if unready is not None:
            self._settle()

    async def _ended(self, use: Use, live: LiveProcess, unready: str | None) -> None:
        self._live = None
        asked = "was closed" if self._closed else self._end_reason
        code = 0
        try:
            code = await live.end(self.limits.close_s if self._closed else 0.0, at_once=self._end_at_once)
        finally:
            how = asked or ("closed its pipes, and was ended" if live.was_stopped else f"ended with {code_text(code)}")
            lost = ProcessLost(self.name, how, live.last_words())
            use.lost(lost)
            why = unready or f"{how} before it was ready"
            self._down(lost if unready is None else ProcessNotStarted(self.name, why, live.last_words()))

    def _down(self, error: ProcessError) -> None:
        self._error, self._state = error, ProcessState.DOWN

    async def _place(self) -> Place | None:
        """Among the processes that there may be, waited for in start_s; who closes it waits for nothing."""
        self._asked = place = process_place(self.name, kept=True)
        try:
            return await place.take(self.limits.start_s) if place is not None else None
        finally:
            self._asked = None

    def _spawn(self, use: Use, mark: str, place: Place | None) -> LiveProcess:
        command = Command(
            argv=list(self.program.argv),
            environment={**self.program.environment, MARK: mark},
            cwd=self.program.cwd,
            mark=mark,
        )
        return LiveProcess(command, self.limits.process, use.heard, self.limits.unread_bytes, place)

    async def _prepared(self, use: Use, live: LiveProcess) -> str | None:
        """Makes it ready, and gives None then; else why it is not, empty when it has ended."""
        preparing = asyncio.create_task(use.prepare(live))
        others = [asyncio.create_task(one) for one in (live.wait_lost(), happens(self._end_asked))]
        try:
            tasks = {preparing, *others}
            await asyncio.wait(tasks, timeout=self.limits.start_s, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                lost = any(other.done() for other in others)
                return "" if lost else f"was not ready in {self.limits.start_s:g} s (start_s)"
            return None if preparing.exception() is None else f"was not ready: {preparing.exception()}"
        finally:
            await cancelled(preparing, *others)

    async def _until_lost(self, live: LiveProcess) -> None:
        news = [asyncio.create_task(one) for one in (live.wait_lost(), happens(self._end_asked))]
        try:
            while not (await asyncio.wait(news, timeout=self.limits.reap_s, return_when=asyncio.FIRST_COMPLETED))[0]:
                live.reap()
        finally:
            await cancelled(*news)

    def _reason(self, error: OSError | ValueError | ResourceError) -> str:
        if isinstance(error, OSError):
            return reason_of(error, Path(self.program.argv[0]), Path(self.program.cwd))
        return str(error)


def _again(error: ProcessError) -> ProcessError:
    """The same error for one more who asks: one object would gather the tracebacks of all."""
    return type(error)(error.name, error.what, error.said)


def bounds_of(limits: KeptLimits) -> Bounds:
    """The bounds of a resource whose handle is such a process: longer than all that it takes itself. For a place among the
    processes that there may be it waits as long as for its start."""
    ends = limits.process
    end_s = 2 * ends.leftover_s + ends.grace_s + ends.kill_s + 2 * ends.drain_s
    return Bounds(make_s=2 * limits.start_s + end_s + 1, close_s=limits.close_s + end_s + 1)


def kept_process(
    program: Program,
    use: Callable[[], Use],
    *,
    name: str = "process",
    limits: KeptLimits | None = None,
    clock: Clock | None = None,
) -> Factory[KeptProcess]:
    """How a kept process is made as a resource, looked at before it is lent, and given back."""

    async def make() -> KeptProcess:
        process = KeptProcess(name, program, use, limits=limits, clock=clock)
        await process.open()
        return process

    return Factory(
        make=make,
        close=KeptProcess.close,
        check=lambda process: process.state is not ProcessState.FAILED,
        takes=lambda process: Takes(pid=process.pid),
    )


PROCESS = ResourceKind(
    name="process",
    factory=kept_process,
    pattern=Pattern.STATELESS,
    bounds=bounds_of(KeptLimits()),
    level=Level.TOOLBOX,
    told_name_and_clock=True,
)
"""How often it may be used at once is for those to say who speak with it."""

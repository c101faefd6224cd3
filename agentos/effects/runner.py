"""Starts effects as tasks, ends each in exactly one report, and stops those of a turn on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agentos.components import CallStatus, Verdict
from agentos.effects.base import Running, Services, words_of
from agentos.effects.call import probe_call, run_call
from agentos.effects.deadlines import Deadlines
from agentos.effects.hook import ask_hooks
from agentos.effects.model import request_model
from agentos.effects.observing import Observers
from agentos.events.effects import AskHook, Effect, Probe, RequestModel, RunCall, StopCall, StopTurn
from agentos.events.intake import CallReport, HookReport, Item, ModelReport, Probed
from agentos.events.model import Finish, ModelReply
from agentos.ids import LogId, Name
from agentos.ports import Observer


def _broken(effect: Any, error: BaseException) -> Item:
    """A runner that raised is a fault of this program; the turn is told, and does not wait for ever."""
    text = f"{type(effect).__name__} broke: {type(error).__name__}: {words_of(error)}"
    if isinstance(effect, RequestModel):
        return ModelReport(
            turn=effect.turn,
            base_seq=effect.base_seq,
            reply=ModelReply(finish=Finish.ERROR),
            error=Name("kernel"),
            message=text,
        )
    if isinstance(effect, RunCall):
        return CallReport(
            call=effect.call, attempt=effect.attempt, status=CallStatus.UNKNOWN, text=text, kind=Name("kernel")
        )
    if isinstance(effect, AskHook):
        return HookReport(call=effect.call, point=effect.point, verdict=Verdict.DENY, by=Name("kernel"), reason=text)
    return Probed(call=effect.call, status=CallStatus.UNKNOWN, text=text)


class Runner:
    """All running effects of a kernel, by log."""

    def __init__(self, services: Services, observers: Sequence[Observer] = ()) -> None:
        self._services = services
        self._observers = Observers(services, observers)
        self._deadlines = Deadlines(services.clock)
        self._running: dict[LogId, list[Running]] = {}
        self._count = 0
        self._idle: list[asyncio.Future[None]] = []
        self._run: dict[type, Callable[[Services, Any, Running], Coroutine[Any, Any, Item]]] = {
            RequestModel: request_model,
            RunCall: run_call,
            AskHook: ask_hooks,
            Probe: probe_call,
        }

    def open(self) -> None:
        """From here on it runs on this loop, which it asks for once: each asking is a system call."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self._deadlines.close()

    def __len__(self) -> int:
        return self._count

    def busy(self, log: LogId) -> bool:
        return log in self._running

    def of(self, log: LogId) -> list[Effect]:
        """What runs for a log now."""
        return [running.effect for running in self._running.get(log, ())]

    def running_call(self, log: LogId, call: int) -> Running | None:
        """The attempt of a call that runs now, if one does."""
        for running in self._running.get(log, ()):
            if isinstance(running.effect, RunCall) and running.effect.call == call:
                return running
        return None

    async def wait_ended(self, log: LogId) -> None:
        """Until nothing runs for a log any more of what runs now."""
        tasks = [running.task for running in self._running.get(log, ()) if running.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def running(self) -> list[tuple[Effect, asyncio.Task[None]]]:
        """Everything that runs now, each with the task that ends when its report is given."""
        return [(r.effect, r.task) for running in self._running.values() for r in running if r.task is not None]

    def start(self, effect: Effect) -> None:
        """Starts an effect; StopTurn cancels the others of its turn instead, StopCall those of its call."""
        if isinstance(effect, (StopTurn, StopCall)):
            self._stop(effect)
            return
        running = Running(effect, self._deadlines)
        self._running.setdefault(effect.log, []).append(running)
        self._count += 1
        running.task = self._loop.create_task(self._to_report(effect, running))

    def stop(self, log: LogId) -> None:
        """Cancels everything that runs for a log."""
        for running in list(self._running.get(log, ())):
            running.cancel("stopped")

    def _stop(self, effect: StopTurn | StopCall) -> None:
        call = effect.call if isinstance(effect, StopCall) else None
        for running in self._running.get(effect.log, ()):
            of_turn = getattr(running.effect, "turn", 0) == effect.turn
            if of_turn and (call is None or getattr(running.effect, "call", 0) == call):
                running.cancel("stopped")

    async def _to_report(self, effect: Any, running: Running) -> None:
        run = self._run[type(effect)] if not self._observers else self._observed
        try:
            running.begin()
            report = await run(self._services, effect, running)
        except (Exception, asyncio.CancelledError) as error:
            report = _broken(effect, error)
        finally:
            running.done = True
            self._gone(effect.log, running)
        self._services.report(effect.log, report)

    async def _observed(self, services: Services, effect: Any, running: Running) -> Item:
        began = services.clock.monotonic()
        begun = self._observers.started(effect)
        try:
            report = await self._run[type(effect)](services, effect, running)
        except (Exception, asyncio.CancelledError) as error:
            report = _broken(effect, error)
        self._observers.ended(begun, report, 1_000 * (services.clock.monotonic() - began))
        return report

    def _gone(self, log: LogId, running: Running) -> None:
        left = self._running[log]
        left.remove(running)
        if not left:
            del self._running[log]
        self._count -= 1
        if not self._count:
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    async def wait_idle(self, limit_s: float) -> bool:
        """Whether everything has ended within the limit."""
        if not self._count:
            return True
        waiter = self._loop.create_future()
        self._idle.append(waiter)
        timer = self._services.clock.call_later(limit_s, lambda: waiter.done() or waiter.cancel())
        try:
            await waiter
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return False
        finally:
            timer.cancel()
        return True

    def cancel_all(self) -> None:
        for log in list(self._running):
            self.stop(log)

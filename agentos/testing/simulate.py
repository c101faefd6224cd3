"""The simulator: many agents, one seed, and every fault there is; all invariants after every tick.

    python -m agentos.testing.simulate --seed 1 --rounds 200

A kernel lives in an event loop of its own until it crashes: then its store is abandoned in the middle of whatever it did,
and the next kernel recovers. The clock is moved by hand and all randomness comes from the seed, so the same seed always
tells the same story. The last line is a digest over every entry of every log.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from agentos import codec
from agentos.components import CallState, ConversationState, ConversationStatus, Verdict, Waiting
from agentos.errors import ConversationClosed, StoreUnavailable
from agentos.events.kinds import CallFinished, ChildLate, InputReceived
from agentos.ids import CallId, ConversationId, Kind, LogId
from agentos.journal import decode_units
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.checker import Checker, InvariantBroken, at_once
from agentos.testing.clock import ManualClock
from agentos.testing.dice import Ledger
from agentos.testing.faults import FaultPlan, FaultyStore
from agentos.testing.ids import SequentialIds
from agentos.testing.troupe import AGENTS, install

STEPS_S = (0.0, 0.0, 0.05, 0.3, 1.0, 6.0, 45.0)
SETTLE_ROUNDS = 2_000
YIELDS = 12
SETTINGS = Settings(live_conversations_max=5, children_max=10, depth_max=3, snapshot_entries=40, inbox_max=8)
RATES = {
    "store.append": {"before": 0.01, "after": 0.01, "conflict": 0.01, "later": 0.2, "later_before": 0.01},
    "store.read": {"unavailable": 0.01},
    "model": {"network": 0.03, "rate_limit": 0.02, "auth": 0.01, "cut": 0.02, "raise": 0.01, "cancel": 0.01, "hang": 0.01},
    "tool": {"raise": 0.03, "exit": 0.01, "cancel": 0.01, "hang": 0.02, "slow": 0.05, "late": 0.02, "stubborn": 0.02},
}


class Report(msgspec.Struct, frozen=True):
    """What a simulation did, and the digest of all that is stored at its end."""

    counts: dict[str, int]
    digest: str


class Simulation:
    """One seed's story: what outlives a crash."""

    def __init__(self, seed: int, rates: dict[str, dict[str, float]] | None = None) -> None:
        self.seed, self.random = seed, Random(seed)
        self.store, self.clock, self.ids = MemoryStore(), ManualClock(), SequentialIds()
        self.plan = FaultPlan(seed=seed, rates=RATES if rates is None else rates)
        self.checker, self.ledger = Checker(), Ledger()
        self.counts: Counter[str] = Counter()
        self.conversations: list[ConversationId] = []
        self.acknowledged: dict[tuple[str, int], str] = {}
        self.broken: list[str] = []
        self.rounds = 0

    def run(self, rounds: int) -> Report:
        """Lives one life after the other. Raises InvariantBroken."""
        over = False
        while not over:
            with asyncio.Runner() as runner:
                over = runner.run(self._life(rounds))
                self.store.abandon()
            self._raise_if_broken()
            self.ledger.forget_running()
            self.clock = self.clock.after_a_crash()
        return Report(dict(self._all_counts()), digest_of_logs(self.store))

    async def _life(self, rounds: int) -> bool:
        """One kernel, from its opening until it crashes (False) or everything is done (True)."""
        asyncio.get_running_loop().set_exception_handler(self._loop_error)
        kernel = Kernel(FaultyStore(self.store, self.plan), ids=self.ids, clock=self.clock, settings=SETTINGS)
        quiet, self.plan.quiet = self.plan.quiet, True
        await kernel.__aenter__()
        self.checker.watch(kernel)
        await install(kernel, self.seed, self.clock, self.ledger, self.plan)
        self.plan.quiet = quiet
        self._do(kernel, "recover", kernel.recover)
        while self.rounds < rounds:
            self.rounds += 1
            if self._act(kernel):
                kernel.ticker.after_tick = None
                return False
            await self._pass_time(self.random.choice(STEPS_S), self.random.randrange(YIELDS))
        await self._settle(kernel)
        return True

    async def _pass_time(self, seconds: float, yields: int = YIELDS) -> None:
        for _ in range(yields):
            await asyncio.sleep(0)
        self.clock.advance(seconds)
        self._raise_if_broken()

    def _act(self, kernel: Kernel) -> bool:
        """One thing that people or machines do; whether it was a crash."""
        random = self.random
        name = random.choices([name for name, _ in ACTIONS], [weight for _, weight in ACTIONS])[0]
        if name == "crash":
            self.counts["crash"] += 1
            return True
        if name == "clock":
            self.clock.set_back(random.uniform(-5, 5))
        elif name == "start" or not self.conversations:
            key = f"key{random.randrange(5)}" if random.random() < 0.2 else None
            self._do(kernel, "start", lambda: self._start(kernel, random.choice(AGENTS), key))
        else:
            self._command(kernel, name, random.choice(self.conversations))
        return False

    def _command(self, kernel: Kernel, name: str, id_: ConversationId) -> None:
        text = f"input {self.rounds}"
        commands: dict[str, Callable[[], Awaitable[Any]]] = {
            "send": lambda: self._send(kernel, id_, text),
            "keyed": lambda: self._send(kernel, id_, "the same again", key=f"{id_[-4:]}"),
            "ask": lambda: self._ask(kernel, id_, text),
            "interrupt": lambda: kernel.interrupt(id_),
            "answer": lambda: self._answer(kernel),
            "control": lambda: self._control(kernel, id_),
        }
        self._do(kernel, name, commands[name])

    def _do(self, kernel: Kernel, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        """As a client would, at the same time as others; what a client may be told is no failure."""

        async def client() -> None:
            try:
                await work()
                self.counts[name] += 1
            except (StoreUnavailable, ConversationClosed, ConversationBusy):
                self.counts[f"{name} refused"] += 1
            except Exception as error:
                self.broken.append(f"round {self.rounds}: {name} raised {type(error).__name__}: {error}")

        task = asyncio.get_running_loop().create_task(client())
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _start(self, kernel: Kernel, agent: str, key: str | None) -> None:
        id_ = (await kernel.start(agent, key)).id
        if id_ not in self.conversations:
            self.conversations.append(id_)

    async def _send(self, kernel: Kernel, id_: ConversationId, text: str, key: str | None = None) -> None:
        seq = await kernel.send(id_, text, key=key)
        self.acknowledged[id_, seq] = text

    async def _ask(self, kernel: Kernel, id_: ConversationId, text: str) -> None:
        outcome = await kernel.ask(id_, text)
        self.outcomes[outcome.turn] = (outcome.outcome, outcome.name)
        self.counts[f"turn {outcome}"] += 1

    async def _control(self, kernel: Kernel, id_: ConversationId) -> None:
        control = self.random.choice((Control.PAUSE, Control.PAUSE, Control.UNPAUSE, Control.UNPAUSE, Control.CLOSE))
        await kernel.control(id_, control)

    async def _answer(self, kernel: Kernel) -> None:
        for call, _ in kernel.world.find(CallState, waiting=Waiting.APPROVAL):
            await kernel.answer(call, self.random.choice((Verdict.ALLOW, Verdict.ALLOW, Verdict.DENY)))
            return

    async def _settle(self, kernel: Kernel) -> None:
        """Without faults, and with somebody who answers, everything comes to its end."""
        self.plan.quiet = True
        for _ in range(SETTLE_ROUNDS):
            await self._pass_time(1.0)
            if not self._clients and not self._open(kernel):
                break
            for id_ in self.conversations:
                self._do(kernel, "unpause", lambda id_=id_: kernel.control(id_, Control.UNPAUSE))
            self._do(kernel, "answer", lambda: self._answer(kernel))
        self.broken += [f"at the end {what}" for what in self._open(kernel)]
        self.broken += [f"at the end {len(self._clients)} clients still wait"] if self._clients else []
        self.broken += scopes_are_owned(kernel) + slots_are_held(kernel)
        self.checker.check(kernel)
        kernel.ticker.after_tick = None
        await kernel.close()

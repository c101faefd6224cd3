"""The simulator: many agents, one seed, every fault there is, and all invariants after every tick.

    python -m agentos.testing.simulate --seed 1 --rounds 200

A kernel lives in an event loop of its own until it crashes: then its store is abandoned in the middle of whatever it did,
and the next kernel recovers. The clock is moved by hand and all randomness comes from the seed, so the same seed always
tells the same story. The last line is a digest over the heads of all logs, which attest every entry and every body.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import hashlib
import sys
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from agentos.components import ConversationState
from agentos.ids import CONVERSATION, Kind
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.systems import SCHEDULE
from agentos.testing.aftermath import problems_of
from agentos.testing.checker import Checker, at_once
from agentos.testing.clients import Clients, not_kept
from agentos.testing.clock import ManualClock
from agentos.testing.dice import DiceHook, Ledger
from agentos.testing.faults import FaultPlan, FaultyStore
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.testing.invariants import InvariantBroken, slots_are_held
from agentos.testing.live_invariants import scopes_are_owned
from agentos.testing.lives import die, one_life
from agentos.testing.published import Published
from agentos.testing.troupe import AGENTS, enter, moody

STEPS_S = (0.0, 0.0, 0.05, 0.3, 1.0, 6.0, 45.0)
YIELDS = 12
SETTLE_ROUNDS = 500
CRASHES = 0.03
SETTINGS = Settings(live_conversations_max=6, children_max=10, depth_max=3, snapshot_entries=40, inbox_max=8)
BOUNDED = msgspec.structs.replace(
    SETTINGS,
    turns_max=2,
    tenant_turns_max=1,
    agent_turns_max=1,
    calls_max=2,
    tenant_calls_max=1,
    conversation_calls_max=1,
)
"""What every fifth seed has: turns and calls wait for their places, through faults and crashes."""
RATES: dict[str, dict[str, float]] = {
    "store.append": {"before": 0.01, "after": 0.01, "conflict": 0.01, "later": 0.2, "later_before": 0.01},
    "store.read": {"unavailable": 0.01},
    "model": {
        "network": 0.03,
        "rate_limit": 0.02,
        "auth": 0.02,
        "cut": 0.02,
        "raise": 0.01,
        "cancel": 0.01,
        "hang": 0.01,
    },
    "tool": {"raise": 0.03, "exit": 0.01, "cancel": 0.01, "hang": 0.02, "slow": 0.05, "late": 0.02, "stubborn": 0.02},
}


class Report(msgspec.Struct, frozen=True):
    """What happened how often, and the digest of all that is stored at the end."""

    counts: dict[str, int]
    digest: str


class Simulation:
    """One seed's story: what outlives the crashes of its kernels."""

    def __init__(self, seed: int, rates: Mapping[str, Mapping[str, float]] = RATES, crashes: float = CRASHES) -> None:
        self.seed, self.random = seed, Random(seed)
        self.store, self.clock = MemoryStore(), ManualClock()
        self.ids, self.salts = SequentialIds(), SequentialSalts()
        self.plan, self.checker, self.ledger = FaultPlan(seed=seed, rates=rates), Checker(self.store), Ledger()
        self.clients = Clients(self.random, AGENTS, self.store)
        self.broken: list[str] = []
        self.systems = [] if self.seed % 3 else [moody]
        self.rounds = self.lives = 0
        self._crashes = crashes

    def run(self, rounds: int) -> Report:
        """One life after the other until the rounds are over and everything has ended. Raises InvariantBroken."""
        over = False
        while not over:
            self.lives += 1
            with one_life() as runner:
                try:
                    over = runner.run(self._life(rounds))
                except InvariantBroken:
                    over = True  # raised again below, without the frames of this life
                self.store.abandon()
            self.ledger.next_life()
            self.clock = self.clock.after_a_crash()
            self.broken += not_kept(self.clients, self.store, self.checker.registry)
            self._raise_if_broken()
        self.broken += asyncio.run(self._aftermath())
        self._raise_if_broken()
        return Report(self._counts(), digest_of_heads(self.store))

    async def _life(self, rounds: int) -> bool:
        """One kernel, from its opening until it crashes (False) or everything has ended (True)."""
        asyncio.get_running_loop().set_exception_handler(functools.partial(self._loop_error, self.lives))
        store = FaultyStore(self.store, self.plan)
        kernel = Kernel(
            store,
            ids=self.ids,
            clock=self.clock,
            salts=self.salts,
            settings=SETTINGS if self.seed % 5 else BOUNDED,
            hooks=[DiceHook(self.seed, self.clock)] if self.seed % 2 else [],
            systems=self.systems,
        )
        self.plan.quiet = True
        await kernel.__aenter__()
        self.checker.watch(kernel)
        published = Published(kernel, self.store, self.checker.registry)
        await enter(kernel, self.store, self.seed, self.clock, self.ledger, self.plan)
        self.plan.quiet = False
        self.clients.do("recover", kernel.recover)
        while self.rounds < rounds:
            self.rounds += 1
            if self.random.random() < self._crashes:
                kernel.ticker.after_tick, self.ledger.dying, store.is_gone = None, True, True
                await die()
                return False
            self.clients.wish(kernel)
            await self._pass_time(self.random.choice(STEPS_S), self.random.randrange(YIELDS))
            self.broken += published.check()
        await self._settle(kernel)
        return True

    async def _aftermath(self) -> list[str]:
        try:
            return await problems_of(self.store, schedule=SCHEDULE.with_systems(self.systems))
        finally:
            await self.store.close()

    async def _pass_time(self, seconds: float, yields: int) -> None:
        for _ in range(yields):
            await asyncio.sleep(0)
        self.clock.advance(seconds)
        if self.random.random() < 0.02:
            self.clock.set_back(self.random.uniform(-3, 3))
        self._raise_if_broken()

    async def _settle(self, kernel: Kernel) -> None:
        """Without faults, and with somebody who answers, everything comes to its end."""
        self.plan.quiet = True
        self.clients.do("recover", kernel.recover)
        for _ in range(SETTLE_ROUNDS):
            self.clients.settle(kernel)
            await self._pass_time(1.0, YIELDS)
            if not self._unfinished(kernel):
                break
        self.broken += [f"at the end, {what}" for what in self._unfinished(kernel)]
        self.broken += scopes_are_owned(kernel) + slots_are_held(kernel)
        self.checker.check(kernel)
        self._raise_if_broken()
        kernel.ticker.after_tick = None
        await kernel.close()

    def _unfinished(self, kernel: Kernel) -> list[str]:
        found = [f"{log} has an open turn or items in its inbox" for log in at_once(self.store.open_logs())]
        found += [f"a client waits for {name}" for name in self.clients.waiting]
        found += [f"{len(kernel.runner)} effects run"] if len(kernel.runner) else []
        for log, loaded in kernel.ticker.loaded.items():
            state = loaded.slice.get(CONVERSATION, ConversationState)
            if state is not None and state.waiting:
                found.append(f"{log} has inputs that no turn takes")
        return found

    def _loop_error(self, life: int, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nobody catches; what a crash leaves behind is none."""
        error = context.get("exception")
        if isinstance(error, Exception) and life == self.lives and not self.ledger.dying:
            self.broken.append(f"in the event loop: {context['message']}: {type(error).__name__}: {error}")

    def _raise_if_broken(self) -> None:
        broken = [*self.broken, *self.checker.broken, *self.clients.broken, *self.ledger.broken]
        if broken:
            raise InvariantBroken([f"seed {self.seed}, round {self.rounds}, life {self.lives}:", *broken])

    def _counts(self) -> dict[str, int]:
        counts = dict(sorted(self.clients.counts.items()))
        counts |= {f"fault {name}": n for name, n in sorted(self.plan.counts().items())}
        logs = at_once(self.store.logs(Kind.CONVERSATION.value))
        return counts | {
            "lives": self.lives,
            "ticks checked": self.checker.checks,
            "requests checked": self.checker.requests,
            "tool runs": len(self.ledger.runs),
            **{f"inner calls {status}": n for status, n in sorted(self.ledger.inner.items())},
            "conversations": len(logs),
            "conversations erased": sum(row.erased_at is not None for row in logs),
            "entries": sum(row.seq for row in logs),
        }


def digest_of_heads(store: MemoryStore) -> str:
    whole = hashlib.sha256()
    for row in sorted(at_once(store.logs()), key=lambda row: row.id):
        whole.update(f"{row.id} {row.seq} ".encode() + row.digest)
    return whole.hexdigest()


def simulate(seed: int, rounds: int) -> Report:
    """Raises InvariantBroken with all that is wrong, and the round where it was seen."""
    return Simulation(seed).run(rounds)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m agentos.testing.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args(arguments)
    try:
        report = simulate(options.seed, options.rounds)
    except InvariantBroken as error:
        print(error)
        return 1
    for name, n in report.counts.items():
        print(f"{name:32}{n:8}")
    print(report.digest)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The people of the simulator: what they ask for, and what they were told, which no crash may take back."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from agentos.components import CallConfig, CallState, Resolution, TurnState, Verdict, Waiting
from agentos.errors import ConversationBusy, ConversationClosed, KernelClosed, StoreUnavailable
from agentos.events.entry import Registry
from agentos.events.intake import Cancel, Control, ControlItem, Erase, Input, Item, Resolve
from agentos.ids import ConversationId, Kind, LogId, call_id, log_and_seq, name_of
from agentos.journal import decode_units
from agentos.kernel import Kernel
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.systems.resolve import ended_unknown
from agentos.testing.checker import at_once

REFUSALS = (StoreUnavailable, ConversationClosed, ConversationBusy, KernelClosed)
"""What a client may be told; any other error is a bug."""

WISHES = {
    "start": 3,
    "send": 5,
    "send_keyed": 1,
    "ask": 6,
    "interrupt": 2,
    "answer": 3,
    "resolve": 2,
    "control": 1,
    "post": 2,
    "rebind": 1,
}
"""What clients do, and how often, in parts."""

ERASES = 0.01
"""How often a client has a conversation erased, beside what it wishes for."""

TENANTS = ("acme", "globex", None)
"""On whose account conversations are begun, in turn."""

_CONTROLS = (Control.PAUSE, Control.PAUSE, Control.UNPAUSE, Control.UNPAUSE, Control.CLOSE)


class Clients:
    """All clients of all kernels that are opened on one store, one after the other."""

    def __init__(self, random: Random, agents: tuple[str, ...], store: MemoryStore) -> None:
        self.conversations: list[ConversationId] = []
        self.tenants: dict[ConversationId, str | None] = {}
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []
        self.inputs: dict[tuple[ConversationId, int], str] = {}
        self.outcomes: dict[str, tuple[Any, Any]] = {}
        self._random, self._agents, self._elsewhere = random, agents, MemoryStore(store)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wishes = 0
        self._eraser = Random(ERASES)

    @property
    def waiting(self) -> list[str]:
        """What clients wait for an answer to."""
        return sorted(task.get_name() for task in self._tasks)

    def wish(self, kernel: Kernel) -> None:
        """One client begins to do one thing."""
        random = self._random
        name = random.choices(list(WISHES), list(WISHES.values()))[0] if self.conversations else "start"
        id_ = random.choice(self.conversations) if self.conversations else ConversationId("")
        self._wishes += 1
        text = f"input {self._wishes}"
        if self.conversations and self._eraser.random() < ERASES:
            self.do("erase", functools.partial(self._erase, self._eraser.choice(self.conversations)))
        match name:
            case "start":
                key = f"key{random.randrange(5)}" if random.random() < 0.2 else None
                agent, tenant = random.choice(self._agents), TENANTS[self._wishes % len(TENANTS)]
                self.do(name, lambda: self._start(kernel, agent, key, tenant))
            case "send":
                self.do(name, lambda: self._send(kernel, id_, text, None))
            case "send_keyed":
                self.do(name, lambda: self._send(kernel, id_, "the same again", "same"))
            case "ask":
                self.do(name, lambda: self._ask(kernel, id_, text), f"ask {id_} {text!r}")
            case "interrupt":
                self.do(name, lambda: kernel.interrupt(id_))
            case "answer":
                self.do(name, lambda: self.answer(kernel))
            case "resolve":
                self.do(name, lambda: self.resolve(id_))
            case "control":
                control = random.choice(_CONTROLS)
                self.do(control.value, lambda: kernel.control(id_, control))
            case "post":
                item = random.choice(
                    (Cancel(), Input(text=text, key=name_of(text)), ControlItem(control=Control.UNPAUSE))
                )
                self.do(name, lambda: self._post(id_, f"{type(item).__name__} {self._wishes}", item))
            case "rebind":
                self._rebind(kernel)

    def do(self, name: str, work: Callable[[], Awaitable[Any]], what: str = "") -> None:
        """At the same time as all others."""
        task = asyncio.get_running_loop().create_task(self._until_told(name, work), name=what or name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer(self, kernel: Kernel) -> None:
        """Decides on the first call that waits for a person."""
        for call, _ in kernel.world.find(CallState, waiting=Waiting.APPROVAL):
            await kernel.answer(call, self._random.choice((Verdict.ALLOW, Verdict.ALLOW, Verdict.DENY)))
            return

    async def resolve(self, id_: ConversationId) -> None:
        """Says what became of one of its calls in doubt, by way of the store; the first word counts."""
        doubts = doubts_in(self._elsewhere, id_)
        if not doubts:
            return
        item = self._random.choice(doubts)
        resolution = self._random.choice(list(Resolution))
        by = name_of(f"client {self._wishes}")
        said = msgspec.structs.replace(item, resolution=resolution, by=by)
        await self._post(id_, f"resolve:{item.call}:{item.attempt}", said)
        self.counts[f"resolved as {resolution.value}"] += 1

    def settle(self, kernel: Kernel) -> None:
        """Nobody holds anything up any more."""
        for id_ in self.conversations:
            if kernel.state_of(id_) in ("paused", "unloaded"):
                self.do("unpause", functools.partial(kernel.control, id_, Control.UNPAUSE))
        self.do("answer", lambda: self.answer(kernel))
        for id_ in self.conversations:
            if kernel.state_of(id_) == "parked":
                self.do("resolve", functools.partial(self.resolve, id_))

    async def _until_told(self, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
            self.counts[name] += 1
        except REFUSALS:
            self.counts[f"{name}, refused"] += 1
        except Exception as error:
            self.broken.append(f"a client that wished to {name} was told {type(error).__name__}: {error}")

    async def _start(self, kernel: Kernel, agent: str, key: str | None, tenant: str | None) -> None:
        id_ = (await kernel.start(agent, key, tenant=tenant)).id
        if id_ not in self.conversations:
            self.conversations.append(id_)
        self.tenants[id_] = tenant

    async def _send(self, kernel: Kernel, id_: ConversationId, text: str, key: str | None) -> None:
        seq = await kernel.send(id_, text, key=key, ephemeral=_passes_by(text))
        self.inputs[id_, seq] = text

    async def _post(self, id_: ConversationId, key: str, item: Item) -> None:
        """As another process does, by way of the store."""
        await self._elsewhere.open("elsewhere")
        await self._elsewhere.post(inbox_row(id_, key, item))
        await self._elsewhere.close()

    async def _erase(self, id_: ConversationId) -> None:
        """By way of the store. What has gone on by the time it is taken, or has a turn open, stays."""
        row, entries = at_once(self._elsewhere.log(id_)), at_once(self._elsewhere.entries(id_))
        if row is not None:
            bodies = sum(body is not None for entry in entries for *_, body in entry.payloads)
            item = Erase(upto=row.seq, bodies=bodies, reason=name_of("simulated"))
            await self._post(id_, f"erase {self._wishes}", item)

    def _rebind(self, kernel: Kernel) -> None:
        """Takes a toolbox from an agent, or gives it back; open turns keep what they pinned."""
        self.counts["rebind"] += 1
        if any(use.name == "pairs" for use in kernel.catalog.spec("hand").toolbox_uses):
            kernel.unbind("hand", "pairs")
        else:
            kernel.bind("hand", "pairs")

    async def _ask(self, kernel: Kernel, id_: ConversationId, text: str) -> None:
        outcome = await kernel.ask(id_, text, ephemeral=_passes_by(text))
        self.outcomes[outcome.turn] = (outcome.outcome, outcome.name)
        self.counts[f"turn {outcome.outcome.value}"] += 1


def _passes_by(text: str) -> bool:
    return text.endswith("7")


def doubts_in(store: Store, id_: ConversationId) -> list[Resolve]:
    """What may be said of the calls of a conversation that wait for a person or have ended as unknown."""
    configs: dict[int, CallConfig] = {}
    states: dict[int, CallState] = {}
    for unit in decode_units(LogId(id_), at_once(store.entries(id_)), Registry()):
        for entity, component in (change for entry in unit for change in entry.changes):
            if isinstance(component, CallConfig):
                configs[entity] = component
            elif isinstance(component, CallState):
                states[entity] = component
    return [
        Resolve(
            call=call_id(id_, call),
            attempt=state.attempt,
            resolution=Resolution.DONE,
            tool=configs[call].tool,
            asked=configs[call].tool,
        )
        for call, state in states.items()
        if state.doubted or ended_unknown(configs[call], state)
    ]


def not_kept(clients: Clients, store: Store, registry: Registry) -> list[str]:
    """What clients were told and the store does not have."""
    lost = [id_ for id_ in clients.conversations if at_once(store.log(id_)) is None]
    broken = [f"{id_} was started, and is not stored" for id_ in lost]
    broken += _on_another_account(clients, store)
    for (id_, seq), text in clients.inputs.items():
        stored = at_once(store.entries(id_, seq - 1, seq))
        texts = [body for entry in stored if entry.kind == "input.received" for _, _, _, body in entry.payloads]
        if texts != [None if _is_erased(store, id_) else text]:
            broken.append(f"{id_} seq {seq}: the input {text!r} was acknowledged, stored is {texts}")
    for turn, told in clients.outcomes.items():
        log, seq = log_and_seq(turn)
        if (found := _outcome(store, registry, log, seq)) != told:
            broken.append(f"{turn} ended as {told} for its client, and as {found} in the store")
    return broken


def _on_another_account(clients: Clients, store: Store) -> list[str]:
    """A conversation keeps the tenant that it was begun for, and all below it have that of their root."""
    rows = at_once(store.logs(Kind.CONVERSATION.value))
    tenants: dict[str, str | None] = {row.id: row.tenant for row in rows}
    asked = {id_: tenants[id_] for id_ in clients.tenants if id_ in tenants}
    broken = [
        f"{id_} was begun for {clients.tenants[id_]}, and is on the account of {found}"
        for id_, found in asked.items()
        if found != clients.tenants[id_]
    ]
    return broken + [
        f"{row.id} is on the account of {row.tenant}, its root {row.root} on that of {tenants[row.root]}"
        for row in rows
        if row.root is not None and tenants[row.root] != row.tenant
    ]


def _is_erased(store: Store, id_: ConversationId) -> bool:
    row = at_once(store.log(id_))
    return row is not None and row.erased_at is not None


def _outcome(store: Store, registry: Registry, log: LogId, turn: int) -> tuple[Any, Any] | None:
    for unit in decode_units(log, at_once(store.entries(log, turn)), registry):
        for entry in unit:
            if entry.data.kind == "turn.finished" and entry.turn == turn:
                state = next(value for _, value in entry.changes if isinstance(value, TurnState))
                return state.outcome, state.outcome_name
    return None

"""The words of a control socket: what each is given, what of the kernel it asks, and what it gives back.

Server and client read this one table. A word that is not in it does not exist, and what it is given is checked by its type
before anything is done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from agentos.components import Resolution, Shares, Verdict
from agentos.events.entry import Entry
from agentos.events.intake import Control
from agentos.ids import ConversationId
from agentos.kernel.client import Operator
from agentos.kernel.doubts import Doubt
from agentos.kernel.listing import Listing, Page
from agentos.kernel.lsof import OpenResource
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.top import TURNS_SHOWN, Top
from agentos.kernel.watch import Watched

G = TypeVar("G", bound=msgspec.Struct)
R = TypeVar("R")


class Stops(Protocol):
    """Whoever drives the kernel, where it takes a word to end."""

    def ask(self, *, force: bool) -> None: ...


class Hosted(Operator, Protocol):
    """A kernel, as its control socket needs it."""

    @property
    def stopping(self) -> Stops: ...


class Word(Generic[G, R]):
    """given is the type of what it takes, gives that of its value. One with items gives them one by one."""

    def __init__(
        self,
        given: type[G],
        gives: Any,
        run: Callable[[Hosted, G], Awaitable[R]] | None = None,
        items: Callable[[Hosted, G], AsyncIterator[Watched]] | None = None,
    ) -> None:
        self.given, self.gives, self.run, self.items = given, gives, run, items


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a word takes."""


class One(Given, frozen=True):
    id: str


class Maybe(Given, frozen=True):
    id: str | None = None


class Begin(Given, frozen=True):
    agent: str
    key: str | None = None
    tenant: str | None = None


class Send(Given, frozen=True):
    id: str
    text: str
    key: str | None = None
    ephemeral: bool = False


class Ask(Given, frozen=True):
    id: str
    text: str
    ephemeral: bool = False


class History(Given, frozen=True):
    id: str
    after_seq: int = 0
    upto: int | None = None


class Watch(Given, frozen=True):
    id: str
    after_seq: int = 0


class Answering(Given, frozen=True):
    request: str
    verdict: Verdict
    reason: str = ""
    by: str = "user"


class Resolving(Given, frozen=True):
    call: str
    resolution: Resolution
    result: str | None = None
    reason: str = ""
    by: str = "user"


class Interrupt(Given, frozen=True):
    id: str
    by: str = "user"


class Controlling(Given, frozen=True):
    id: str
    control: Control


class Conversations(Given, frozen=True):
    state: str | None = None


class Ps(Given, frozen=True):
    listing: Listing = Listing()


class TopOf(Given, frozen=True):
    turns_max: int = TURNS_SHOWN


class Release(Given, frozen=True):
    name: str


class Renice(Given, frozen=True):
    name: str
    weight: float
    tenant: bool = False


class Nothing(Given, frozen=True):
    """A word that says all by itself."""


class Stop(Given, frozen=True):
    force: bool = False


async def _stop(host: Hosted, given: Stop) -> None:
    host.stopping.ask(force=given.force)


async def _history(host: Hosted, given: History) -> AsyncIterator[Entry]:
    for entry in await host.history(given.id, given.after_seq, given.upto):
        yield entry


WORDS: dict[str, Word[Any, Any]] = {
    "begin": Word(Begin, ConversationId, lambda host, it: host.begin(it.agent, it.key, tenant=it.tenant)),
    "send": Word(Send, int, lambda host, it: host.send(it.id, it.text, key=it.key, ephemeral=it.ephemeral)),
    "ask": Word(Ask, RunOutcome, lambda host, it: host.ask(it.id, it.text, ephemeral=it.ephemeral)),
    "outcome": Word(One, RunOutcome | None, lambda host, it: host.outcome(it.id)),
    "watch": Word(Watch, None, items=lambda host, it: host.watch(it.id, it.after_seq)),
    "history": Word(History, None, items=_history),
    "answer": Word(Answering, bool, lambda host, it: host.answer(it.request, it.verdict, reason=it.reason, by=it.by)),
    "resolve": Word(
        Resolving,
        None,
        lambda host, it: host.resolve(it.call, it.resolution, result=it.result, reason=it.reason, by=it.by),
    ),
    "interrupt": Word(Interrupt, None, lambda host, it: host.interrupt(it.id, by=it.by)),
    "control": Word(Controlling, None, lambda host, it: host.control(it.id, it.control)),
    "state": Word(One, str, lambda host, it: host.state_now(it.id)),
    "conversations": Word(Conversations, list[ConversationId], lambda host, it: host.conversations(it.state)),
    "ps": Word(Ps, Page, lambda host, it: host.page(it.listing)),
    "doubts": Word(Maybe, list[Doubt], lambda host, it: host.doubts(it.id)),
    "lsof": Word(Maybe, list[OpenResource], lambda host, it: host.lsof(it.id)),
    "release": Word(Release, int, lambda host, it: host.release(it.name)),
    "renice": Word(Renice, bool, lambda host, it: host.renice(it.name, it.weight, tenant=it.tenant)),
    "shares": Word(Nothing, Shares, lambda host, it: host.shares()),
    "top": Word(TopOf, Top, lambda host, it: host.top(it.turns_max)),
    "stop": Word(Stop, None, _stop),
}

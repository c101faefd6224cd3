"""Entry kinds of a conversation as a whole."""

from __future__ import annotations

from typing import ClassVar

from agentos.components import Outcome
from agentos.events.intake import Control
from agentos.events.kinds.base import EntryData
from agentos.ids import Name


class ConversationStarted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation begins. Agent, parent, root, depth and budget stand in its ConversationConfig."""

    kind: ClassVar[str] = "conversation.started"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"
    key: Name | None = None


class InputReceived(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A message was received. In an open turn it waits for the next one. An ephemeral one leaves with its turn."""

    kind: ClassVar[str] = "input.received"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("text",)
    writer: ClassVar[str] = "admit"
    key: Name | None = None
    ephemeral: bool = False


class ConversationForked(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A fork begins where no turn is open. Its root and its agent stand in its ConversationConfig."""

    kind: ClassVar[str] = "conversation.forked"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "recover"


class ConversationPaused(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation begins no other turn until it is unpaused; an open one goes on to its end."""

    kind: ClassVar[str] = "conversation.paused"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


class ConversationUnpaused(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """Inputs that wait are taken again."""

    kind: ClassVar[str] = "conversation.unpaused"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


class ConversationClosed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation takes no more inputs; its history stays."""

    kind: ClassVar[str] = "conversation.closed"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


CONTROLS: dict[Control, type[EntryData]] = {
    Control.PAUSE: ConversationPaused,
    Control.UNPAUSE: ConversationUnpaused,
    Control.CLOSE: ConversationClosed,
}


class ChildLate(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A child ended after its call had been finished without it."""

    kind: ClassVar[str] = "child.late"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("result",)
    writer: ClassVar[str] = "admit"
    child_head: Name
    outcome: Outcome
    outcome_name: Name | None = None
    children_used: int = 0


class PayloadErased(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The receipt of an erase: the private values of this log's own entries up to seq upto, so many of them (bodies), went
    with this unit, and what waited in the inbox. The conversation is closed by it."""

    kind: ClassVar[str] = "payload.erased"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"
    upto: int
    bodies: int
    reason: Name

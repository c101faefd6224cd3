"""What a toolbox is: a named set of tools with one way to share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from agentos.components import CallStatus, ToolboxSharing, ToolSpec
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources import ResourceKind, Shared
from agentos.resources.process.threads import Abandoned


class Finish(msgspec.Struct, frozen=True):
    """Returned by a tool to end the turn with this value, when every call of the step does."""

    value: Any


class Failed(msgspec.Struct, frozen=True):
    """Returned by a toolbox for a call that did not work out: kind for programs, text for the model."""

    kind: Name
    text: str


class CutOff(msgspec.Struct, frozen=True):
    """Returned by a toolbox for a call that was begun and whose end it cannot know: whatever ran it is gone.

    A `once` call may have had its effect, so its outcome is unknown then; any other has failed. kind and text as of Failed.
    """

    kind: Name
    text: str


class Doubt(msgspec.Struct, frozen=True):
    """What a probe found out about a call after a crash: done, failed, or unknown."""

    status: CallStatus
    text: str


class ToolboxProblem(msgspec.Struct, frozen=True):
    """Something of a toolbox that could not be loaded: the file or setting, and why. The rest of it works."""

    place: str
    reason: str


class Toolbox(Protocol):
    """A named set of tools. The kernel opens it once, shares it as `sharing` says, and closes it with its scope."""

    name: Name
    sharing: ToolboxSharing
    size: int

    @property
    def kind(self) -> Name:
        """A word for what it is: script, python, sqlite and so on. Most have it as a class variable."""

    async def open(self) -> None:
        """Gets what it needs. Raises ConfigurationError naming the file or the setting."""

    def tools(self) -> Sequence[ToolSpec]:
        """What it offers now, sorted by name; each names this toolbox."""

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        """Runs one call. Returns any value of section "results", Failed, CutOff or Finish; may raise anything, which is
        then the failure of this call alone. On cancellation it stops what it started before it lets go."""

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        """What became of the call with this key before a crash; None when the tool cannot tell."""

    async def close(self) -> None: ...


@runtime_checkable
class Reloadable(Protocol):
    """A toolbox whose tools come from files that may change while it is open."""

    def changed(self) -> bool:
        """Whether a file is another one than when it was last read. Only stats files: microseconds for each."""

    async def reload(self) -> None:
        """Reads again what changed; `tools()` then tells the new set. Calls that run go on with what they began with.
        What is broken now stands in the problems, and takes no other tool with it."""


@runtime_checkable
class Renewable(Protocol):
    """A toolbox that keeps something alive of its own, which a person may want begun anew."""

    async def renew(self) -> int:
        """Gives it back, once calls that run have had a moment to end; the next call has it made again. Says how many
        things there were."""


def problems_of(toolbox: Toolbox) -> Sequence[ToolboxProblem]:
    """What of a toolbox could not be loaded; empty for a kind that loads as a whole or not at all."""
    problems: Sequence[ToolboxProblem] = getattr(toolbox, "problems", ())
    return problems


def abandoned_of(toolbox: Toolbox) -> Sequence[Abandoned]:
    """The threads of a toolbox that still run for calls that are over; also once it is closed."""
    abandoned: Sequence[Abandoned] = getattr(toolbox, "abandoned", ())
    return abandoned


def kinds_of(toolbox: Toolbox) -> Mapping[str, ResourceKind]:
    """The kinds of resources that a toolbox declares, by the names that its own tools borrow them by."""
    kinds: Mapping[str, ResourceKind] = getattr(toolbox, "resource_kinds", {})
    return kinds


def resources_of(toolbox: Toolbox) -> Sequence[Shared[Any]]:
    """What an open toolbox lends to its calls, by names that are its own; it shows in `lsof` while the toolbox is open."""
    resources: Sequence[Shared[Any]] = getattr(toolbox, "resources", ())
    return resources


def notes_of(toolbox: Toolbox) -> Sequence[ToolboxProblem]:
    """What works, but was not said as it should be, or is open to others: for whoever looks after the toolbox."""
    notes: Sequence[ToolboxProblem] = getattr(toolbox, "notes", ())
    return notes


def content_of(toolbox: Toolbox) -> str:
    """The digest of the files that a toolbox is made of, so that an edit which no description tells is another version;
    empty for a kind that tells none."""
    content: str = getattr(toolbox, "content", "")
    return content


def unavailable_of(toolbox: Toolbox) -> str:
    """Why a toolbox is in state error and has no tools; empty when it is not."""
    unavailable: str = getattr(toolbox, "unavailable", "")
    return unavailable

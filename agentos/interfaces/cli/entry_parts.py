"""Parts of entries as an interface needs them: a component that changed, a private value, the arguments of a call."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from agentos.components import CallConfig, Component
from agentos.events.entry import ERASED, Entry
from agentos.interfaces.cli.entries import body_text
from agentos.kernel import Kernel

C = TypeVar("C", bound=Component)


def change(entry: Entry, entity: int, type_: type[C]) -> C | None:
    """The component that the entry gives to an entity of its log (0 the conversation), if it does."""
    for changed, component in entry.changes:
        if changed == entity and isinstance(component, type_):
            return component
    return None


def private(entry: Entry, name: str) -> str:
    """The first private value of this name, as text; empty when there is none."""
    return next((body_text(value) for one, value in entry.private if one == name), "")


def first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


async def arguments_of(kernel: Kernel, log: str, config: CallConfig) -> Any:
    """The arguments of a call as they were asked for: an object, or the text that was none."""
    seq, i = config.arguments
    for entry in await kernel.history(log, seq - 1, seq):
        if entry.seq == seq and i < len(entry.private):
            return entry.private[i][1]
    return ERASED


def as_json(value: Any) -> str:
    """A private value as one line of JSON, also when it is a text."""
    return "(erased)" if value is ERASED else json.dumps(value, ensure_ascii=False, default=str)

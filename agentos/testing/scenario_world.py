"""Pictures of a World, before a kernel goes and after another one comes: the same, component by component."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from agentos.events.entry import Registry
from agentos.ids import Kind, LogId
from agentos.journal import load_log
from agentos.persistence.base import Store
from agentos.world import Slice, World

Picture = dict[str, dict[str, Any]]
"""By entity the components by name, as plain JSON; a conversation also has its transcript and the bodies at hand."""

KINDS = (Kind.AGENT, Kind.TOOLBOX, Kind.CONVERSATION, Kind.TURN, Kind.CALL)


def picture_of(world: World) -> Picture:
    """Everything that is in a World now."""
    seen: Picture = {
        entity: {name: _plain(value) for name, value in world.components(entity).items()}
        for kind in KINDS
        for entity in world.entities(kind)
    }
    for slice_ in world.slices():
        if slice_.rows:
            seen.setdefault(slice_.log, {}).update(_told(slice_))
    return seen


async def picture_of_store(store: Store, registry: Registry, logs: Iterable[str]) -> Picture:
    """What a kernel takes into its World when it loads these logs."""
    world = World()
    for log in logs:
        world.take((await load_log(store, LogId(log), registry)).slice)
    return picture_of(world)


def logs_in(picture: Picture) -> list[str]:
    return [entity for entity in picture if entity.startswith(f"{Kind.CONVERSATION.value}_")]


def without(picture: Picture, logs: Iterable[str]) -> Picture:
    """What is left when these conversations go, with their turns and calls."""
    gone = {log.partition("_")[2] for log in logs}
    return {entity: row for entity, row in picture.items() if entity.split("_")[1] not in gone}


def differences(before: Picture, after: Picture) -> list[str]:
    """What is not the same, one line for each component."""
    return [
        f"{entity}, {name}: before {before.get(entity, {}).get(name)}, after {after.get(entity, {}).get(name)}"
        for entity in sorted(before.keys() | after.keys())
        for name in sorted(before.get(entity, {}).keys() | after.get(entity, {}).keys())
        if before.get(entity, {}).get(name) != after.get(entity, {}).get(name)
    ]


def at_work(picture: Picture) -> str:
    """In words: the tools of the calls that have started and not ended, delegations left out."""
    states = {entity: row.get("call_state", {}) for entity, row in picture.items()}
    started = [entity for entity, state in states.items() if state.get("status") == "started" and "child" not in state]
    tools = [picture[entity]["call_config"]["tool"] for entity in started if states[entity].get("waiting") != "doubt"]
    return f"while {', '.join(tools)} ran" if tools else "while no tool ran"


def size_of(picture: Picture) -> str:
    return f"{sum(map(len, picture.values()))} components of {len(picture)} entities"


def _told(slice_: Slice) -> dict[str, Any]:
    """Derived from the entries like the components, and as much a part of what is known now."""
    return {
        "transcript": [_plain(message) for message in slice_.transcript.messages],
        "bodies": {f"{seq}.{i}": _plain(body) for (seq, i), body in sorted(slice_.bodies.items())},
    }


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=repr))

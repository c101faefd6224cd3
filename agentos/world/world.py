"""The World: entities and components, the truth of now.

esper holds the component stores; this module alone touches it. Each World has a private copy of the esper module, since
esper's own world is global to a module. Replacing a value writes into esper's row in place: its query caches, which we
never read, would otherwise be flushed at every step of every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Protocol, TypeVar

from agentos.components import CallConfig, CallState, Component, ConversationConfig, Phase, TurnState
from agentos.ids import CONVERSATION, ConversationId, Kind, LogId
from agentos.world.transcript import Transcript, empty

C = TypeVar("C", bound=Component)


def _private_esper() -> ModuleType:
    spec = find_spec("esper")
    assert spec is not None and spec.loader is not None, "esper is a dependency of this package"
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Slice:
    """The part of the World that one log tells: the conversation, its turns and calls, its transcript and bodies.

    rows maps an entity of the log (0 the conversation, else the seq of a turn or call) to its components by type; a row
    is esper's own where the slice is part of a World. bodies holds the private values that open work still reads, by
    (seq, i).
    """

    __slots__ = ("bodies", "log", "numbers", "rows", "suffix", "transcript")

    def __init__(self, log: LogId) -> None:
        self.log = log
        self.suffix = log.partition("_")[2]
        self.rows: dict[int, dict[type[Component], Any]] = {}
        self.numbers: dict[int, int] = {}
        self.transcript: Transcript = empty()
        self.bodies: dict[tuple[int, int], Any] = {}

    def get(self, entity: int, type_: type[C]) -> C | None:
        return self.rows.get(entity, _NO_ROW).get(type_)


_NO_ROW: dict[type[Component], Any] = {}


class Rows(Protocol):
    """Where the rows of slices are changed: a World, or apart from any."""

    def put_rows(self, slice_: Slice, touched: Mapping[int, Mapping[type[Component], Any]]) -> None: ...
    def drop(self, slice_: Slice, entity: int) -> None: ...


class _Apart:
    """For slices that are in no World. A fold is made apart, and `World.take` has it once all of it is known to be sound."""

    def put_rows(self, slice_: Slice, touched: Mapping[int, Mapping[type[Component], Any]]) -> None:
        for entity, components in touched.items():
            slice_.rows.setdefault(entity, {}).update(components)

    def drop(self, slice_: Slice, entity: int) -> None:
        slice_.rows.pop(entity, None)


APART = _Apart()


class World:
    """Entities by id and components by type. Synchronous; changed by the journal and by live resources alone."""

    def __init__(self) -> None:
        self._esper = _private_esper()
        self._slices: dict[LogId, Slice] = {}
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._kinds: dict[str, set[str]] = {kind.value: set() for kind in Kind}
        self._children: dict[ConversationId, set[ConversationId]] = {}
        self._phases: dict[Phase, set[LogId]] = {}
        self.stale: Callable[[], None] | None = None
        """Brings live components up to date, once, before anything is read; None when they are. What they tell of changes
        far more often than anybody looks."""

    def get(self, entity: str, type_: type[C]) -> C | None:
        """The component of this type, or None."""
        if self.stale is not None:
            self._freshen()
        number = self._numbers.get(entity)
        return self._esper.try_component(number, type_) if number is not None else None

    def set(self, entity: str, component: Component) -> None:
        """Attaches or replaces a component of an agent, toolbox, program or resource; logs' entities change by entries."""
        number = self._numbers.get(entity)
        self._esper.add_component(self._create(entity) if number is None else number, component)

    def unset(self, entity: str, type_: type[Component]) -> None:
        """Takes a component off such an entity, if it has one."""
        number = self._numbers.get(entity)
        if number is not None and self._esper.has_component(number, type_):
            self._esper.remove_component(number, type_)

    def delete(self, entity: str) -> None:
        number = self._numbers.get(entity)
        if number is not None:
            self._delete(number)

    def find(self, type_: type[C], **where: object) -> list[tuple[str, C]]:
        """Every loaded entity with such a component whose fields have these values; an Enum also matches by its value.

        >>> world.find(CallState, status="failed")
        """
        if self.stale is not None:
            self._freshen()
        rows = self._esper._entities
        found = ((number, rows[number][type_]) for number in self._esper._components.get(type_, ()))
        return sorted(
            (
                (self._ids[number], value)
                for number, value in found
                if all(_matches(getattr(value, name), wanted) for name, wanted in where.items())
            ),
            key=lambda pair: pair[0],
        )

    def entities(self, kind: Kind) -> list[str]:
        """The ids of all loaded entities of a kind, sorted."""
        if self.stale is not None:
            self._freshen()
        return sorted(self._kinds[kind.value])

    def components(self, entity: str) -> dict[str, Component]:
        """All components of an entity by their names; empty when it is not loaded."""
        if self.stale is not None:
            self._freshen()
        number = self._numbers.get(entity)
        if number is None:
            return {}
        return {value.component: value for value in self._esper.components_for_entity(number)}

    def children(self, conversation: ConversationId) -> list[ConversationId]:
        """The loaded conversations that calls of this one started, sorted."""
        return sorted(self._children.get(conversation, ()))

    def in_phase(self, phase: Phase) -> list[LogId]:
        """The loaded conversations whose open turn is in this phase, sorted."""
        return sorted(self._phases.get(phase, ()))

    def slice(self, log: LogId) -> Slice | None:
        """The loaded part of a log, or None when it is not in memory."""
        return self._slices.get(log)

    def slices(self) -> Iterator[Slice]:
        return iter(self._slices.values())

    def load(self, log: LogId) -> Slice:
        """An empty slice to fold a log into. Raises ValueError when the log is loaded."""
        if log in self._slices:
            raise ValueError(f"{log} is loaded already")
        slice_ = self._slices[log] = Slice(log)
        return slice_

    def take(self, apart: Slice) -> Slice:
        """A slice that was folded apart, as a part of this World. Raises ValueError when its log is loaded."""
        slice_ = self.load(apart.log)
        slice_.transcript, slice_.bodies = apart.transcript, apart.bodies
        self.put_rows(slice_, apart.rows)
        return slice_

    def unload(self, log: LogId) -> None:
        """Forgets everything of a log; the store has it."""
        slice_ = self._slices.pop(log, None)
        if slice_ is None:
            return
        self._adopt(log, slice_.get(CONVERSATION, ConversationConfig), None)
        for entity in tuple(slice_.rows):
            self.drop(slice_, entity)

    def put_rows(self, slice_: Slice, touched: Mapping[int, Mapping[type[Component], Any]]) -> None:
        """New components of entities of a loaded log."""
        rows = slice_.rows
        for entity, components in touched.items():
            if entity not in rows:
                self._create_row(slice_, entity, components)
                continue
            row = rows[entity]
            if TurnState in components:
                self._move(slice_.log, row.get(TurnState), components[TurnState])
            elif ConversationConfig in components:
                self._adopt(slice_.log, row.get(ConversationConfig), components[ConversationConfig])
            for type_, component in components.items():
                if type_ in row:
                    row[type_] = component
                else:
                    self._esper.add_component(slice_.numbers[entity], component)

    def drop(self, slice_: Slice, entity: int) -> None:
        """Forgets an entity of a loaded log."""
        row = slice_.rows.pop(entity, None)
        if row is None:
            return
        if TurnState in row:
            phase = row[TurnState].phase
            if not any(TurnState in other and other[TurnState].phase is phase for other in slice_.rows.values()):
                self._phases[phase].discard(slice_.log)  # else a newer turn has come as far within the same unit
        self._delete(slice_.numbers.pop(entity))

    def _freshen(self) -> None:
        freshen, self.stale = self.stale, None
        if freshen is not None:
            freshen()

    def _create(self, entity: str, *components: Component) -> int:
        number: int = self._esper.create_entity(*components)
        self._numbers[entity] = number
        self._ids[number] = entity
        self._kinds[entity[: entity.index("_")]].add(entity)
        return number

    def _delete(self, number: int) -> None:
        entity = self._ids.pop(number)
        del self._numbers[entity]
        self._kinds[entity[: entity.index("_")]].discard(entity)
        self._esper.delete_entity(number, immediate=True)

    def _create_row(self, slice_: Slice, entity: int, components: Mapping[type[Component], Any]) -> None:
        if entity == CONVERSATION:
            id_: str = slice_.log
            if ConversationConfig in components:
                self._adopt(slice_.log, None, components[ConversationConfig])
        elif CallConfig in components or CallState in components:
            id_ = f"call_{slice_.suffix}_{entity}"
        else:
            id_ = f"turn_{slice_.suffix}_{entity}"
            if TurnState in components:
                self._move(slice_.log, None, components[TurnState])
        number = slice_.numbers[entity] = self._create(id_, *components.values())
        slice_.rows[entity] = self._esper._entities[number]

    def _adopt(self, log: LogId, before: ConversationConfig | None, after: ConversationConfig | None) -> None:
        """A conversation comes, goes, or is cut off from its parent by a fork."""
        child = ConversationId(log)
        if before is not None and before.parent is not None:
            left = self._children[before.parent]
            left.discard(child)
            if not left:
                del self._children[before.parent]
        if after is not None and after.parent is not None:
            self._children.setdefault(after.parent, set()).add(child)

    def _move(self, log: LogId, before: TurnState | None, after: TurnState) -> None:
        if before is not None:
            if before.phase is after.phase:
                return
            self._phases[before.phase].discard(log)
        self._phases.setdefault(after.phase, set()).add(log)


def _matches(value: object, wanted: object) -> bool:
    return value == wanted or (isinstance(value, Enum) and value.value == wanted)

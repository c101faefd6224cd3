"""What a scenario waits for and expects: each key of a step says what was seen, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from agentos.components import CallConfig, CallState, CallStatus
from agentos.events.entry import Entry
from agentos.events.kinds import CallDoubted
from agentos.ids import call_id
from agentos.kernel import Conversation
from agentos.kernel.reading import Reading
from agentos.resources.process.descendants import living_below
from agentos.testing.scenario_life import Life, StepFailed
from agentos.testing.scenario_result import counted
from agentos.testing.scenario_words import Expect, WaitFor

_TOOLS_OF_CALLS = "select status, count(*) from calls join logs using (n) where logs.id = ? group by status"


async def wait_for(life: Life, said: WaitFor) -> list[str]:
    """Waits until all that the step names is so."""
    await life.until(lambda: _lacking(life, said))
    return ["; ".join(_waited(said))]


def _waited(said: WaitFor) -> Iterator[str]:
    """What was waited for, in words."""
    for number, what in ((said.running, "with its tool"), (said.held, "held"), (said.queued, "waiting for room")):
        if number is not None:
            yield f"{counted(number, 'call')} {what}"
    if said.file is not None:
        yield f"the file {said.file} is there"
    if said.parked is not None:
        yield f"{said.parked} waits for a person"
    if said.ended is not None:
        yield f"{said.ended} has no open turn"
    if said.entry is not None:
        yield f"{said.entry} is there" if said.times == 1 else f"{said.entry} is there {said.times} times"


async def _lacking(life: Life, said: WaitFor) -> list[str]:
    counts = {"running": _running(life), "held": life.outside.held, "queued": _queued(life)}
    wanted = {key: getattr(said, key) for key in counts if getattr(said, key) is not None}
    lacking = [f"{key} is {counts[key]}, not {value}" for key, value in wanted.items() if counts[key] != value]
    if said.file is not None and not (life.folder / said.file).exists():
        lacking.append(f"there is no file {said.file}")
    for name, is_so in ((said.parked, _is_parked), (said.ended, _is_idle)):
        if name is not None and not is_so(state := await _state(life, await life.conversation(name))):
            lacking.append(f"{name} is {state}")
    if said.entry is not None:
        entries = await (await life.conversation(said.of)).history()
        found = sum(entry.data.kind == said.entry for entry in entries)
        if found < said.times:
            lacking.append(f"{said.entry} is there {found} times, not {said.times}")
    return lacking


def _running(life: Life) -> int:
    """Calls that are with their tools; a delegation is not."""
    started = life.kernel.world.find(CallState, status=CallStatus.STARTED)
    return sum(state.child is None for _, state in started)


def _queued(life: Life) -> int:
    for_slots = sum(len(room.waiters) for room in life.kernel.slots.statistics())
    return for_slots + sum(len(row.waiters) for row in life.kernel.resources.rows())


def _is_parked(state: str) -> bool:
    return state == "parked"


def _is_idle(state: str) -> bool:
    return state in ("idle", "paused", "closed")


async def _state(life: Life, conversation: Conversation) -> str:
    """As the kernel has it, or as it is stored when it is not loaded."""
    if conversation.state != "unloaded":
        return conversation.state
    rows = (await life.kernel.query("select state from conversations where id = ?", (conversation.id,))).rows
    return str(rows[0][0])


async def expect(life: Life, said: Expect) -> list[str]:
    """Compares every key of the step. Raises StepFailed with all that is wrong."""
    saw: list[str] = []
    wrong: list[str] = []
    for key in type(said).model_fields:
        if key in said.model_fields_set and key in _SEEN:
            text, is_right = await _SEEN[key](life, said)
            (saw if is_right else wrong).append(text)
    if wrong:
        raise StepFailed(wrong, saw)
    return saw


Seen = tuple[str, bool]
"""What is there, with what was expected instead when it is not right."""


def _compared(what: str, found: object, expected: object) -> Seen:
    if found == expected:
        return f"{what}: {_shown(found)}", True
    return f"{what}: {_shown(found)}, expected {_shown(expected)}", False


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number}" for key, number in value.items()) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


async def _conversation(life: Life, said: Expect) -> tuple[str, Conversation]:
    conversation = await life.conversation(said.of)
    return said.of or life.name_of(conversation.id), conversation


async def _last_turn(life: Life, said: Expect) -> tuple[str, str, str]:
    """The name of the conversation, the outcome of its last turn, and what it answered."""
    name, conversation = await _conversation(life, said)
    outcome = await Reading(life.kernel.store).last_outcome(conversation.id)
    return (name, "no turn has ended", "") if outcome is None else (name, str(outcome), outcome.text)


async def _outcome(life: Life, said: Expect) -> Seen:
    name, outcome, _ = await _last_turn(life, said)
    return _compared(f"{name} ended", outcome, said.outcome)


async def _text(life: Life, said: Expect) -> Seen:
    name, _, text = await _last_turn(life, said)
    return _compared(f"{name} answered", repr(text), repr(said.text))


async def _says(life: Life, said: Expect) -> Seen:
    name, _, text = await _last_turn(life, said)
    parts = [said.says] if isinstance(said.says, str) else said.says or []
    missing = [part for part in parts if part not in text]
    return f"{name} answered: {text!r}" + (f", without {', '.join(map(repr, missing))}" if missing else ""), not missing


async def _state_is(life: Life, said: Expect) -> Seen:
    name, conversation = await _conversation(life, said)
    return _compared(f"{name} is", await _state(life, conversation), said.state)


async def _kinds(life: Life, said: Expect) -> Seen:
    name, conversation = await _conversation(life, said)
    found = [entry.data.kind for entry in await conversation.history()]
    return _compared(f"entries of {name}", " ".join(found), " ".join(said.kinds or []))


async def _has(life: Life, said: Expect) -> Seen:
    name, conversation = await _conversation(life, said)
    found = [entry.data.kind for entry in await conversation.history()]
    wanted = said.has or []
    if _stand_in_order(wanted, found):
        return f"{name} has {', '.join(wanted)}", True
    return f"{name} has not {', '.join(wanted)} in this order; it has {', '.join(found)}", False


def _stand_in_order(wanted: Sequence[str], found: Sequence[str]) -> bool:
    left = iter(found)
    return all(kind in left for kind in wanted)


async def _calls(life: Life, said: Expect) -> Seen:
    name, conversation = await _conversation(life, said)
    rows = (await life.kernel.query(_TOOLS_OF_CALLS, (conversation.id,))).rows
    return _compared(f"calls of {name}", dict(sorted(rows)), dict(sorted((said.calls or {}).items())))


async def _doubted(life: Life, said: Expect) -> Seen:
    name, conversation = await _conversation(life, said)
    entries = await conversation.history()
    doubts = [entry.call for entry in entries if isinstance(entry.data, CallDoubted) and not entry.data.probed]
    tools = [_tool_of(entries, call) for call in doubts]
    calls = [f"{tool} ({call_id(conversation.id, call)})" for tool, call in zip(tools, doubts, strict=True)]
    text = f"{counted(len(calls), 'call')} of {name} in doubt after the crash: {', '.join(calls) or '-'}"
    is_right = tools == said.doubted
    return (text if is_right else f"{text}, expected {_shown(said.doubted)}"), is_right


def _tool_of(entries: Sequence[Entry], call: int) -> str:
    configs = (value for entry in entries for entity, value in entry.changes if entity == call)
    return next((value.tool for value in configs if isinstance(value, CallConfig)), "?")


async def _effects(life: Life, said: Expect) -> Seen:
    """Their number or their texts; both ways the texts are shown."""
    texts = [effect.text for effect in life.outside.effects()]
    text = f"the effect file has {counted(len(texts), 'line')}" + (f": {'; '.join(texts)}" if texts else "")
    is_right = said.effects == (texts if isinstance(said.effects, list) else len(texts))
    return (text if is_right else f"{text}, expected {_shown(said.effects)}"), is_right


async def _most_inside(life: Life, said: Expect) -> Seen:
    wanted = said.most_inside or {}
    return _compared("most calls inside at once", {name: life.outside.most_inside[name] for name in wanted}, wanted)


async def _processes(life: Life, said: Expect) -> Seen:
    return _compared("processes below", len(living_below() - life.processes_before), said.processes)


async def _rows(life: Life, said: Expect) -> Seen:
    found = [list(row) for row in (await life.kernel.query(said.sql or "")).rows]
    lines = [" ".join((said.sql or "").split()), *(f"  {_shown(row)}" for row in found)]
    if found == said.rows:
        return "\n".join(lines), True
    return "\n".join([*lines, "expected:", *(f"  {_shown(row)}" for row in said.rows or [])]), False


_SEEN: dict[str, Callable[[Life, Expect], Awaitable[Seen]]] = {
    "outcome": _outcome,
    "text": _text,
    "says": _says,
    "state": _state_is,
    "kinds": _kinds,
    "has": _has,
    "calls": _calls,
    "doubted": _doubted,
    "effects": _effects,
    "most_inside": _most_inside,
    "processes": _processes,
    "rows": _rows,
}

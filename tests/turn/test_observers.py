"""Observers: told of every effect, by ids and words, and never of what was said."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from agentos.interfaces.cli.log_file import log_file
from agentos.ports import EffectSeen
from agentos.toolboxes.python import tool
from tests.support import Mind, call, calls, lab

CANARY = "violet-canary-7351"


class Notebook:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[EffectSeen] = []

    def effect(self, seen: EffectSeen) -> None:
        self.seen.append(seen)


class Broken(Notebook):
    """Fails at the first thing it is told."""

    def effect(self, seen: EffectSeen) -> None:
        super().effect(seen)
        raise RuntimeError("no ink")


async def test_an_observer_is_told_the_begin_and_the_end_of_each_effect_with_its_frames() -> None:
    @tool
    def look(word: str) -> str:
        """Looks a word up."""
        return f"{word} means {CANARY}"

    notebook = Notebook()
    mind = Mind(calls(call("look", word=CANARY)), f"it means {CANARY}")
    async with lab(mind, [look], options={"observers": [notebook]}) as here:
        outcome = await here.ask(f"what is {CANARY}?")

    assert [(one.what, one.phase, one.end) for one in notebook.seen] == [
        ("model", "started", None),
        ("model", "ended", "tool_use"),
        ("call", "started", None),
        ("call", "ended", "done"),
        ("model", "started", None),
        ("model", "ended", "stop"),
    ]
    conversation, turn = outcome.conversation, outcome.turn
    assert notebook.seen[0].path == f"{conversation}/{turn}"
    assert notebook.seen[2].path == f"{conversation}/{turn}/{notebook.seen[2].call}"
    assert notebook.seen[2].name == "look"
    assert notebook.seen[1].input_tokens == 10


async def test_what_an_observer_is_told_holds_nothing_private() -> None:
    @tool
    def leak(word: str) -> str:
        """Fails with what it was given."""
        raise ValueError(word)

    notebook = Notebook()
    mind = Mind(calls(call("leak", word=CANARY)), CANARY)
    async with lab(mind, [leak], options={"observers": [notebook]}) as here:
        await here.ask(CANARY)

    told = msgspec.json.encode(notebook.seen).decode()
    assert notebook.seen[3].end == "failed:raised"
    assert CANARY not in told


async def test_the_path_of_a_subagent_goes_through_the_call_that_asked_it() -> None:
    notebook = Notebook()
    mind = Mind(calls(call("ask_helper", task="dig")))
    async with lab(
        mind, others={"helper": (Mind("dug"), {})}, options={"observers": [notebook]}, subagents=["helper"]
    ) as here:
        outcome = await here.ask("go")

    child = next(one for one in notebook.seen if one.conversation != outcome.conversation)
    frames = child.path.split("/")
    assert frames[:2] == [outcome.conversation, outcome.turn]
    assert frames[2].startswith("call_")
    assert frames[3:] == [child.conversation, child.turn]


async def test_an_observer_that_fails_is_told_no_more_and_changes_nothing() -> None:
    broken, notebook = Broken(), Notebook()
    async with lab(Mind("fine"), options={"observers": [broken, notebook]}) as here:
        outcome = await here.ask("go")

    assert outcome.text == "fine"
    assert len(broken.seen) == 1
    assert [one.phase for one in notebook.seen] == ["started", "ended"]


async def test_the_log_file_has_a_line_of_json_for_each_effect(tmp_path: Path) -> None:
    path = tmp_path / "effects.jsonl"
    with log_file(path) as observers:
        async with lab(Mind("fine"), options={"observers": observers}) as here:
            await here.ask("go")

    first, last = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["what"], first["phase"], last["end"]) == ("model", "started", "stop")
    assert first["path"] == last["path"]
    assert path.stat().st_mode & 0o077 == 0

"""Sessions as Markdown: all that agents-exe's own report says of the same file, and what its options ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from agentos.errors import ConfigurationError
from agentos.history.sessions import (
    PrintOptions,
    Session,
    Shown,
    import_session,
    markdown_of,
    read_session,
    session_of_conversation,
)
from agentos.history.sessions.eliding import elided
from agentos.history.sessions.model import ModelTurn, Turn, UserTurn
from agentos.persistence.memory import MemoryStore
from tests.history.session_files import CUT_OFF, DATA, PRINTED, WHOLE, call, llm, partial, session, tool, user

_STEP = re.compile(r"^## Step (\d+): (?:User|LLM) Turn$", re.MULTILINE)


def printed(found: Session, **options: object) -> str:
    return "\n".join(markdown_of(found, PrintOptions(**options)))  # type: ignore[arg-type]


def steps_of(report: str) -> dict[int, list[str]]:
    """The lines of each step, without blank ones and rules."""
    parts = _STEP.split(report)
    return {
        int(number): [line.rstrip() for line in body.splitlines() if line.strip() not in ("", "---")]
        for number, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_there_are_four_reports_to_compare_with() -> None:
    assert PRINTED == ["gh-118.session", "gh-157.session", "gh-75.session", "sqq-ordering.session"]


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("imported", [False, True])
async def test_every_line_of_their_report_stands_in_the_same_step_of_ours(name: str, imported: bool) -> None:
    theirs = steps_of((DATA / f"{name}.md").read_text())
    found = read_session(DATA / f"{name}.json")
    if imported:
        found = await _imported(found)
    ours = steps_of(printed(found))

    assert ours.keys() == theirs.keys()
    for step, lines in theirs.items():
        tools = {line for line in lines if line.startswith(("- **", "  - Description: "))}
        assert list(_in_order(lines, ours[step], tools)) == []
        assert tools <= set(ours[step])


def _in_order(wanted: list[str], found: list[str], any_order: set[str]) -> Iterator[str]:
    """What is not there, or not after what stood before it; lines of tools may stand in any order."""
    rest = iter(found)
    for line in wanted:
        if line not in any_order and line not in rest:
            yield line


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("imported", [False, True])
async def test_with_everything_shown_every_message_and_call_is_printed_in_its_step(name: str, imported: bool) -> None:
    found = read_session(DATA / name)
    shown = await _imported(found) if imported else found
    steps = _whole_steps(printed(shown, results=Shown.SHOWN, arguments=Shown.SHOWN, repeat_prompt=True))

    assert len(steps) == len(found.turns)
    for turn, step in zip(found.turns, steps, strict=True):
        assert [text for text in _texts(turn) if text.rstrip("\n") not in step] == []
        if isinstance(turn, ModelTurn):
            assert _calls(step) == [(one.name, one.arguments) for one in turn.calls]


def test_the_only_session_that_is_no_session_is_refused_with_its_position() -> None:
    with pytest.raises(ConfigurationError, match=rf"{re.escape(CUT_OFF)}:1:17390: .*cut off.*byte 17,389"):
        read_session(DATA / CUT_OFF)


async def _imported(session: Session) -> Session:
    """As it comes back from a store that it was imported into."""
    store = MemoryStore()
    writer = await store.open("importer")
    back = await session_of_conversation(store, (await import_session(store, writer, session)).conversation)
    await store.close()
    return back


def _whole_steps(report: str) -> list[str]:
    return _STEP.split(report)[2::2]


def _calls(step: str) -> list[tuple[str, object]]:
    """The names below the last heading of a step, each with the block of its arguments."""
    _, _, told = step.rpartition("\n### Tool Calls\n")
    found = re.findall(r"^- \*\*([^\n]*)\*\*\n  (`{3,})\n(.*?)^  \2$", told, re.MULTILINE | re.DOTALL)
    return [(name, json.loads(text)) for name, _, text in found]


def _texts(turn: Turn) -> list[str]:
    """All of one turn but for results that are no plain text, which are printed in another form."""
    if isinstance(turn, UserTurn):
        return [turn.prompt, turn.query or "", *(one.text for one in turn.results if one.value is None)]
    return [turn.text or "", turn.thinking or ""]


TALK = session(
    user("first", tools=[tool("look")], prompt="Be brief."),
    llm("I look.", call(arguments='{"place": "attic"}'), responseThinking="where?"),
    user(None, [call(), {"dust": True}], tools=[tool("look")], prompt="Be brief."),
    llm("Dust."),
    forkedFromSessionId="s0",
)


def test_calls_and_results_are_hidden_shown_or_elided() -> None:
    hidden, whole = printed(TALK), printed(TALK, results=Shown.SHOWN, arguments=Shown.SHOWN)

    assert "attic" not in hidden
    assert "dust" not in hidden
    assert "- **look**" in hidden
    assert '    "place": "attic"' in whole
    assert '  "dust": true' in whole
    assert "_(13 bytes)_" not in hidden


def test_an_elided_text_has_its_first_and_last_ten_lines() -> None:
    long = "\n".join(map(str, range(100)))
    report = printed(session(user(None, [call(), long])), results=Shown.ELIDED)

    assert "\n9\n... (80 lines left out) ...\n90\n" in report
    assert "\n10\n" not in report


@pytest.mark.parametrize(("lines", "left_out"), [(0, None), (20, None), (21, "1 line"), (22, "2 lines")])
def test_eliding_leaves_out_what_is_between(lines: int, left_out: str | None) -> None:
    text = "\n".join(map(str, range(lines)))
    short = elided(text)

    assert short == text if left_out is None else f"({left_out} left out)" in short
    assert len(elided("x" * 10_000)) < 3_000


def test_the_prompt_and_the_tools_stand_once_or_in_every_turn() -> None:
    once, every = printed(TALK), printed(TALK, repeat_prompt=True, repeat_tools=True)
    last = printed(TALK, last_turns=2)

    assert (once.count("### System Prompt"), once.count("### Available Tools")) == (1, 1)
    assert (every.count("### System Prompt"), every.count("### Available Tools")) == (2, 2)
    assert last.count("### System Prompt") == 1


@pytest.mark.parametrize(("count", "steps"), [(None, [1, 2, 3, 4]), (2, [3, 4]), (9, [1, 2, 3, 4]), (0, []), (-1, [])])
def test_only_the_newest_turns_and_in_either_order(count: int | None, steps: list[int]) -> None:
    assert list(steps_of(printed(TALK, last_turns=count))) == steps
    assert list(steps_of(printed(TALK, last_turns=count, newest_first=True))) == steps[::-1]


def test_the_head_tells_the_session_and_counts_it() -> None:
    report = printed(TALK)

    assert "**Session ID:** s1\n**Forked from:** s0\n" in report
    assert "| turns | 4 |\n| user turns | 2 |\n| LLM turns | 2 |\n| tool calls | 1 |" in report
    assert report.startswith("```\n")
    assert printed(TALK, stamp=False).startswith("# Session Report\n")


def test_no_text_closes_the_fence_that_it_stands_in() -> None:
    report = printed(session(user("a", prompt="```\nnot out\n```")))

    assert "\n````\n```\nnot out\n```\n````\n" in report


def test_a_partial_turn_tells_what_is_pending() -> None:
    report = printed(session(partial(completedResponses=[], pendingCalls=[call("wait")])))

    assert "## Step 1: Partial User Turn" in report
    assert "### Pending Calls\n\n- **wait**" in report


def test_a_session_without_turns_is_a_head_alone() -> None:
    assert "| turns | 0 |" in printed(session())

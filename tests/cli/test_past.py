"""show --at, ps --as-of and query --as-of: the past, over a store that they only read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.support import Cli

EXACT = re.compile(r"^as of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z, exact within a writer; (\d+) writers?")


def end_of_first(shared: Cli) -> str:
    """The time of the last entry of the first conversation; the others began later."""
    ((at,),) = shared.rows("select max(at) from entries where n = (select min(n) from conversations)")
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="microseconds")


def asked(shared: Cli, sql: str, *words: str) -> Sequence[dict[str, Any]]:
    rows: Sequence[dict[str, Any]] = shared.read("query", sql, "--json", *words).data["rows"]
    return rows


def test_query_as_of_a_time_sees_what_was_there_and_says_how_exact_it_is(shared: Cli) -> None:
    sql = "select agent, state, turns from conversations"

    found = shared("query", sql, "--as-of", end_of_first(shared))
    data = shared.read("query", sql, "--as-of", end_of_first(shared), "--json").data

    assert found.out.splitlines()[1].split() == ["helper", "idle", "1"]
    assert len(found.out.splitlines()) == 2
    said = EXACT.match(found.err)
    assert said is not None
    assert said[1] == "1"
    assert data["as_of"]["writers"] == 1
    assert data["rows"] == [{"agent": "helper", "state": "idle", "turns": 1}]


def test_query_as_of_now_sees_what_the_store_has(shared: Cli) -> None:
    for table in ("conversations", "turns", "calls", "messages", "history", "tool_calls", "entities"):
        sql = f"select * from {table} order by 1, 2, 3"
        assert asked(shared, sql, "--as-of", "0s ago") == asked(shared, sql), table


def test_query_as_of_a_seq_is_about_one_log_or_root(shared: Cli) -> None:
    lead = shared.id("lead")
    sql = "select conversation, max(seq) as seq from events group by 1"
    ((n,),) = shared.rows(f"select n from logs where id = '{lead}'")
    ends = [row[0] for row in shared.rows(f"select max(seq) from entries where n = {n} group by unit order by 1")]

    whole = shared.read("query", sql, "--as-of", str(ends[0]), "--log", lead, "--json")
    within = shared.read("query", sql, "--as-of", str(ends[1] - 1), "--log", lead[-8:], "--json")
    below = asked(shared, sql, "--as-of", str(ends[-1]), "--root", lead)

    assert whole.data["rows"] == within.data["rows"] == [{"conversation": lead, "seq": ends[0]}]
    assert f"seq {ends[1] - 1} lies within a unit, which counts whole" in within.err
    assert "lies within" not in whole.err
    assert len(below) == 2


def test_query_as_of_can_be_narrowed_to_an_agent(shared: Cli) -> None:
    assert asked(shared, "select agent from conversations", "--as-of", "0s ago", "--agent", "lead") == [
        {"agent": "lead"}
    ]


def test_a_time_without_a_zone_is_taken_for_utc_and_told(shared: Cli) -> None:
    at = end_of_first(shared).removesuffix("+00:00")

    found = shared.read("query", "select count(*) as n from conversations", "--as-of", at)

    assert found.out.split() == ["n", "1"]
    assert f"{at} names no zone; it is taken for UTC" in found.err


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--as-of", "12"], 3, "of which log"),
        (["--as-of", "yesterday"], 2, "is no seq and no time"),
        (["--as-of", "2999-01-01T00:00:00Z"], 2, "has not come yet"),
        (["--as-of", "1d ago", "--root", "a", "--log", "b"], 2, "name one of --root and --log"),
        (["--as-of", "1d ago", "--log", "nobody-has-this"], 3, "nobody-has-this"),
        (["--agent", "lead"], 2, "--agent goes with --as-of"),
        (["--as-of", "0s ago", "--entries-max", "3"], 1, "more than 3 entries (entries_max)"),
    ],
)
def test_what_makes_no_sense_is_refused(shared: Cli, words: list[str], code: int, why: str) -> None:
    refused = shared.read("query", "select 1", *words, code=code)

    assert why in refused.err
    assert refused.out == ""


def test_a_query_of_the_past_writes_nothing(shared: Cli) -> None:
    refused = shared.read("query", "delete from messages", "--as-of", "0s ago", code=1)

    assert "one statement that only reads" in refused.err


def test_ps_as_of_lists_what_was_there_then(shared: Cli) -> None:
    at = end_of_first(shared)

    shown = shared("ps", "--as-of", at)
    data = shared.read("ps", "--as-of", at, "--json").data

    assert [line.split()[1:4] for line in shown.out.splitlines()[1:]] == [["helper", "idle", "0"]]
    assert EXACT.match(shown.err)
    (row,) = data["conversations"]
    assert row["age_s"] == pytest.approx((data["as_of_us"] - row["started_at_us"]) / 1e6, abs=0.001)
    assert shared.read("ps", "--as-of", "0s ago", "--json").data["conversations"][0]["agent"] == "lead"
    assert "name a time" in shared.read("ps", "--as-of", "12", code=2).err


def test_show_at_is_the_conversation_as_it_stood(shared: Cli) -> None:
    lead = shared.id("lead")
    ((started,),) = shared.rows(f"select seq from events where kind = 'call.started' and conversation = '{lead}'")

    shown = shared("show", lead, "--at", str(started))
    data = shared.read("show", lead, "--at", str(started), "--json").data
    ((end,),) = shared.rows(f"select max(seq) from events where conversation = '{lead}'")
    last = shared.read("show", lead, "--at", str(end), "--json").data

    assert shown.out.splitlines()[0].startswith(f"{lead} after seq {started}, ")
    assert re.search(r"^turn 3 with lead r1: open, phase call, step 0 of at most 50, 1 call$", shown.out, re.MULTILINE)
    assert re.search(r"^    call 6 ask_helper: started, in conversation_", shown.out, re.MULTILINE)
    assert (data["state"], data["turns"], data["turn"]["outcome"]) == ("parked", 0, None)
    assert [message["role"] for message in data["messages"]] == ["user", "assistant"]
    assert data["calls"][0]["child"] == shared.id("helper")
    for part, name in ((data, "at"), (data["turn"], "started_at"), (data["calls"][0], "started_at")):
        assert datetime.fromisoformat(part[name]).timestamp() * 1e6 == pytest.approx(part[f"{name}_us"], abs=1)
    assert data["turn"]["deadline_at"] is data["turn"]["deadline_at_us"] is None
    assert (last["state"], last["turns"], last["turn"]["outcome"]) == ("idle", 1, "completed")


def test_show_at_says_when_a_seq_lies_within_a_unit(shared: Cli) -> None:
    found = shared.read("show", shared.id("lead"), "--at", "2")

    assert "seq 2 lies within a unit, which is stored whole up to 4" in found.err
    assert "input 2, which waited:\n    ask_helper task=" in found.out


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--at", "999"], 3, "has no entry 999; it has 1 to"),
        (["--at", "0"], 2, ""),
        (["3", "--at", "3"], 2, "leave out SEQ and --request"),
        (["--at", "3", "--request"], 2, "leave out SEQ and --request"),
    ],
)
def test_show_at_refuses_what_makes_no_sense(shared: Cli, words: list[str], code: int, why: str) -> None:
    assert why in shared.read("show", shared.id("lead"), *words, code=code).err

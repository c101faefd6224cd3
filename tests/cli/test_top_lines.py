"""What top shows of a kernel: what matters most first, within every size, and harmless on a terminal."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.components import Pattern, Phase
from agentos.ids import ConversationId, Micros, Name, TurnId
from agentos.interfaces.cli.output import width
from agentos.interfaces.cli.top.lines import screen_of
from agentos.interfaces.cli.top.rates import agent_rates, rates_of
from agentos.kernel.top import AgentVitals, Batches, OpenTurn, ProcessVitals, ResourceUse, Top, Work

AT = Micros(1_800_000_000_000_000)
EVIL = "a\x1b]52;c;ZXZpbA==\x07b\r\nc\u202ed"


def turn(n: int, *, doing: tuple[str, ...] = ("read_file",), waits: tuple[str, ...] = ()) -> OpenTurn:
    return OpenTurn(
        conversation=ConversationId(f"conversation_{n:026}"),
        turn=TurnId(f"turn_{n:026}_3"),
        agent=Name("helper"),
        state="running" if doing else "parked",
        phase=Phase.CALL,
        step=1,
        calls=2,
        started_at=Micros(AT - 90_000_000),
        phase_at=Micros(AT - 2_000_000),
        doing=doing,
        waits=waits,
    )


def resource(name: str, held: int, waiting: int, size: int = 4) -> ResourceUse:
    return ResourceUse(kind="slots", name=name, pattern=Pattern.POOL, size=size, held=held, waiting=waiting)


def seen(count: int = 3, /, *, counted_s: float = 10.0, pid: int = 7, **more: object) -> Top:
    top = Top(
        at=AT,
        writer=1,
        store="sqlite:///agents.db",
        up_s=3_700.0,
        conversations={"running": count, "idle": 12},
        turns=tuple(turn(n) for n in range(min(count, 100))),
        turns_open=count,
        effects={"model": 1, "call": 2},
        waits={"slot": 3, "approval": 1},
        ready=0,
        ticks=9,
        agents=(AgentVitals(agent=Name("helper"), running=count, work=Work(calls_finished=20, requests=10)),),
        resources=(resource("idle", 0, 0), resource("busy", 4, 3)),
        process=ProcessVitals(pid=pid, threads=3, memory_bytes=50 * 2**20, files=9, children=1),
        counted_s=counted_s,
        work=Work(turns_finished=5, requests=10, calls_finished=20, calls_failed=1, input_tokens=4_000),
        batches=Batches(appends=40, units=80, took_ms=20.0, longest_ms=3.0),
        lag_ms=0.25,
    )
    return msgspec.structs.replace(top, **more)


def empty() -> Top:
    return seen(counted_s=5.0, agents=(), work=Work(), batches=Batches())


@given(columns=st.integers(1, 200), rows=st.integers(1, 60), turns=st.integers(0, 150), rated=st.booleans())
def test_it_fits_every_terminal(columns: int, rows: int, turns: int, rated: bool) -> None:
    lines = screen_of(empty() if rated else None, seen(turns), columns, rows)

    assert len(lines) <= rows
    assert all(width(line) <= columns for line in lines)


def test_the_smallest_screen_has_what_matters_most() -> None:
    lines = screen_of(empty(), seen(), 20, 5)

    assert [line.split()[0] for line in lines] == ["agentos", "turns", "rates", "outside", "waits"]


def test_a_usual_screen_has_all_of_it() -> None:
    text = "\n".join(screen_of(empty(), seen(), 120, 24))

    for part in (
        "up 1h01m",
        "3 running, 12 idle",
        "1 turns/s, 2 requests/s, 4 calls/s, 0.2 failures/s, tokens/s 800 in 0 out",
        "2 calls, 1 model request",
        "1 for approval, 3 for a slot",
        "busy 4/4 +3 waiting, 1 free",
        "8 batches/s of 2 units, 0.5 ms each, longest 3.0 ms",
        "50 MB, loop late by 0.2 ms, 3 threads, 9 files, 1 child process",
        "conversation  agent",
        "call   2s   1m30",
        "read_file",
    ):
        assert part in text


def test_turns_that_do_not_fit_are_counted() -> None:
    lines = screen_of(empty(), seen(1_000), 100, 24)
    shown = len([line for line in lines if "read_file" in line])

    assert len(lines) == 24
    assert lines[-1] == f"and {1_000 - shown:,} more"
    assert shown > 5


def test_a_tool_that_runs_twice_is_named_once() -> None:
    top = seen(1, turns=(turn(1, doing=("nap", "nap", "read")),))

    assert any(line.endswith("nap x2, read") for line in screen_of(None, top, 200, 40))


def test_a_turn_that_waits_says_for_what() -> None:
    top = seen(1, turns=(turn(1, doing=(), waits=("child", "slot")),))

    assert any(line.endswith("for a subagent, for a slot") for line in screen_of(None, top, 200, 40))


def test_names_from_outside_are_harmless() -> None:
    top = seen(
        1, store=EVIL, conversations={EVIL: 1}, waits={EVIL: 1}, resources=(resource(EVIL, 1, 0),),
        turns=(turn(1, doing=(EVIL,)),), agents=(AgentVitals(agent=Name(EVIL), work=Work()),),
    )  # fmt: skip
    text = "\n".join(screen_of(None, top, 400, 40))

    assert not any(char in text for char in "\x1b\x07\r\u202e")
    assert text.count("\\x1b]52") == 6


@pytest.mark.parametrize("before", [None, seen(pid=8, counted_s=5.0), seen(writer=2, counted_s=5.0), seen()])
def test_there_are_no_rates_without_a_look_at_the_same_kernel_before(before: Top | None) -> None:
    assert rates_of(before, seen()) is None
    assert agent_rates(before, seen()) == {}


def test_rates_of_an_agent_count_from_nothing_when_it_was_not_there() -> None:
    (rates,) = agent_rates(empty(), seen()).values()

    assert (rates.requests, rates.calls) == (2, 4)

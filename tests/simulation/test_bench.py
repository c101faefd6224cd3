"""The benchmarks at small sizes: they do the work that they say, and judge it by their bounds. No time is judged here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentos.persistence.memory import MemoryStore
from agentos.testing.bench import __main__ as bench
from agentos.testing.bench import (
    as_of,
    borrow,
    entries,
    erasing,
    fork_bytes,
    history,
    listing,
    lua,
    opening,
    postgresql,
    rounds,
    search,
    turn_bytes,
    turn_cost,
)
from agentos.testing.bench.figures import Figure, Sample, Samples, result_of, results_of, table
from agentos.testing.bench.recorded import append, append_by, append_by_clients, begin, record
from agentos.testing.bench.turns import LONGER, TINY, Words
from agentos.testing.many_conversations import RARE_EVERY

Measure = Callable[[Path], Awaitable[Samples]]
SMALL: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "memory": (lambda folder: turn_cost.memory(folder, turns=10), ("memory",)),
    "durable": (lambda folder: turn_cost.durable(folder, turns=10), ("durable",)),
    "fan-out": (lambda folder: turn_cost.fan_out(folder, conversations=3, turns=2), ("fan-out",)),
    "flat": (lambda folder: turn_cost.flat(folder, turns=20, window=8), ("flat cpu", "flat bytes")),
    "entries": (lambda folder: entries.entries(folder, conversations=3, turns=1), tuple(entries.FIGURES)),
    "postgresql": (lambda folder: postgresql.postgresql(folder, 3, 1, rounds=2), tuple(postgresql.FIGURES)),
    "listing": (lambda folder: listing.listing(folder, 2 * RARE_EVERY, repeat=2), tuple(listing.FIGURES)),
    "search": (lambda folder: search.search(folder, 8, repeat=2), tuple(search.FIGURES)),
    "opening": (lambda folder: opening.opening(folder, 300, 10, rounds=2), ("opening",)),
    "bytes": (lambda folder: turn_bytes.turn_bytes(folder, turns=20, conversations=2), tuple(turn_bytes.FIGURES)),
    "verify": (lambda folder: history.verify(folder, entries=120, repeat=2), ("verify", "verify:bare")),
    "replay": (lambda folder: history.replay(folder, entries=120, repeat=2), ("replay", "replay:bare")),
    "fork": (lambda folder: fork_bytes.fork_bytes(folder, entries=40, forks=10), tuple(fork_bytes.FIGURES)),
    "as-of": (lambda folder: as_of.as_of(folder, entries=900, early=300, rounds=2), tuple(as_of.FIGURES)),
    "erase": (lambda folder: erasing.erasing(folder, 40, repeat=2), tuple(erasing.FIGURES)),
    "borrow": (lambda folder: borrow.borrow(folder, 20, 50), tuple(borrow.FIGURES)),
    "lua": (lambda folder: lua.lua(folder, workers=1, scripts=2), tuple(lua.FIGURES)),
    "rounds": (lambda folder: rounds.rounds(folder, 2, slow_count=1), tuple(rounds.FIGURES)),
}


@pytest.mark.parametrize("name", bench.BENCHES)
async def test_a_benchmark_gives_a_number_for_each_of_its_figures(tmp_path: Path, name: str) -> None:
    measure, figures = SMALL[name]

    samples = await measure(tmp_path)

    assert set(samples) == set(figures) <= set(bench.FIGURES)
    for figure, taken in samples.items():
        assert taken, figure
        assert all(ours > 0 and (other is None or other > 0) for ours, other in taken), (figure, taken)


async def test_a_look_at_the_past_folds_no_more_than_its_bound_and_not_much_less(tmp_path: Path) -> None:
    samples = await as_of.as_of(tmp_path, entries=900, early=300, rounds=1)
    ((folded, bound),) = samples["as-of entries"]

    assert bound is not None
    assert bound - 10 < folded <= bound


async def test_a_turn_takes_more_of_the_file_the_more_is_said(tmp_path: Path) -> None:
    samples = await turn_bytes.turn_bytes(tmp_path, turns=50, conversations=5)
    bytes_of = {name: taken[0][0] for name, taken in samples.items()}

    assert bytes_of["bytes of heads"] < bytes_of["bytes tiny text"] < bytes_of["bytes 0.9 KB text"]


@pytest.mark.parametrize(("words", "least", "most"), [(TINY, 30, 60), (LONGER, 900, 922)])
def test_texts_are_as_long_as_the_figures_say(words: Words, least: int, most: int) -> None:
    said = words.text + words.note + f"ok:{words.note}" + words.answer

    assert least <= len(said) <= most


async def test_recorded_units_fit_every_new_store_in_every_order_of_batches() -> None:
    recorded = await record(conversations=5, turns=2)
    one, batches, clients = MemoryStore(), MemoryStore(), MemoryStore()
    for store in (one, batches, clients):
        await begin(store, recorded)
    for line in recorded.lines:
        for unit in line:
            await append(one, [unit])
    await append_by(batches, recorded.lines, 2)
    await append_by_clients(clients, recorded.lines)

    heads = [[(row.id, row.seq, row.digest) for row in await store.logs()] for store in (one, batches, clients)]
    assert sorted(heads[0]) == sorted(heads[1]) == sorted(heads[2])
    assert len({line[0].log for line in recorded.lines}) == 5
    assert recorded.units == 5 * (1 + 2 * 4)


async def test_a_unit_that_a_store_leaves_out_does_not_count() -> None:
    recorded = await record(conversations=1, turns=1)
    store = MemoryStore()
    await begin(store, recorded)

    with pytest.raises(AssertionError, match="CONFLICT"):
        await append(store, [recorded.lines[0][1]])


def test_a_figure_is_judged_by_the_median_of_its_ratios() -> None:
    figure = Figure("us", 2)
    result = result_of("x", figure, [(10.0, 10.0), (60.0, 20.0), (50.0, 25.0)])

    assert (result.value, result.ours, result.other, result.missed) == (2.0, 50.0, 20.0, False)
    assert result_of("x", figure, [(10.0, 4.0)]).missed


def test_a_figure_by_itself_is_judged_by_its_median() -> None:
    samples: list[Sample] = [(4.0, None), (6.0, None), (1_000.0, None)]

    assert not result_of("x", Figure("ms", 6), samples).missed
    assert result_of("x", Figure("entries/s", 7, at_least=True), samples).missed
    assert not result_of("x", Figure("entries/s", 5, at_least=True), samples).missed
    assert not result_of("x", Figure("bytes"), samples).missed


def test_the_table_names_bounds_and_verdicts() -> None:
    samples: Samples = {"a": [(3.0, 1.0)], "b": [(7_000.0, None)], "c": [(1.0, None)]}
    figures = {"a": Figure("us", 2), "b": Figure("entries/s", 5_000, at_least=True), "c": Figure("bytes")}
    lines = table(results_of(figures, samples)).splitlines()

    assert lines[1].split() == ["a", "3.00", "3.00-3.00", "<=", "2.00", "missed", "3.00", "1.00", "us"]
    assert lines[2].split() == ["b", "7,000", "7,000-7,000", ">=", "5,000", "ok", "7,000", "entries/s"]
    assert lines[3].split() == ["c", "1.00", "1.00-1.00", "told", "1.00", "bytes"]


@pytest.mark.parametrize(("bound", "code"), [(0.5, 1), (2.0, 0)])
def test_strict_makes_a_missed_bound_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bound: float, code: int
) -> None:
    async def measured(_folder: Path) -> Samples:
        return {"memory": [(1.0, 1.0)]}

    monkeypatch.setitem(bench.BENCHES, "memory", bench.Bench(measured, 2))
    monkeypatch.setitem(bench.FIGURES, "memory", Figure("us", bound))

    assert bench.main(["--strict", "--rounds", "3", "memory"]) == code
    assert bench.main(["--rounds", "1", "memory"]) == 0
    assert f"1 figures, {code} missed" in capsys.readouterr().out

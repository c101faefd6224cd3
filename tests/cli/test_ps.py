"""ps page by page: sorted, narrowed, and told how many more there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.many_conversations import CHILD_EVERY, RARE_AGENT, add_conversations, name_of
from tests.cli.support import Cli

COUNT = 2_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A folder with a store of COUNT conversations."""
    cli = Cli(tmp_path_factory.mktemp("many"))
    asyncio.run(_fill(f"{cli.folder}/.agentos/agentos.db"))
    return cli


async def _fill(path: str) -> None:
    store = SQLiteStore(path)
    await add_conversations(store, await store.open("many"), COUNT)
    await store.close()


def listed(many: Cli, *words: str) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = many.read("ps", "--json", *words).data["conversations"]
    return found


def test_the_last_updated_come_first_and_the_rest_is_counted(many: Cli) -> None:
    shown = many.read("ps")
    found = many.read("ps", "--json").data
    times = [row["updated_at_us"] for row in found["conversations"]]

    assert times == sorted(times, reverse=True)
    assert times[0] == many.rows("select max(updated_at) from conversations")[0][0]
    assert len(shown.out.splitlines()) == 51
    assert found["more"] == COUNT - 50
    assert shown.err == f"1,950 more: --after {found['conversations'][-1]['id'][-8:]}, or a larger --limit\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--sort", "started"],
        ["--state", "parked"],
        ["--state", "closed"],
        ["--agent", "clerk"],
        ["--agent", "clerk", "--sort", "started", "--roots"],
    ],
)
def test_pages_one_after_the_other_are_all_of_it_once(many: Cli, words: list[str]) -> None:
    whole = [row["id"] for row in listed(many, "--limit", "2000", *words)]
    step = max(1, len(whole) // 3)
    pages: list[str] = []
    while page := listed(many, "--limit", str(step), *(["--after", pages[-1]] if pages else []), *words):
        pages += [row["id"] for row in page]

    assert whole
    assert pages == whole
    assert len(set(pages)) == len(pages)


def test_it_is_narrowed_to_roots_and_to_those_below_one(many: Cli) -> None:
    roots = listed(many, "--roots", "--limit", "2000")
    (child,) = listed(many, "--parent", name_of(CHILD_EVERY))

    assert len(roots) == COUNT - COUNT // CHILD_EVERY
    assert {row["parent"] for row in roots} == {None}
    assert child["id"] == name_of(CHILD_EVERY + 1)


def test_narrowing_is_what_the_table_says(many: Cli) -> None:
    for words, where in (
        (["--state", "running"], "state = 'running'"),
        (["--state", "paused", "-a", "reader"], "state = 'paused' and agent = 'reader'"),
        (["-a", RARE_AGENT], f"agent = '{RARE_AGENT}'"),
    ):
        expected = many.rows(f"select id from conversations where {where} order by updated_at desc, n desc")
        assert [(row["id"],) for row in listed(many, "--limit", "2000", *words)] == expected


def test_the_last_started_come_first_when_asked_for(many: Cli) -> None:
    assert [row["id"] for row in listed(many, "--sort", "started", "-n", "3")] == [
        name_of(COUNT - 1 - i) for i in range(3)
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--limit", "0"], 2), (["--sort", "tokens"], 2), (["--after", "nobody-has-this"], 3), (["--parent", "zzzz"], 3)],
)
def test_what_makes_no_sense_is_refused(many: Cli, words: list[str], code: int) -> None:
    assert many.read("ps", *words, code=code).err.startswith("error: ")

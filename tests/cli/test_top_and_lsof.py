"""top and lsof ask a running kernel: one terminal hosts it, another one looks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from agentos.errors import UnknownAgent
from agentos.interfaces.cli.project import init
from agentos.interfaces.cli.running import all_running
from agentos.kernel.control import SocketClient
from tests.cli.person import CTRL_C, at_a_terminal
from tests.cli.support import Cli
from tests.cli.test_up import up

HOLD = '''"""Waits."""
import asyncio
from agentos import tool

@tool(effect="pure")
async def hold() -> str:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()
'''
CONFIGURATION = '\n[toolboxes.doors]\nkind = "python"\npath = "doors.py"\nsharing = "exclusive"\n'
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?25h\x1b[?1049l"


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A project that `agentos up` hosts, with one conversation that has a slot and one that waits for it."""
    cli = Cli(tmp_path_factory.mktemp("hosted"))
    init(cli.folder)
    cli.write("doors.py", HOLD)
    cli.write("agents/keeper.yaml", "slug: keeper\nmodel: direct\ntoolboxes: [doors]\n")
    with (cli.folder / "agentos.toml").open("a") as project:
        project.write(CONFIGURATION)
    with up(cli):
        asyncio.run(_begin(cli))
        cli.until(lambda: len(listed(cli)[0]["waiters"]) == 1)
        yield cli


def url_of(cli: Cli) -> str:
    return f"sqlite:///{cli.folder}/.agentos/agentos.db"


async def _begin(cli: Cli) -> None:
    async with all_running(url_of(cli)) as (kernel,):
        await kernel.send(await _begun(kernel), "hold")
        await until_held(kernel)
        await kernel.send(await _begun(kernel), "hold")


async def until_held(kernel: SocketClient) -> None:
    """Until the first has the slot: of two that are on their way at once either might be."""
    while not any(one.name == "doors" and one.holders for one in await kernel.lsof()):  # noqa: ASYNC110 - it is elsewhere
        await asyncio.sleep(0.05)


async def _begun(kernel: SocketClient) -> str:
    """A conversation, as soon as its agent is installed."""
    while True:
        try:
            return await kernel.begin("keeper")
        except UnknownAgent:
            await asyncio.sleep(0.05)


def listed(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """The slots of `doors` first."""
    found: list[dict[str, Any]] = cli.read("lsof", *words, "--json").data["resources"]
    return sorted(found, key=lambda one: str(one["name"]))


def holder_of(cli: Cli) -> dict[str, Any]:
    holder: dict[str, Any] = listed(cli)[0]["holders"][0]
    return holder


def test_lsof_says_who_has_what_and_who_waits(hosted: Cli) -> None:
    doors = listed(hosted)[0]
    (holder,), (waiter,) = doors["holders"], doors["waiters"]
    first, second = hosted.ids("keeper")
    lines = [line.split() for line in hosted.read("lsof").out.splitlines() if "doors" in line]

    assert (doors["kind"], doors["pattern"], doors["size"], doors["scope"]) == (
        "slots",
        "exclusive",
        1,
        "program/doors",
    )
    assert (holder["agent"], holder["conversation"], waiter["conversation"]) == ("keeper", first, second)
    assert holder["frames"] == [first, holder["turn"], holder["call"]]
    assert holder["for_ms"] >= 0
    assert [(line[1], line[3], line[5], line[6]) for line in lines] == [
        ("doors", "has", "keeper", first[-8:]),
        ("doors", "waits", "keeper", second[-8:]),
    ]


@pytest.mark.parametrize("what", ["conversation", "turn", "call", "end"])
def test_lsof_of_one_says_what_that_has_and_nothing_else(hosted: Cli, what: str) -> None:
    holder = holder_of(hosted)
    named = holder["conversation"][-8:] if what == "end" else holder[what]
    (found,) = listed(hosted, named)

    assert [one["call"] for one in found["holders"]] == [holder["call"]]
    assert found["waiters"] == []


@pytest.mark.parametrize("named", ["doors", "keeper"])
def test_lsof_takes_names_of_toolboxes_and_agents(hosted: Cli, named: str) -> None:
    (found,) = listed(hosted, named)

    assert (len(found["holders"]), len(found["waiters"])) == (1, 1)


def test_lsof_of_who_has_nothing_says_so(hosted: Cli) -> None:
    assert hosted.read("lsof", "helper").err == "helper has nothing, and waits for nothing\n"


@pytest.mark.parametrize(
    ("named", "code", "said"),
    [("dooors", 2, "Did you mean doors"), ("no-such-thing", 3, "nothing named 'no-such-thing' is open")],
)
def test_lsof_of_what_there_is_not_is_an_error(hosted: Cli, named: str, code: int, said: str) -> None:
    assert said in hosted.read("lsof", named, code=code).err


@pytest.mark.parametrize("word", ["lsof", "top"])
def test_without_a_kernel_there_is_nothing_to_look_at(shared: Cli, word: str) -> None:
    assert "'agentos up' begins one" in shared.read(word, code=1).err


@pytest.mark.parametrize("word", ["lsof", "top"])
def test_a_kernel_that_was_stopped_is_not_said_to_be_none(project: Cli, word: str) -> None:
    """Who looks at night has to know that it is there, and hangs."""
    with up(project) as running:
        os.kill(running.pid, signal.SIGSTOP)
        try:
            said = project.read(word, code=1).err
        finally:
            os.kill(running.pid, signal.SIGCONT)

    assert f"the kernel of process {running.pid} cannot be asked" in said
    assert "no kernel over this store answers" in said
    assert "begins one" not in said


def test_top_is_printed_once_where_nobody_can_watch(hosted: Cli) -> None:
    out = hosted.read("top", "--every", "0.1").out

    assert "2 running" in out
    assert "1 for a slot" in out
    assert "doors 1/1 +1 waiting" in out
    assert "\x1b" not in out


def test_top_as_objects_goes_on_line_by_line(hosted: Cli) -> None:
    with hosted.start("top", "--json", "--every", "0.1") as running:
        assert running.stdout is not None
        seen = [json.loads(running.stdout.readline()) for _ in range(3)]
        running.send_signal(signal.SIGINT)
        running.communicate()
    (once,) = [hosted.read("top", "--json", "--once", "--every", "0.1").data]

    assert [one["conversations"]["running"] for one in (*seen, once)] == [2] * 4
    assert seen[0]["counted_s"] < seen[1]["counted_s"] < seen[2]["counted_s"]
    assert set(once["rates"]) >= {"turns", "requests", "calls", "input_tokens", "appends"}
    assert once["work"]["requests"] == 0


def test_top_of_a_kernel_that_does_not_run_is_refused(hosted: Cli) -> None:
    assert "no kernel 77 runs over this store; there is 1" in hosted.read("top", "--writer", "77", code=2).err


@pytest.mark.parametrize("key", ["q", CTRL_C])
def test_top_takes_the_whole_terminal_and_gives_it_back(hosted: Cli, key: str) -> None:
    with at_a_terminal(hosted, "top", "--every", "0.1") as person:
        person.sees("1 for a slot")
        person.sees("agentos")  # drawn again
        person.types(key)
        code = person.leaves()

    assert code == 0
    assert person.raw.count(ENTERED) == person.raw.count(LEFT) == 1
    assert person.raw.index(ENTERED) < person.raw.index("1 for a slot") < person.raw.index(LEFT)


def test_top_follows_the_size_of_the_terminal(hosted: Cli) -> None:
    with at_a_terminal(hosted, "top", "--every", "60", env={"COLUMNS": "", "LINES": ""}, size=(24, 100)) as person:
        person.sees("doors 1/1")
        person.resizes(5, 20)
        person.sees("…")
        drawn = person.raw.rpartition("\x1b[H")[2].partition("\x1b[J")[0]
        person.types("q")
        person.leaves()

    assert len(drawn.split("\r\n")) <= 5


def test_the_end_of_the_kernel_ends_top_and_the_terminal_comes_back(project: Cli) -> None:
    with up(project) as host, at_a_terminal(project, "top", "--every", "0.1") as person:
        person.sees("none")
        host.kill()
        code = person.leaves()

    assert code == 1
    assert person.raw.index(LEFT) < person.raw.index("error:")

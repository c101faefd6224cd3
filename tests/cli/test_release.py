"""release, renice and tenants from another terminal: one hosts, the other one commands and looks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest

from agentos.errors import UnknownAgent
from agentos.interfaces.cli.project import init
from agentos.interfaces.cli.running import all_running
from agentos.kernel import RunOutcome
from agentos.kernel.control import SocketClient
from tests.cli.support import ROOT, Cli
from tests.cli.test_top_and_lsof import HOLD, listed, until_held, url_of
from tests.cli.test_up import up

SERVER = ROOT / "tests" / "toolboxes" / "rpc_server.py"
DESK = f"{{name: desk, kind: jsonrpc, command: ['{sys.executable}', '{SERVER}']}}"
KEEPER = "slug: keeper\nmodel: direct\ntoolboxes: [doors]\n"
DOORS = '\n[toolboxes.doors]\nkind = "python"\npath = "doors.py"\nsharing = "exclusive"\n'


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A project that `agentos up` hosts. A conversation holds the door, and that of a tenant waits for it."""
    cli = Cli(tmp_path_factory.mktemp("hosted"))
    init(cli.folder)
    cli.write("doors.py", HOLD)
    cli.write("agents/keeper.yaml", KEEPER)
    cli.write("agents/caller.yaml", f"slug: caller\nmodel: direct\ntoolboxes: [{DESK}]\n")
    with (cli.folder / "agentos.toml").open("a") as project:
        project.write(DOORS)
    with up(cli):
        asyncio.run(_begin(cli))
        cli.until(lambda: len(listed(cli, "doors")[0]["waiters"]) == 1)
        yield cli


async def _begin(cli: Cli) -> None:
    async with all_running(url_of(cli)) as (kernel,):
        await kernel.send(await _begun(kernel, "keeper"), "hold")
        await until_held(kernel)
        await kernel.send(await _begun(kernel, "keeper", "acme"), "hold")


async def _begun(kernel: SocketClient, agent: str, tenant: str | None = None) -> str:
    """A conversation, as soon as its agent is installed."""
    while True:
        try:
            return await kernel.begin(agent, tenant=tenant)
        except UnknownAgent:
            await asyncio.sleep(0.05)


def asked(cli: Cli, *texts: str) -> list[RunOutcome]:
    """What the running kernel answers, in one conversation of the caller."""

    async def ask() -> list[RunOutcome]:
        async with all_running(url_of(cli)) as (kernel,):
            id_ = await _begun(kernel, "caller")
            return [await kernel.ask(id_, text) for text in texts]

    return asyncio.run(ask())


def test_a_new_weight_is_in_force_in_the_kernel_that_runs_and_shown_where_somebody_waits_by_it(hosted: Cli) -> None:
    before = hosted.read("lsof", "doors").out
    hosted("renice", "keeper", "0.5")
    said = hosted("renice", "acme", "4", "--tenant")
    top = hosted.read("top", "--every", "0.1").out
    after = hosted.read("lsof", "doors").out
    (waiter,) = listed(hosted, "doors")[0]["waiters"]

    assert "weight" not in before
    assert said.out.split() == ["agent", "keeper", "0.5", "tenant", "acme", "4"]
    assert "keeper 0.5, tenant acme 4" in top
    assert "0.5, tenant 4" in after
    assert (waiter["tenant"], waiter["weight"], waiter["tenant_weight"]) == ("acme", 0.5, 4.0)


def test_a_wrong_weight_and_an_unknown_agent_are_refused_by_the_kernel_that_runs(hosted: Cli) -> None:
    wrong = hosted.read("renice", "keeper", "0", code=2)
    nobody = hosted.read("renice", "nobody", "2", code=3)

    assert "weight 0 of keeper: it lies between 0.001 and 1000" in wrong.err
    assert "nobody" in nobody.err
    assert "nobody" not in hosted.read("renice", "--json").data["agents"]


def test_a_tenant_is_told_by_ps_top_and_show_and_of_those_without_there_is_no_column(hosted: Cli) -> None:
    (row,) = hosted.read("ps", "--tenant", "acme", "--json").data["conversations"]
    heads = [hosted.read("ps", *words).out.splitlines()[0] for words in ((), ("--tenant", "acme"), ("-a", "helper"))]
    top = hosted.read("top", "--every", "0.1").out

    assert (row["agent"], row["tenant"]) == ("keeper", "acme")
    assert ["tenant" in head.split() for head in heads] == [True, True, False]
    assert any(line.split()[:3] == [row["id"][-8:], "keeper", "acme"] for line in top.splitlines())
    assert hosted.read("show", row["id"]).out.splitlines()[0] == f"{row['id']}  tenant acme"
    assert "keeper (tenant acme): running" in hosted.read("show", row["id"], "--at", "4").out


def test_a_process_that_gave_up_is_begun_anew_by_the_release_of_its_toolbox(hosted: Cli) -> None:
    asked(hosted, *["vanish"] * 4)
    (refused,) = asked(hosted, "add a=1 b=2")
    said = hosted.read("release", "caller/desk", "--json")
    (answer,) = asked(hosted, "add a=1 b=2")

    assert "'agentos release caller/desk' has it started again" in refused.text
    assert [one["released"] for one in said.data["kernels"]] == [1]
    assert "gave back 1 thing" in said.err
    assert answer.text == "add a=1 b=2: 3"


@pytest.mark.parametrize("name", ["program", "helper", "doors", "conversation"])
def test_who_was_lent_nothing_gives_nothing_back_and_is_told_so(hosted: Cli, name: str) -> None:
    named = hosted.ids("keeper")[0][-8:] if name == "conversation" else name
    said = hosted.read("release", named, "--json")

    assert [one["released"] for one in said.data["kernels"]] == [0]
    assert "nothing was lent to it" in said.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dooors", "Did you mean doors?"),
        ("helpr", "Did you mean helper?"),  # which was never lent anything
        ("no-such-thing", "'agentos lsof' lists what is lent"),
    ],
)
def test_what_there_is_not_is_an_error_with_what_there_is(hosted: Cli, name: str, said: str) -> None:
    err = hosted.read("release", name, code=2).err

    assert f"{name!r} is no agent, toolbox or conversation here" in err
    assert said in err


def test_without_a_kernel_there_is_nothing_to_give_back(shared: Cli) -> None:
    assert "'agentos up' begins one" in shared.read("release", "helper", code=1).err


@pytest.mark.parametrize("words", [["run"], ["chat"]])
def test_a_tenant_is_given_where_a_conversation_begins_and_nowhere_else(shared: Cli, words: list[str]) -> None:
    id_ = shared.ids()[0]

    assert "leave out --tenant" in shared.read(*words, id_, "--tenant", "acme", code=2).err


def test_run_and_chat_begin_conversations_on_the_account_of_a_tenant(project: Cli) -> None:
    project("run", "-p", "help", "--tenant", "acme")
    project("chat", "--tenant", "globex", stdin="help\n/new\nhelp\n")
    refused = project("run", "-p", "help", "--tenant", "two words", code=2)
    tenants = project.rows("select tenant from logs where kind = 'conversation' order by n")
    project("chat", "--continue", stdin="help\n/new\nhelp\n")
    later = project.rows("select tenant from logs where kind = 'conversation' order by n")

    assert tenants == [("acme",), ("globex",), ("globex",)]
    assert later == [*tenants, ("globex",)]
    assert "tenant 'two words' is no name" in refused.err

"""`agentos replay --with-model` as people call it: a real process, a server of this machine for a model, a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.person import CTRL_C, at_a_terminal
from tests.cli.support import Cli
from tests.cli.test_real_agents import chat_server

KEEPER = """
slug: keeper
model: {kind: openai, name: small, options: {api_key: "key:openai"}}
toolboxes: [words]
"""
WORDS = '''from agentos import tool


@tool(effect="pure")
async def count(text: str) -> str:
    """Counts words."""
    return f"{len(text.split())} words"


@tool
async def keep(text: str) -> str:
    """Keeps a text."""
    with open("kept", "a") as file:
        file.write(text + "\\n")
    return "kept"
'''
MONDAY = """
- when: {last_role: tool}
  text: "So: {results}"
- calls: [{tool: keep, arguments: {text: one}}]
"""
TUESDAY = """
- when: {last_role: tool}
  text: "Well: {results}"
- calls:
    - {tool: keep, arguments: {text: one}}
    - {tool: keep, arguments: {text: two}}
    - {tool: count, arguments: {text: a b c}}
"""


@pytest.fixture
def recorded(cli: Cli) -> Cli:
    """A project whose keeper has kept `one`, as a server had it do on Monday; the server of Tuesday says more."""
    cli.write(
        "agentos.toml", '[agents]\ndirectories = ["agents"]\n\n[toolboxes.words]\nkind = "python"\npath = "words.py"\n'
    )
    cli.write("agents/keeper.yaml", KEEPER)
    cli.write("words.py", WORDS)
    cli.write("keys.json", '{"keys": [{"id": "openai", "value": "canary-6612"}]}')
    cli.write("chat.yaml", MONDAY)
    with chat_server(cli.folder, "--key-env", "FAKE_KEY") as url:
        cli("run", *given(url), "-p", "keep it")
    cli.write("chat.yaml", TUESDAY)
    return cli


@pytest.fixture
def tuesday(recorded: Cli) -> Iterator[str]:
    with chat_server(recorded.folder, "--key-env", "FAKE_KEY") as url:
        yield url


def given(url: str) -> tuple[str, ...]:
    return ("--base-url", url, "--api-keys", "keys.json")


def kept(cli: Cli) -> list[str]:
    return (cli.folder / "kept").read_text().split()


def test_without_tools_nothing_runs_and_what_differs_is_shown(recorded: Cli, tuesday: str) -> None:
    talk = recorded.id("keeper")
    heads = recorded("verify", talk, "--json").data
    ran = recorded("replay", talk, "--with-model", *given(tuesday), code=1)
    fork = recorded.id("keeper")
    replayed = recorded("replay", fork).out

    assert kept(recorded) == ["one"]
    assert f"{fork} begins with {talk} up to seq 4" in ran.err
    assert "given from the record, as" in ran.out
    assert "1 turn run anew; calls: 1 given from the record, 2 denied; it cost" in ran.out
    assert "keep with these arguments is not in the record; --with-tools runs it" in recorded("show", fork).out
    assert recorded("verify", talk, "--json").data == heads
    assert replayed.startswith("identical")
    assert recorded("verify").out.startswith("ok")


@pytest.mark.parametrize(
    ("words", "now_kept", "counts"),
    [
        (("--with-tools",), ["one"], {"recorded": 1, "denied": 1, "run": 1}),
        (("--with-tools", "--yes"), ["one", "two"], {"recorded": 1, "run": 2}),
    ],
)
def test_with_tools_a_call_that_is_not_pure_needs_somebody_who_allows_it(
    recorded: Cli, tuesday: str, words: tuple[str, ...], now_kept: list[str], counts: dict[str, int]
) -> None:
    talk = recorded.id("keeper")
    told = recorded("replay", talk, "--with-model", *words, *given(tuesday), "--json", code=1).data
    words_said = [call["what"] for call in told["calls"]]

    assert kept(recorded) == now_kept
    assert {word: words_said.count(word) for word in dict.fromkeys(words_said)} == counts
    assert "3 words" in told["diff"]["b"]["answer"]
    assert (told["conversation"], told["recorded_left"], told["open"]) == (talk, 0, False)


@pytest.mark.parametrize(("answer", "now_kept"), [("y", ["one", "two"]), ("n", ["one"])])
def test_at_a_terminal_a_person_is_asked_about_each(
    recorded: Cli, tuesday: str, answer: str, now_kept: list[str]
) -> None:
    words = ("replay", recorded.id("keeper"), "--with-model", "--with-tools", *given(tuesday))
    with at_a_terminal(recorded, *words) as person:
        person.sees("wants to run keep, which is not in the record")
        person.sees("allow keep? [y/n]")
        person.says("what")
        person.sees("y allows this call once; n denies it")
        person.sees("allow keep? [y/n]")
        person.says(answer)
        person.sees("1 turn run anew")
        code = person.leaves()

    assert code == 1
    assert kept(recorded) == now_kept


def test_ctrl_c_while_it_is_asked_ends_the_turn_and_runs_nothing(recorded: Cli, tuesday: str) -> None:
    words = ("replay", recorded.id("keeper"), "--with-model", "--with-tools", *given(tuesday))
    with at_a_terminal(recorded, *words) as person:
        person.sees("allow keep? [y/n]")
        person.types(CTRL_C)
        person.sees("interrupted; the turn is being ended")
        person.sees("cancelled(interrupt)")
        code = person.leaves()

    assert code == 130
    assert kept(recorded) == ["one"]


def test_another_model_that_says_the_same_is_told_as_the_same(recorded: Cli) -> None:
    recorded.write("chat.yaml", MONDAY)
    with chat_server(recorded.folder, "--key-env", "FAKE_KEY") as url:
        ran = recorded("replay", recorded.id("keeper"), "--with-model", "openai:large", *given(url))

    assert kept(recorded) == ["one"]
    assert "agent keeper-" in ran.err
    assert "pinned.model.name" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("--with-model",), 2, "say which: agentos replay ID --with-model [MODEL]"),
        (("TALK", "--with-tools"), 2, "--with-tools is for --with-model"),
        (("TALK", "--base-url", "http://127.0.0.1:9"), 2, "is for --with-model; nothing is called without it"),
        (("TALK", "--with-model", "--yes"), 2, "--yes is for --with-tools"),
        (("TALK", "--with-model", "--at", "4", "--turn", "1"), 2, "leave out one of them"),
        (("TALK", "--with-model", "--children"), 2, "leave out --children and --against"),
        (("TALK", "--with-model", "--turn", "2"), 1, "no model was asked in turn 2; it has 1 turn"),
        (("TALK", "--with-model", "direkt"), 3, "no model is of kind 'direkt'"),
    ],
)
def test_what_cannot_be_is_refused_and_no_fork_is_made(
    project: Cli, words: tuple[str, ...], code: int, reason: str
) -> None:
    project("run", "-p", 'count_words text="a b"')
    talk = project.ids()[0]
    refused = project("replay", *[talk if word == "TALK" else word for word in words], code=code)

    assert reason in refused.err
    assert project.ids() == [talk]

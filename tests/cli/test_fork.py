"""fork, diff and what-if: a conversation goes on another way from one of its entries, and both are compared."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli, entry_of
from tests.cli.test_real_agents import chat_server


@pytest.fixture
def filled(filled: Cli) -> Cli:
    """With files to vary with."""
    filled.write("terse.md", "Be terse.")
    filled.write("other.txt", "99 words")
    return filled


def test_a_fork_tells_where_it_begins_and_is_run_later(filled: Cli) -> None:
    talk = filled.ids()[0]
    made = filled("fork", talk, "--at", "5")
    id_ = made.out.strip()
    parked = filled("diff", talk, id_, code=1).out
    filled("run", "--resume", id_)
    same = filled("diff", talk, id_).out
    itself = filled("diff", talk, talk).out
    verified, replayed = filled("verify").out, filled("replay").out

    assert f"begins with {talk} up to seq 4, where the unit before seq 5 ends; turn 3 is open" in made.err
    assert "outcome        completed  open" in parked
    assert "entries 1 to 4 are shared" in same
    assert itself == f"both are {talk}\n"
    assert verified.startswith("ok: ")
    assert "identical: 4 conversations" in replayed


def test_another_result_is_given_to_a_call(filled: Cli) -> None:
    talk = filled.ids()[0]
    call = entry_of(filled("show", talk, "--json").data["entries"], "call.proposed")["call"]
    ran = filled("fork", talk, "--replace-result", f"{call}=other.txt", "--run", "--json").data
    compared = filled("diff", talk, ran["conversation"], "--json", code=1).data

    assert ran["text"].endswith("99 words")
    assert compared["pairs"][0]["b"]["text"] == "99 words"
    assert compared["pairs"][0]["a"]["what"] == compared["pairs"][0]["b"]["what"] == "result"


def test_variants_are_run_and_stand_in_one_table(filled: Cli) -> None:
    talk = filled.ids()[0]
    call = entry_of(filled("show", talk, "--json").data["entries"], "call.proposed")["call"]
    words = ("--variant", "same", "--variant", f"other:result={call}=other.txt,prompt=terse.md")
    table = filled("what-if", talk, "--at", "7", *words).out
    rows = filled("what-if", talk, "--at", "7", *words, "--json").data["variants"]

    assert table.splitlines()[0].split()[:3] == ["variant", "conversation", "outcome"]
    assert [row["variant"] for row in rows] == ["same", "other"]
    assert [row["outcome"] for row in rows] == ["completed", "completed"]
    assert "99 words" in rows[1]["answer"]
    assert "99 words" in rows[1]["parts"]["is"]


def test_a_variant_is_gone_on_with_by_another_process(filled: Cli) -> None:
    talk = filled.ids()[0]
    made = filled("fork", talk, "--prompt", "terse.md")
    id_ = made.out.strip()
    answered = filled("run", id_, "-p", 'count_words text="a b c"')
    shown = filled("show", id_, "--request", "--json").out
    beside = filled("fork", id_, "--at", "4")

    assert "agent helper-" in made.err
    assert answered.out == 'count_words text="a b c": 3\n'
    assert "Be terse." in shown
    assert beside.err.endswith("agent helper\n")


def test_a_fork_asks_its_model_at_the_server_that_is_named(filled: Cli) -> None:
    filled.write("chat.yaml", "- text: It is told.\n")
    filled.write("keys.json", '{"keys": [{"id": "main", "value": "canary-6612"}]}')
    filled.write("net.yaml", 'slug: net\nmodel: {kind: openai, name: small, options: {api_key: "key:main"}}\n')
    with chat_server(filled.folder, "--key-env", "FAKE_KEY") as url:
        words = (filled.ids()[0], "--at", "4", "--base-url", url, "--api-keys", "keys.json")
        ran = filled("fork", *words, "--agent", "net.yaml", "--run", "--json").data
        rows = filled("what-if", *words, "--variant", "net:agent=net.yaml", "--json").data["variants"]

    assert ran["text"] == "It is told."
    assert rows[0]["answer"] == "It is told."


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["fork", "TALK", "--at", "999"], 1, "there is no entry 999"),
        (["fork", "TALK", "--at", "4", "--replace-result", "call_x=other.txt"], 1, "is no call's id"),
        (["fork", "TALK", "--prompt", "nowhere.md"], 3, "nowhere.md: No such file"),
        (["fork", "TALK", "--agent", "nowhere.yaml"], 3, "nowhere.yaml"),
        (["fork", "nobody"], 3, "no conversation 'nobody'"),
        (["what-if", "TALK"], 2, "say what is varied"),
        (["what-if", "TALK", "--variant", "a:modle=x"], 2, "Did you mean model"),
        (["what-if", "TALK", "--variant", "a"], 2, "no turn is open"),
        (["diff", "TALK", "nobody"], 3, "no conversation 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(filled: Cli, words: list[str], code: int, reason: str) -> None:
    talk = filled.ids()[0]
    result = filled(*[talk if word == "TALK" else word for word in words], code=code)

    assert reason in result.err

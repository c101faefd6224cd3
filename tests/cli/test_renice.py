"""renice: weights by the command, where no process runs."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli


def test_a_weight_is_stored_and_listed_by_whoever_looks_later(project: Cli) -> None:
    project("run", "-p", "hello")
    ((agent,),) = project.rows("select distinct agent from conversations")
    said = project("renice", str(agent), "0.5")
    project("renice", "acme", "4", "--tenant")
    listed = project("renice", "--json").data

    assert said.out.split() == ["agent", agent, "0.5"]
    assert listed == {"agents": {agent: 0.5}, "tenants": {"acme": 4.0}}


def test_an_unknown_agent_and_a_missing_weight_are_told(project: Cli) -> None:
    project("run", "-p", "hello")
    nobody = project("renice", "nobody", "2", code=3)
    missing = project("renice", "nobody", code=2)

    assert "nobody" in nobody.err
    assert "say a weight" in missing.err


@pytest.mark.parametrize("name", ["two words", ""])
def test_what_no_conversation_can_be_begun_for_has_no_weight(project: Cli, name: str) -> None:
    said = project("renice", name, "2", "--tenant", code=2)

    assert f"tenant {name!r} is no name" in said.err
    assert project("renice", "--json").data["tenants"] == {}

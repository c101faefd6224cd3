"""scenario run: what a file says is done and checked."""

from __future__ import annotations

from tests.cli.support import Cli

SCENARIO = """title: One question
agents:
  - slug: clerk
    script:
      - text: "You said {input}."
steps:
  - start: clerk
  - ask: milk
  - expect:
      text: EXPECTED
"""


def test_a_scenario_that_holds_ends_with_0(cli: Cli) -> None:
    cli.write("one.yaml", SCENARIO.replace("EXPECTED", "You said milk."))

    shown = cli("scenario", "run", "one.yaml").out
    told = cli("scenario", "run", "one.yaml", "--json").data

    assert shown.startswith("One question\n")
    assert "clerk answered: 'You said milk.'" in shown
    assert "passed:" in shown
    assert told["ok"] is True
    assert [step["word"] for step in told["steps"]][:3] == ["start", "ask", "expect"]
    assert [path.name for path in cli.folder.iterdir()] == ["one.yaml"]


def test_a_scenario_that_does_not_hold_ends_with_1_and_names_the_line(cli: Cli) -> None:
    cli.write("one.yaml", SCENARIO.replace("EXPECTED", "something else"))

    shown = cli("scenario", "run", "one.yaml", code=1).out

    assert "failed: one.yaml:9: expect" in shown


def test_the_store_of_a_scenario_can_be_kept(cli: Cli) -> None:
    cli.write("one.yaml", SCENARIO.replace("EXPECTED", "You said milk.") + "store: sqlite\n")

    cli("scenario", "run", "one.yaml", "--keep", "kept")

    store = next((cli.folder / "kept").glob("*.db"))
    assert cli("ps", "--store", f"sqlite:///{store}").out.count("clerk") == 1


def test_a_mistake_in_a_scenario_names_file_and_line(cli: Cli) -> None:
    cli.write("bad.yaml", "title: Bad\nagents:\n  - slug: clerk\nsteps:\n  - strat: clerk\n")

    told = cli("scenario", "run", "bad.yaml", code=3).err

    assert "bad.yaml:5:" in told


def test_an_unknown_scenario_is_told_with_the_nearest_one(cli: Cli) -> None:
    assert "Did you mean crash_and_resume?" in cli("scenario", "run", "crash_and_resum", code=3).err

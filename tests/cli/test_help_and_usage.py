"""Help, and words that mean nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentos.interfaces.cli.listing import COMMANDS, GROUPS, Group
from tests.cli.support import Cli, environment


def test_help_names_every_command_and_every_exit_code(cli: Cli) -> None:
    shown = cli("--help").out

    assert all(f"  {command.name}: {command.help}" in shown for command in (*COMMANDS, *GROUPS))
    assert "--store" in shown
    assert "7 refused or waiting for approval" in shown


@pytest.mark.parametrize("command", ["run", "query", "demo"])
def test_the_help_of_a_command_has_examples(cli: Cli, command: str) -> None:
    shown = cli(command, "--help").out

    assert f"Usage: agentos {command}" in shown
    assert f"Examples:\n  agentos {command}" in shown


@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_the_help_of_a_group_names_its_commands_and_has_their_examples(cli: Cli, group: Group) -> None:
    shown = cli.read(group.name, "--help").out

    assert all(f"  {command.name}: {command.help}" in shown for command in group.commands)
    assert all(f"\n  {line}\n" in shown + "\n" for command in group.commands for line in command.examples)


def test_help_loads_neither_sqlalchemy_nor_the_kernel() -> None:
    program = (
        "import sys; from agentos.interfaces.cli import main; main(['--help']);"
        "print([name for name in ('sqlalchemy', 'pydantic', 'agentos.kernel') if name in sys.modules], file=sys.stderr)"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment(None), check=True)

    assert ended.stderr.decode().strip() == "[]"


def test_a_wrong_command_is_told_with_the_nearest_one(cli: Cli) -> None:
    assert "there is no command 'vrify'. Did you mean verify?" in cli("vrify", code=2).err
    assert "Did you mean run?" in cli("scenario", "rn", code=2).err
    assert "Did you mean call?" in cli("tool", "cal", code=2).err


def test_a_wrong_option_or_value_is_told_with_the_nearest_one(cli: Cli) -> None:
    assert "Did you mean --state?" in cli("ps", "--stat", "idle", code=2).err
    assert 'Did you mean "idle"?' in cli("ps", "--state", "idl", code=2).err


def test_the_version_is_one_line_on_stdout(cli: Cli) -> None:
    assert len(cli("--version").out.splitlines()) == 1

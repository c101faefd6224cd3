"""Fixtures: the command as a real process, and a project to call it in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentos.interfaces.cli.project import init
from tests.cli.support import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command, called in an empty folder."""
    return Cli(tmp_path)


@pytest.fixture
def project(cli: Cli) -> Cli:
    """The command, called in a project as `init` writes it."""
    init(cli.folder)
    return cli


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A project with three conversations in its store, one of them with a subagent; tests only read it."""
    cli = Cli(tmp_path_factory.mktemp("shared"))
    init(cli.folder)
    cli.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [helper]\n")
    cli("run", "-p", 'count_words text="to be or not"')
    cli("run", "-a", "lead", "-p", "ask_helper task='count_words text=\"a b\"'")
    return cli


@pytest.fixture
def filled(shared: Cli, cli: Cli) -> Cli:
    """A project of its own with the conversations of the shared one."""
    shutil.copytree(shared.folder, cli.folder, dirs_exist_ok=True)
    return cli

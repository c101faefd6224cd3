"""writers: which processes have the store open, and the word of a person that one of them is dead."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.support import Cli, environment

STORE = ("--store", "sqlite:///s.db")
OWNER = """
import asyncio, sys
from agentos.persistence import open_store
from agentos.testing.log_units import LogUnits, append

async def main():
    store = open_store("sqlite:///s.db")
    n = await store.open("owner")
    await append(store, LogUnits("a", n).unit(), LogUnits("b", n).unit())
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()

asyncio.run(main())
"""


@contextmanager
def owning(cli: Cli) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the store open and owns two logs in it."""
    command = [sys.executable, "-c", OWNER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=cli.folder, env=environment(None)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def shown(cli: Cli, *words: str) -> list[list[str]]:
    """The rows of the table, by their columns."""
    return [re.split(r" {2,}", line.strip()) for line in cli.read("writers", *words, *STORE).out.splitlines()]


def test_a_process_that_has_ended_is_listed_as_long_as_it_owns_something(cli: Cli) -> None:
    cli("run", "-p", "hi", "--agent-file", str(cli.write("a.yaml", "slug: a\nmodel: direct\n")), *STORE)
    told = cli.read("writers", "--json", *STORE).data["writers"]

    assert len(shown(cli)) == 2  # what it wrote to is still its own until another takes it over
    assert [(row["writer"], row["alive"], row["host"]) for row in told] == [(1, False, socket.gethostname())]
    assert told[0]["ended_at_us"] >= told[0]["started_at_us"] > 0


def test_a_process_is_told_while_it_lives_and_when_it_was_killed(cli: Cli) -> None:
    with owning(cli) as owner:
        head, row = shown(cli)
        owner.kill()
        owner.wait()
        after = shown(cli)[1]

    assert head == ["writer", "host", "pid", "since", "last sign", "state", "logs"]
    assert (row[0], row[2], row[-2:]) == ("1", str(owner.pid), ["alive", "2"])
    assert after[-2:] == ["ended", "2"]


def test_a_frozen_process_is_declared_dead_and_fenced(cli: Cli) -> None:
    with owning(cli) as owner:
        os.kill(owner.pid, signal.SIGSTOP)
        frozen = shown(cli)[1][-2]
        said = cli("writers", "--declare-dead", "1", *STORE)
        again = cli("writers", "--declare-dead", "1", *STORE)
        (row, *_) = cli.read("writers", "--json", *STORE).data["writers"]
        os.kill(owner.pid, signal.SIGCONT)

    assert frozen == "alive"
    assert "writer 1 counts as dead" in said.err
    assert "'agentos run --resume' takes up what it left" in said.err
    assert "writer 1 has ended already" in again.err
    assert (row["writer"], row["alive"], row["logs"]) == (1, False, 2)
    assert row["ended_at_us"] is not None


def test_a_writer_that_is_not_there_is_a_mistake(cli: Cli) -> None:
    cli("run", "-p", "hi", "--agent-file", str(cli.write("a.yaml", "slug: a\nmodel: direct\n")), *STORE)

    assert "the store has no writer 7" in cli.read("writers", "--declare-dead", "7", *STORE, code=2).err


def test_all_shows_those_too_that_have_ended_and_own_nothing(cli: Cli) -> None:
    file = str(cli.write("a.yaml", "slug: a\nmodel: direct\n"))
    for _ in range(2):
        cli("run", "-p", "hi", "--agent-file", file, *STORE)
    cli("cancel", cli.read("ps", "--json", *STORE).data["conversations"][0]["id"], *STORE)

    assert len(shown(cli, "--all")) == 1 + len(cli.read("writers", "--json", *STORE).data["writers"])
    assert len(shown(cli)) <= len(shown(cli, "--all"))

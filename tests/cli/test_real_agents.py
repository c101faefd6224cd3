"""An agent file of another system at work, against a server of the Chat API on this machine, with scripts of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.support import ROOT, Cli, environment

ONESHOT = ROOT / "tests" / "data" / "agents-exe" / "agents" / "main" / "oneshot.json"
WITHOUT = ("--without", "dev", "--without", "faq/*")

SCRIPT = """
kimi-k2.7-code:
  - calls: [{tool: bash_read-file, arguments: {path: Main.hs}}]
    thinking: "First I read it."
  - calls:
      - {tool: bash_write-file, arguments: {path: Out.hs, content: "main = pure ()"}}
      - {tool: io_prompt_agent_faq, arguments: {task: "What is a functor?"}}
  - deltas: ["Out.hs ", "is written. ", "The faq says: {results}"]
kimi-k2.5:
  - text: "A functor maps over a structure."
"""

READ = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "read-file", "description": "Reads a file.", "args": [{"name": "path", "description": "Which one.",
           "type": "string", "backing_type": "string", "arity": "single", "mode": "positional"}]}'
else
    cat "$2"
fi
"""
WRITE = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "write-file", "description": "Writes a file.", "args": [
           {"name": "path", "description": "Which one.", "type": "string", "backing_type": "string",
            "arity": "single", "mode": "positional"},
           {"name": "content", "description": "What.", "type": "string", "backing_type": "string",
            "arity": "single", "mode": "stdin"}]}'
else
    cat > "$2" && echo written
fi
"""


@contextmanager
def chat_server(folder: Path, *more: str) -> Iterator[str]:
    """The URL of a server that answers from chat.yaml of this folder; its key stands in the variable FAKE_KEY."""
    words = [sys.executable, "-m", "agentos.testing.chat_server", "--script", "chat.yaml", *more]
    env = environment({"FAKE_KEY": "canary-6612"})
    with (
        (folder / "server.err").open("w") as err,
        subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=err, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture
def workshop(cli: Cli) -> Cli:
    """A folder with the tools that the agent file names, and with its key."""
    cli.write("tools/dev/read/read-file.sh", READ, executable=True)
    cli.write("tools/dev/write/write-file.sh", WRITE, executable=True)
    cli.write("Main.hs", "module Main where\n")
    cli.write("keys.json", '{"keys": [{"id": "kimi", "value": "canary-6612"}]}')
    cli.write("chat.yaml", SCRIPT)
    return cli


def test_a_turn_of_a_real_agent_file_calls_scripts_and_another_agent(workshop: Cli) -> None:
    with chat_server(workshop.folder, "--key-env", "FAKE_KEY", "--extra-key", "reasoning_content") as url:
        given = ("--agent-file", str(ONESHOT), "--base-url", url, "--api-keys", "keys.json", *WITHOUT)
        answered = workshop("run", *given, "-p", "write it")
    drawn = workshop("lineage", workshop.id("oneshot")).out
    stored = (workshop.folder / ".agentos" / "agentos.db").read_bytes()

    assert answered.out == "Out.hs is written. The faq says: written\n\nA functor maps over a structure.\n"
    assert (workshop.folder / "Out.hs").read_text() == "main = pure ()\n"
    for name in ("bash_read-file  done", "bash_write-file  done", "io_prompt_agent_faq  done", "faq conversation_"):
        assert name in drawn
    assert (workshop.folder / "server.err").read_text() == ""
    assert b"canary-6612" not in stored
    assert "canary-6612" not in answered.err + drawn
    assert workshop("verify").code == 0
    assert "identical" in workshop("replay").out


def test_what_the_machine_lacks_is_refused_with_every_toolbox_by_name(workshop: Cli) -> None:
    told = workshop("run", "--agent-file", str(ONESHOT), "-p", "write it", code=3).err

    assert "agent oneshot: toolbox oneshot/dev: toolbox kind 'developer' is not in this version of agentos" in told
    assert "agent faq: toolbox faq/question_store:" in told
    assert "--without NAME" in told


def test_a_key_that_is_nowhere_fails_the_turn_before_anything_is_sent(workshop: Cli) -> None:
    (workshop.folder / "keys.json").write_text('{"keys": []}')
    given = ("--agent-file", str(ONESHOT), "--api-keys", "keys.json", *WITHOUT)

    told = workshop("run", *given, "-p", "write it", "--base-url", "https://models.invalid/v1", code=4).err

    assert "no key 'kimi'" in told
    assert "keys.json" in told

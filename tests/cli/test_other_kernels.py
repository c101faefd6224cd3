"""Every word over the control socket, where what listens there is of another version, lies, or ends while it is asked."""

from __future__ import annotations

import json
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentos.interfaces.cli.project import init
from agentos.kernel.control import place_of
from agentos.kernel.control.wire import PROTOCOL
from tests.cli.support import Cli

WORDS = {
    "ps": (("ps",), 0),
    "watch": (("watch", "ID", "--until-settled"), 0),
    "send": (("send", "ID", "-p", "again"), 0),
    "cancel": (("cancel", "ID"), 0),
    "pause": (("pause", "ID"), 0),
    "unpause": (("unpause", "ID"), 0),
    "lsof": (("lsof",), 1),
    "top": (("top", "--once", "--every", "0.1"), 1),
    "renice": (("renice",), 0),
    "stop": (("stop",), 1),
}
"""What each is called with, and its exit code."""
NEWER = json.dumps({"agentos": PROTOCOL + 1, "writer": 1, "pid": 1, "store": "sqlite:"}).encode() + b"\n"
OURS = json.dumps({"agentos": PROTOCOL, "writer": 1, "pid": 1, "store": "sqlite:"}).encode() + b"\n"
CLOSING = {"name": "KernelClosed", "words": "the kernel is closed; open it again to go on"}
STRANGE = {"name": "NewerError", "words": "of a later version"}
NOT_ASKED = frozenset({"cancel"})
"""Of an idle conversation there is nothing to cancel, and nobody is looked for."""
ASKED = WORDS.keys() - NOT_ASKED - {"watch", "stop", "top"}
"""Those for which a kernel is asked, and that go on without it."""


@pytest.fixture
def project() -> Iterator[Cli]:
    """A project with one idle conversation, in a folder whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        init(Path(folder))
        cli = Cli(Path(folder))
        cli("run", "-p", "hello")
        yield cli


@contextmanager
def kernel_of(project: Cli, greeting: bytes, error: dict[str, str] | None = None) -> Iterator[None]:
    """Listens as the kernel of the process that began the conversation; answers every word with an error, or goes away."""

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(greeting)
            for line in self.rfile:
                if error is None:
                    return
                self.wfile.write(json.dumps({"id": json.loads(line)["id"], "error": error}).encode() + b"\n")

    place = place_of(f"sqlite:///{project.folder}/.agentos/agentos.db")
    assert place is not None, "a file has a place"
    path = Path(place.socket(1))
    with socketserver.ThreadingUnixStreamServer(str(path), Talk) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()
            path.unlink(missing_ok=True)


def said(project: Cli, word: str) -> str:
    words, code = WORDS[word]
    return project.read(*(project.id("helper") if part == "ID" else part for part in words), code=code).err


@pytest.mark.parametrize("word", sorted(WORDS.keys() - NOT_ASKED))
def test_of_a_kernel_of_another_version_every_word_says_so_and_goes_on_by_the_store(project: Cli, word: str) -> None:
    with kernel_of(project, NEWER):
        err = said(project, word)

    assert f"it speaks version {PROTOCOL + 1}, this program {PROTOCOL}; use one version of agentos" in err
    assert "fault of this program" not in err


@pytest.mark.parametrize("word", sorted(ASKED))
@pytest.mark.parametrize(
    ("error", "why"), [(CLOSING, "is about to end"), (STRANGE, "of a later version"), (None, "closed the connection")]
)
def test_of_a_kernel_that_does_not_take_it_every_word_says_why_and_goes_on_by_the_store(
    project: Cli, word: str, error: dict[str, str] | None, why: str
) -> None:
    with kernel_of(project, OURS, error):
        err = said(project, word)

    assert why in err
    assert "error:" not in err


@pytest.mark.parametrize("extreme", ["9223372036854775807", "9223372036854775808", "9" * 40])
def test_a_number_of_any_size_is_one(project: Cli, extreme: str) -> None:
    listed = project.read("ps", "--limit", extreme, "--json").data
    watched = project.read("watch", project.id("helper"), "--after", f"-{extreme}", "--until-settled", "--json").out
    nothing = project.read("watch", project.id("helper"), "--after", extreme, "--until-settled", "--json").out

    assert [row["id"] for row in listed["conversations"]] == project.ids()
    assert json.loads(watched.splitlines()[0])["seq"] == 1
    assert nothing == ""
    for words in (("top", "--turns", extreme), ("top", "--every", extreme), ("stop", "--writer", extreme)):
        assert project.read(*words, code=2).err


def test_who_watches_what_there_is_not_is_told_where_to_look(project: Cli) -> None:
    assert "'agentos ps' lists them" in project.read("watch", "zzzzzzzz", code=3).err

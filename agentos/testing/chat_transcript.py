"""Writes `docs/chat-transcript.md`: a chat in tmux against the chat server, as it stood on the screen.

    python -m agentos.testing.chat_transcript docs/chat-transcript.md      needs tmux; nothing leaves this machine

Every picture is what tmux held at that moment. Nothing is cut, and nothing is put in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentos.errors import AgentosError

COLUMNS, ROWS = 88, 40
WAIT_S = 30.0
LOOK_S = 0.05
SETTLE_S = 0.3
"""How long a screen has to stay the same before a picture of it is taken, where nothing is under way."""

PROJECT = {
    "agentos.toml": """default_agent = "keeper"

[agents]
files = ["keeper.yaml"]

[toolboxes.notes]
kind = "script"
path = "tools"
""",
    "keeper.yaml": """slug: keeper
announce: Keeps notes.
system_prompt: You keep the notes of a household.
model: openai:small
toolboxes: [notes]
policy:
  - {tool: write_note, verdict: ask}     # a person decides
""",
    "tools/write_note": """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "write_note", "description": "Writes a note.", "args": [{"name": "text",
        "description": "what to write", "type": "string", "backing_type": "string", "arity": "single",
        "mode": "dashdashspace"}]}'
    exit
fi
echo "$3" >> notes.txt
echo "noted"
""",
}
SCRIPT = """
- when: {last_role: tool}
  deltas: ["Done: ", "the note ", "is written."]
  delta_delay_s: 0.4
- when: {last_contains: milk}
  deltas: ["I shall ", "put that ", "down, ", "so that ", "nobody ", "forgets it."]
  delta_delay_s: 0.6
  calls: [{tool: write_note, arguments: {text: buy milk}}]
- when: {last_contains: story}
  deltas: ["Once ", "there was ", "a lighthouse ", "whose keeper ", "wrote down ", "every ship ", "that passed, ",
    "and every ship ", "that did not, ", "until one night "]
  delta_delay_s: 0.7
- deltas: ["You had me ", "note that ", "the milk ", "is gone."]
  delta_delay_s: 0.3
"""


class TranscriptError(AgentosError):
    """The chat did not go as it should; what stood on the screen is told."""


class Screen:
    """A terminal of tmux with a shell in it, by a server of tmux of its own."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._words = ["tmux", "-f", os.devnull, "-S", str(folder / "tmux")]
        self._environment = dict(environment)
        self._tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder / "project"), "/bin/sh")

    def close(self) -> None:
        self._tmux("kill-server")

    def types(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def presses(self, key: str) -> None:
        self._tmux("send-keys", key)

    def says(self, line: str) -> None:
        self.types(line)
        self.presses("Enter")

    def picture(self) -> str:
        """What stands there, without blank lines at the end."""
        return self._tmux("capture-pane", "-p").rstrip()

    def until(self, text: str) -> str:
        """The first picture that ends with this text, or has it in its last line. Raises TranscriptError."""
        end = time.monotonic() + WAIT_S
        while text not in (picture := self.picture()).rpartition("\n")[2]:
            if time.monotonic() > end:
                raise TranscriptError(f"{text!r} did not come within {WAIT_S:g} s:\n{picture}")
            time.sleep(LOOK_S)
        return picture

    def at_rest(self, text: str) -> str:
        """The same, once nothing changes any more."""
        picture = self.until(text)
        while True:
            time.sleep(SETTLE_S)
            before, picture = picture, self.picture()
            if before == picture:
                return picture

    def _tmux(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._words, *words], capture_output=True, env=self._environment, text=True, check=False
        )
        if ended.returncode:
            raise TranscriptError(f"tmux {words[0]}: {ended.stderr.strip()}")
        return ended.stdout


def transcript() -> Iterator[tuple[str, str]]:
    """Titles and pictures, in order."""
    with _project() as folder, _server(folder) as url, _screen(folder, url) as screen:
        screen.says("PS1='~/project $ '; clear")
        screen.at_rest("$")
        screen.says("agentos chat")
        screen.at_rest("keeper>")
        screen.says("The milk is gone. Please make a note.")
        yield "The answer comes piece by piece", screen.until("I shall")
        yield "A moment later", screen.until("so that")
        yield "It asks for a tool, and a rule lets a person decide", screen.at_rest("[y/n/why]")
        screen.says("why")
        yield "Why it is asked", screen.at_rest("[y/n/why]")
        screen.says("y")
        yield "Allowed: the call runs, and the turn goes on to its end", screen.at_rest("keeper>")
        screen.presses("C-l")
        screen.says("Now tell me a story.")
        yield "A long answer", screen.until("whose keeper")
        screen.presses("C-c")
        yield "Ctrl-C stops the turn; what was said is kept", screen.at_rest("keeper>")
        screen.presses("C-d")
        yield "Ctrl-D leaves", screen.at_rest("$")
        screen.says("clear; cat notes.txt; agentos chat --continue")
        yield "A new process goes on with the conversation", screen.at_rest("keeper>")
        screen.says("What did I tell you first?")
        screen.until("is gone.")
        screen.at_rest("keeper>")
        screen.says("/usage")
        yield "It knows what was said", screen.at_rest("keeper>")
        screen.says("/quit")
        screen.at_rest("$")
        screen.says("clear; agentos verify; agentos replay")
        yield "The log of it all", screen.at_rest("$")


def page(pictures: Iterator[tuple[str, str]]) -> str:
    """The document."""
    parts = [_HEAD]
    for title, picture in pictures:
        parts.append(f"## {title}\n\n```text\n{picture}\n```\n")
    return "\n".join(parts)


_HEAD = f"""# A chat, as it stood on the screen

`python -m agentos.testing.chat_transcript docs/chat-transcript.md` made this page: it runs `agentos chat` in tmux
({COLUMNS} columns), types, and takes what tmux shows. The model is the [chat server](chat-server.md) of this package with a
script. It sends its answers in pieces, a few a second, over HTTP on this machine. The project is an agent with one tool, a
script that writes into a file, and a rule that lets a person decide on it.
"""


@contextmanager
def _project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agentos-chat-") as name:
        folder = Path(name)
        for path, text in PROJECT.items():
            file = folder / "project" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        (folder / "script.yaml").write_text(SCRIPT)
        command = folder / "bin" / "agentos"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agentos "$@"\n')
        command.chmod(0o755)
        yield folder


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "agentos.testing.chat_server", "--script", str(folder / "script.yaml")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=_environment(folder)) as server:
        assert server.stdout is not None, "it is a pipe"
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@contextmanager
def _screen(folder: Path, url: str) -> Iterator[Screen]:
    screen = Screen(folder, {**_environment(folder), "AGENTOS_BASE_URL": url})
    try:
        yield screen
    finally:
        screen.close()


def _environment(folder: Path) -> dict[str, str]:
    """That of a person whose home is the folder; the package comes from where this one does."""
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
    package = str(Path(__file__).parents[2])
    return {"PATH": path, "PYTHONPATH": package, "HOME": str(folder), "LANG": "C.UTF-8"}


def main(words: list[str] | None = None) -> int:
    """Writes the page to the file that is named, else to stdout."""
    words = sys.argv[1:] if words is None else words
    if shutil.which("tmux") is None:
        print("error: there is no tmux here", file=sys.stderr)
        return 3
    try:
        text = page(transcript())
    except TranscriptError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if words:
        Path(words[0]).write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

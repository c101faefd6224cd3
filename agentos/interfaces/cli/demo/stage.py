"""The demo's cast: four agents, two toolboxes, one store; and the play: every question asked at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import agentos
from agentos import AgentSpec, Kernel, RunOutcome, ScriptToolbox
from agentos.errors import ConfigurationError
from agentos.interfaces.cli.demo import minds
from agentos.interfaces.cli.demo.notes import Notebook
from agentos.interfaces.cli.demo.questions import Question
from agentos.interfaces.cli.demo.report import Report
from agentos.secrets import without_password

STORE = "sqlite:///.agentos/demo.db"
SCRIPTS = Path(__file__).parent / "tools"
SCRIPTS_AT_ONCE = 4
GLANCE_S = 0.5
"""When the World is looked at while everybody works."""

AGENTS = (
    AgentSpec(
        slug="librarian",
        announce="Finds out what a folder and a file say about a word, and keeps a note of it.",
        system_prompt="You are a librarian. Let others search and count, then keep what they found.",
        model="scripted:librarian",
        toolboxes=["notes"],
        subagents=["searcher", "walker"],
    ),
    AgentSpec(
        slug="searcher",
        announce="Looks for a word in a file.",
        system_prompt="You search files.",
        model="scripted:searcher",
        toolboxes=["files"],
    ),
    AgentSpec(
        slug="walker",
        announce="Counts what is in a folder.",
        system_prompt="You count folders, and the folder around each.",
        model="scripted:walker",
        toolboxes=["files"],
        subagents=["walker"],
    ),
    AgentSpec(
        slug="clerk",
        announce="Measures a file and keeps the result.",
        system_prompt="You measure files and take notes.",
        model="scripted:clerk",
        toolboxes=["files", "notes"],
    ),
)

MINDS = {"librarian": minds.librarian, "searcher": minds.searcher, "walker": minds.walker, "clerk": minds.clerk}


class Stage:
    """Where the demo plays. url is the store, new for each run; the notes are in a file beside it."""

    def __init__(self, folder: Path, url: str | None) -> None:
        """Raises ConfigurationError for a store that would not stay."""
        self.folder, self.url = folder.absolute(), url or STORE
        if not self.url.startswith("sqlite:///"):
            raise ConfigurationError(
                f"store {without_password(self.url)!r}: the demo leaves its store to you; name sqlite:///FILE"
            )
        self._file = Path(self.url.partition("?")[0].removeprefix("sqlite:///"))
        self._given = url is not None
        self.notes = Notebook(self._file.with_name(f"{self._file.stem}-notes.db"))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Kernel]:
        """A kernel over a new store, with toolboxes and agents. Raises ConfigurationError for a store that exists."""
        self._clear()
        async with agentos.open(self.url) as kernel:
            await kernel.add_toolbox(
                ScriptToolbox("files", directories=[SCRIPTS], cwd=self.folder, size=SCRIPTS_AT_ONCE)
            )
            await kernel.add_toolbox(self.notes.toolbox())
            for spec in AGENTS:
                await kernel.install(spec, model=minds.Mind(MINDS[spec.slug]))
            kernel.check()
            yield kernel

    async def play(self, kernel: Kernel, questions: Sequence[Question], report: Report) -> list[RunOutcome]:
        """Asks all at once, and looks at the World meanwhile."""
        talks = [await kernel.start(question.agent) for question in questions]
        loop, started = asyncio.get_running_loop(), time.monotonic()
        asked = [loop.create_task(talk.ask(question.text)) for talk, question in zip(talks, questions, strict=True)]
        try:
            await asyncio.wait(asked, timeout=GLANCE_S)
            report.glance(kernel, time.monotonic() - started)
            return list(await asyncio.gather(*asked))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _clear(self) -> None:
        """Removes what an earlier demo left, and nothing that somebody named. Raises ConfigurationError."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        for old in (self._file, self.notes.path):
            if self._given and old.exists():
                raise ConfigurationError(f"{old} exists; the demo begins with a new store, so name another")
            for path in old.parent.glob(f"{old.name}*"):
                path.unlink()

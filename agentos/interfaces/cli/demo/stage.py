"""The demo's cast: four agents, two toolboxes, one store; and the play: every question asked at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import agentos
from agentos import AgentSpec, Kernel, RunOutcome, ToolboxSpec
from agentos.definitions import make_toolbox
from agentos.errors import ConfigurationError
from agentos.interfaces.cli.demo import minds, notes
from agentos.interfaces.cli.demo.questions import Question
from agentos.interfaces.cli.demo.report import Report

STORE = "sqlite:///.agentos/demo.db"
HERE = Path(__file__).parent
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
    """Where the demo plays. url is the store, new for each run; notes the file of the notes beside it."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder, self.url = folder.absolute(), url or STORE
        self.file = Path(self.url.partition("?")[0].removeprefix("sqlite:///"))
        self.notes = self.file.with_name(f"{self.file.stem}-notes.db")
        self._given = url is not None
        if not self.url.startswith("sqlite:///"):
            raise ConfigurationError(f"store {self.url!r}: the demo leaves its store to you, so it has to be sqlite:///FILE")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Kernel]:
        """A kernel over a new store, with toolboxes and agents. Raises ConfigurationError for a store in use."""
        self._clear()
        os.environ[notes.FILE_VARIABLE] = str(self.notes.absolute())
        async with agentos.open(self.url) as kernel:
            await kernel.add_toolbox(make_toolbox("files", self._files(), HERE))
            await kernel.add_toolbox(make_toolbox("notes", _NOTES, HERE))
            for spec in AGENTS:
                await kernel.install(spec, model=minds.Mind(MINDS[spec.slug]))
            kernel.check()
            yield kernel

    async def play(self, kernel: Kernel, questions: Sequence[Question], report: Report) -> list[RunOutcome]:
        """Asks all at once; meanwhile the World is looked at."""
        talks = [await kernel.start(question.agent) for question in questions]
        loop = asyncio.get_running_loop()
        asked = [loop.create_task(talk.ask(question.text)) for talk, question in zip(talks, questions, strict=True)]
        await asyncio.wait(asked, timeout=GLANCE_S)
        report.glance(kernel, GLANCE_S)
        return list(await asyncio.gather(*asked))

    def _files(self) -> ToolboxSpec:
        return ToolboxSpec(kind="script", path="tools", cwd=str(self.folder), sharing=f"pool({SCRIPTS_AT_ONCE})")

    def _clear(self) -> None:
        """Removes the store of an earlier demo, and never one that somebody named. Raises ConfigurationError."""
        self.notes.parent.mkdir(parents=True, exist_ok=True)
        for old in (self.file, self.notes):
            if self._given and old.exists():
                raise ConfigurationError(f"{old} exists; the demo begins with a new store, so name another")
            for path in old.parent.glob(f"{old.name}*"):
                path.unlink()


_NOTES = ToolboxSpec(kind="python", path="notes.py", sharing="exclusive")

"""demo: agents that share toolboxes and delegate to each other, all at once, on the files of a folder."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Annotated

from cyclopts import Parameter

from agentos.errors import ConfigurationError
from agentos.interfaces.cli.demo.leaks import held, held_after
from agentos.interfaces.cli.demo.questions import make_questions
from agentos.interfaces.cli.demo.report import Report
from agentos.interfaces.cli.demo.sampling import sample
from agentos.interfaces.cli.demo.stage import Stage
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Here
from agentos.testing.leaks import own_temporary_folder

CONVERSATIONS_MAX = 5_000


async def demo(
    folder: Annotated[Path, Parameter(name="DIR")] = Path(),
    /,
    *,
    seed: int | None = None,
    conversations: int = 200,
    here: Here,
) -> int:
    """Let agents search, count and take notes in the files of a folder, in many conversations at once.

    Nothing in the folder is changed, and no key or network is needed: the agents' models are functions. Afterwards
    comes what the store tells of it, and whether everything that was borrowed came back. The store stays to query.

    Parameters
    ----------
    folder
        whose files to work on; the current folder by default
    seed
        of the choice of files, words and agents; drawn when not given
    conversations
        how many to begin at once
    """
    if not 1 <= conversations <= CONVERSATIONS_MAX:
        raise UsageError(f"--conversations is {conversations}; it goes from 1 to {CONVERSATIONS_MAX}")
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: no such folder")
    seed = Random().randrange(1_000_000) if seed is None else seed
    random = Random(seed)
    drawn = sample(folder, random)
    questions = make_questions(drawn, random, conversations)
    report = Report()
    report.opening(folder, seed, drawn, conversations)
    with own_temporary_folder() as temporary:
        before = held(temporary)
        stage = Stage(folder, here.store)
        async with stage.open() as kernel:
            started = time.monotonic()
            outcomes = await stage.play(kernel, questions, report)
            report.played(outcomes, time.monotonic() - started)
        in_order = await report.tell(stage.url, stage.notes)
        after = await held_after(before, temporary)
    report.held(before, after)
    report.farewell(stage.url)
    well = in_order and after == before and all(outcome.completed for outcome in outcomes)
    return Exit.OK if well else Exit.FAILURE

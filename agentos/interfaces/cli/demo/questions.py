"""Inputs for the demo's agents, made from the files: the same folder and seed give the same ones."""

from __future__ import annotations

from pathlib import PurePosixPath
from random import Random
from typing import NamedTuple

from agentos.interfaces.cli.demo.sampling import Sample, quoted

SHARES = {"librarian": 35, "searcher": 25, "walker": 15, "clerk": 25}
"""Who is asked how often, in per cent."""

NO_FILE = "./nothing-here"
"""Asked for when the folder has no text file; the tools then fail, and the agents say so."""


class Question(NamedTuple):
    agent: str
    text: str


def make_questions(drawn: Sample, random: Random, count: int) -> list[Question]:
    """As many as asked for, the first of them one that goes through all agents' hands."""
    agents = ["librarian", *random.choices(list(SHARES), list(SHARES.values()), k=count - 1)]
    return [Question(agent, _text(agent, drawn, random)) for agent in agents]


def _text(agent: str, drawn: Sample, random: Random) -> str:
    file = random.choice(drawn.files or [NO_FILE])
    folder, word = random.choice(drawn.folders), random.choice(drawn.words)
    if agent == "librarian":
        return f"Survey {quoted(folder)} and {quoted(file)} for {quoted(word)}, and keep what you find."
    if agent == "searcher":
        return f"Look for {quoted(word)} in {quoted(file)}."
    if agent == "walker":
        return f"Count what is in {quoted(folder)}."
    return f"Measure {quoted(file)} and keep it under {quoted(PurePosixPath(file).suffix or 'plain')}."

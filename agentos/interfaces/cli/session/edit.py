"""session edit: a session file of agents-exe on stdin, and what is left of it on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.history.sessions import COUNTED, Edit, EditKind, edited, session_of
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Here
from agentos.interfaces.cli.output import put_answer
from agentos.interfaces.cli.session.source import ON_STDIN, document_on_stdin

_COUNT = "--count"
_OPTIONS = {f"--{kind.value}": kind for kind in EditKind}

Times = Annotated[int, Parameter(count=True, show_default=False)]
"""A switch that may stand several times."""


def edit(
    *,
    take: Times = 0,
    take_tail: Times = 0,
    drop: Times = 0,
    drop_tail: Times = 0,
    count: Annotated[tuple[int, ...], Parameter(allow_leading_hyphen=True, negative="", show_default=False)] = (),
    censor_tool_calls: Times = 0,
    censor_thinking: Times = 0,
    here: Here,
) -> int:
    """Edit a session of agents-exe: JSON on stdin, JSON on stdout, in one line. All that is not edited stays.

    Edits are done from left to right. --take, --take-tail, --drop and --drop-tail go by turns, newest first as the file has
    them: one, or as many as the --count behind them says. With a number below 1, taking leaves none and dropping all.

    Parameters
    ----------
    take
        keep only the first turns, which are the newest
    take_tail
        keep only the last turns, which are the oldest
    drop
        leave out the first turns
    drop_tail
        leave out the last turns
    count
        how many turns the edit before it is about
    censor_tool_calls
        leave out all calls and their results, also in the raw answers of the provider
    censor_thinking
        leave out all thinking, also in the raw answers
    """
    edits = list(edits_in_order(here.tokens))
    document: Any = document_on_stdin()
    session_of(document, ON_STDIN)
    put_answer(json.dumps(edited(document, edits), ensure_ascii=False, separators=(",", ":")))
    return Exit.OK


def edits_in_order(tokens: Sequence[str]) -> Iterator[Edit]:
    """The edits among the words of a command line. Raises UsageError for a --count that stands behind none."""
    words = iter(tokens)
    last: Edit | None = None
    for word in words:
        name, _, value = word.partition("=")
        if name == _COUNT:
            if last is None or last.kind not in COUNTED:
                raise UsageError(
                    "--count stands behind the --take, --take-tail, --drop or --drop-tail that it is about"
                )
            last = last._replace(turns=int(value or next(words)))
        elif name in _OPTIONS:
            if last is not None:
                yield last
            last = Edit(_OPTIONS[name])
    if last is not None:
        yield last

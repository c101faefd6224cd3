"""What a session command is about: a file of agents-exe, or a conversation of the store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentos.errors import UnknownConversation
from agentos.history.sessions import Session, parse, read_session, session_of, session_of_conversation, text_of
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.output import is_terminal
from agentos.kernel.reading import reading

STDIN = "-"
SessionAt = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A file, - or an id, as a word of the command line."""
ON_STDIN = "stdin"


async def session_at(text: str, here: Invocation) -> Session:
    """The session in a file, on stdin (-), or of a conversation by its id. Raises SessionRefused, UnknownConversation."""
    if text == STDIN:
        return session_of(document_on_stdin(), ON_STDIN)
    file = _file(text)
    if file is not None:
        return read_session(file)
    async with reading(here.store_url()) as store:
        try:
            return await session_of_conversation(store.store, await find_conversation(store, text))
        except UnknownConversation as error:
            error.args = (f"{error}; there is no file of that name either",)
            raise


def document_on_stdin() -> object:
    """The JSON there. Raises UsageError at a terminal, SessionRefused."""
    if is_terminal(sys.stdin):
        raise UsageError("a session is read from stdin, and a terminal is none")
    return parse(text_of(sys.stdin.buffer, ON_STDIN), ON_STDIN)


def _file(text: str) -> Path | None:
    """The file of that name; None when it may be an id. What can be none is a file, also when it is not there."""
    path = Path(text)
    return path if path.is_file() or "/" in text or path.suffix else None

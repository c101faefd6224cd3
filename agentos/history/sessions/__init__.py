"""Sessions of agents-exe: read, taken over as conversations, printed, listed by their calls, and edited."""

from agentos.history.sessions.calls import RecordedCall, calls_of
from agentos.history.sessions.editing import COUNTED, Edit, EditKind, edited
from agentos.history.sessions.importing import Imported, conversation_of, import_session
from agentos.history.sessions.model import Session
from agentos.history.sessions.printing import PrintOptions, Shown, markdown_of
from agentos.history.sessions.reading import read_session, session_of
from agentos.history.sessions.recorded import session_of_conversation
from agentos.history.sessions.source import parse, text_of

__all__ = [
    "COUNTED",
    "Edit",
    "EditKind",
    "Imported",
    "PrintOptions",
    "RecordedCall",
    "Session",
    "Shown",
    "calls_of",
    "conversation_of",
    "edited",
    "import_session",
    "markdown_of",
    "parse",
    "read_session",
    "session_of",
    "session_of_conversation",
    "text_of",
]

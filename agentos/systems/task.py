"""What an agent that is asked gets to read: the task, and where the tool says so the conversation before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentos.components import ToolSpec
from agentos.events.model import Message, Role
from agentos.ids import Name
from agentos.world import View
from agentos.world.transcript import Transcript

CUT = "(the beginning is left out) "


def task_of(view: View, tool: ToolSpec | None, asking: Name, arguments: Any) -> str:
    """The text that the child receives; the same again from the same transcript.

    asking is the slug of the agent that delegates.
    """
    task = str(arguments.get("task", "")) if isinstance(arguments, dict) else ""
    if tool is None or not tool.history:
        return task
    told = _told(view.transcript, asking, tool.history, view.pinned(view.turn).limits.history_chars)
    return "\n\n".join([f"The conversation with {asking} so far, oldest first:", *told, "The task:", task])


def _told(transcript: Transcript, asking: Name, messages_max: int, chars_max: int) -> list[str]:
    """The last messages that people and the asking agent said, within a number of characters; the newest are kept.

    Results of tools are left out, since the child may have less granted than the agent that read them; and so is what
    leaves the history with its turn.
    """
    told: list[str] = []
    for message in _visible_from_the_end(transcript):
        if len(told) == messages_max or chars_max <= 0:
            break
        text = message.text if len(message.text) <= chars_max else CUT + message.text[-chars_max:]
        chars_max -= len(message.text)
        told.append(f"{'user' if message.role is Role.USER else asking}: {text}")
    return told[::-1]


def _visible_from_the_end(transcript: Transcript) -> Iterator[Message]:
    """No more of a long conversation is looked at than is asked for."""
    passing = transcript.purge.places if transcript.purge is not None else ()
    for place in range(transcript.count - 1, -1, -1):
        message = transcript.pieces[place]
        if message.text and message.role in (Role.USER, Role.ASSISTANT) and place not in passing:
            yield message

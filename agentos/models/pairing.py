"""What every provider insists on: exactly one result for each call, right after it, and no result without its call."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from agentos.events.model import Message, Role, ToolCall

NO_RESULT = "no result is known of this call"

_log = logging.getLogger(__name__)


def paired(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages with their results complete and in the order of the calls.

    A transcript is so already and passes unchanged. In what comes from elsewhere, a missing result is said to be missing,
    and one without its call, or a second one, is left out with a warning that names its id.
    """
    open_calls: list[ToolCall] = []
    results: dict[str, Message] = {}
    for message in messages:
        if message.role is Role.TOOL:
            if message.call_id in results or all(call.id != message.call_id for call in open_calls):
                _log.warning("the result of call %r is left out: no call before it asked for it", message.call_id)
            else:
                results[message.call_id] = message
            continue
        yield from _complete(open_calls, results)
        open_calls, results = list(message.calls), {}
        yield message
    yield from _complete(open_calls, results)


def _complete(calls: list[ToolCall], results: dict[str, Message]) -> Iterator[Message]:
    for call in calls:
        yield results.get(call.id) or Message(Role.TOOL, NO_RESULT, (), call.id, call.name)

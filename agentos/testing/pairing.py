"""The rule that every provider enforces: exactly one result for each call, in order, and no result without its call."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.events.model import Message, Role


def unpaired(messages: Sequence[Message]) -> list[str]:
    """What is wrong with a request's calls and results; empty when nothing is."""
    broken: list[str] = []
    expected: list[tuple[str, str]] = []
    for n, message in enumerate(messages):
        if message.role is Role.TOOL:
            found = (message.call_id, message.name)
            if not expected:
                broken.append(f"message {n} is the result of {found}, which nothing asked for")
            elif expected[0] != found:
                broken.append(f"message {n} is the result of {found}, where that of {expected[0]} belongs")
            expected = expected[1:]
            continue
        if expected:
            broken.append(f"message {n} comes before the results of {expected}")
        expected = [(call.id, call.name) for call in message.calls]
    if expected:
        broken.append(f"the request ends without the results of {expected}")
    ids = [call.id for message in messages for call in message.calls]
    if len(set(ids)) != len(ids):
        broken.append("two calls have the same id")
    return broken

"""What the person in charge gave is wrong."""

from __future__ import annotations

from agentos.errors.base import AgentosError


class ConfigurationError(AgentosError):
    """A file, name or argument given by the person in charge is wrong."""


class UnknownAgent(ConfigurationError):
    def __init__(self, agent: str, known: list[str]) -> None:
        self.agent, self.known = agent, known
        super().__init__(f"no agent {agent!r} is installed; installed: {', '.join(sorted(known)) or 'none'}")


class UnknownToolbox(ConfigurationError):
    def __init__(self, toolbox: str, known: list[str], place: str = "") -> None:
        self.toolbox, self.known = toolbox, known
        where = f"{place}: " if place else ""
        super().__init__(f"{where}no toolbox {toolbox!r} is open; open: {', '.join(sorted(known)) or 'none'}")


class UnknownConversation(ConfigurationError):
    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"the store has no conversation {conversation!r}; 'agentos ps' lists them")


class UnknownCall(ConfigurationError):
    """No call has this id; why says more, where there is more to say."""

    def __init__(self, call: str, why: str = "") -> None:
        self.call = call
        why = why or "'agentos doubts' lists those in doubt"
        super().__init__(f"the store has no call {call!r}; {why}")


class SessionRefused(ConfigurationError):
    """A session of another system cannot be read, and nothing of it was used.

    place is a file, or where else it came from; line and column count from 1, the column in characters; offset counts
    bytes from 0. Each is None where it cannot be told.
    """

    def __init__(
        self,
        place: str,
        reason: str,
        *,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.place, self.reason = place, reason
        self.line, self.column, self.offset = line, column, offset
        where = "".join(f":{number}" for number in (line, column) if number is not None)
        at = f" (byte {offset:,})" if offset is not None else ""
        super().__init__(f"{place}{where}: {reason}{at}")

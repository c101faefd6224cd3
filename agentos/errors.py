"""Every error that agentos raises on purpose.

    AgentosError
      ConfigurationError          a file, a name or an argument of the person in charge is wrong
        UnknownAgent, UnknownToolbox, UnknownConversation
      StoreError                  the store cannot do what was asked
        StoreUnavailable, StoreBusy, StoreTooNew, StoreTooOld, StoreDamaged, QueryRefused
      KernelClosed                the kernel is closed or closing
      ConversationBusy            a bound of a conversation's intake is reached
      ConversationClosed
      InputRefused                blank or oversized text
      ResourceError
        ReleaseFailed
      CodecError                  a value has no canonical form
      ModelError                  what a model adapter reports, with its kind
      ToolError                   what a tool may raise to choose the words that the model sees
      SystemRaised                a system broke its contract; fails one turn

An error names the thing, the place and the way out. Attributes are for programs, the sentence is for people, and neither
carries a secret or the text of a conversation.
"""

from __future__ import annotations


class AgentosError(Exception):
    """The root of all errors of this package."""


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


class StoreError(AgentosError):
    """The store cannot do what was asked."""


class StoreUnavailable(StoreError):
    """The store failed; nothing was acknowledged, and intake is kept until it is back."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"store {url}: {reason}")


class StoreBusy(StoreUnavailable):
    """Another process held the store longer than busy_timeout_ms."""


class StoreTooNew(StoreError):
    def __init__(self, url: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"store {url} has schema version {found}, this program knows up to {known}; use a newer agentos"
        )


class StoreTooOld(StoreError):
    """It is to be read alone, which changes nothing, and has an older schema than this program reads."""

    def __init__(self, url: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"store {url} has schema version {found}, this program reads {known}; 'agentos upgrade' brings it up to date"
        )


class StoreDamaged(StoreError):
    """The file is not a store of agentos or lost a part of itself."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"store {url} is damaged: {reason}; 'agentos verify' names what differs")


class QueryRefused(StoreError):
    """A query was not one reading statement, or went over a limit."""


class KernelClosed(AgentosError):
    def __init__(self) -> None:
        super().__init__("the kernel is closed; open it again to go on")


class ConversationBusy(AgentosError):
    def __init__(self, conversation: str, waiting: int) -> None:
        self.conversation, self.waiting = conversation, waiting
        why = f"has {waiting} inputs waiting (inbox_max)" if waiting else "is at work in another process"
        super().__init__(f"{conversation} {why}; send again when a turn has ended")


class ConversationClosed(AgentosError):
    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"{conversation} is closed; start another one")


class InputRefused(AgentosError):
    """Blank or oversized input; nothing was stored."""


class ResourceError(AgentosError):
    """A lent thing could not be had or given back."""


class ReleaseFailed(ResourceError):
    """One or more releases of a scope failed; the others were done all the same."""

    def __init__(self, scope: str, failures: list[tuple[str, BaseException]]) -> None:
        self.scope, self.failures = scope, failures
        what = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures)
        super().__init__(f"scope {scope}: {len(failures)} releases failed: {what}")


class CodecError(AgentosError):
    """A value has no canonical form, or a type may not be registered."""


class ModelError(AgentosError):
    """What a model adapter could not do. The adapter names the kind, `complete` decides on a retry.

    kind: rate_limit, overloaded, network, timeout, auth, invalid_request, context, cut, quota, unavailable
    retry_after_s: what the provider asked for, in seconds, or None
    """

    RETRYABLE = frozenset({"rate_limit", "overloaded", "network", "timeout", "cut"})

    def __init__(self, kind: str, message: str, *, retry_after_s: float | None = None, text: str = "") -> None:
        self.kind, self.retry_after_s, self.text = kind, retry_after_s, text
        super().__init__(message)

    @property
    def retryable(self) -> bool:
        return self.kind in self.RETRYABLE


class ToolError(AgentosError):
    """Raised by a tool to say what the model shall read; the call is failed(tool)."""


class SystemRaised(AgentosError):
    """A system raised; the turn is settled as failed."""

    def __init__(self, system: str, error: BaseException) -> None:
        self.system, self.error = system, error
        super().__init__(f"system {system} raised {type(error).__name__}: {error}")

"""A kernel cannot be asked, or what it asks itself failed: a codec, a model, a tool, a system."""

from __future__ import annotations

from agentos.errors.base import AgentosError


class KernelClosed(AgentosError):
    def __init__(self) -> None:
        super().__init__("the kernel is closed; open it again to go on")


class ControlError(AgentosError):
    """A running kernel and those who ask it by its control socket did not come together."""


class KernelUnreachable(ControlError):
    """Nobody answers at a control socket, or not any more. What was asked last may have been done all the same.

    kernel names the process, as far as it is known. hangs: it is there, and says nothing. gone: nobody is there.
    """

    def __init__(self, kernel: str, why: str, *, hangs: bool = False, gone: bool = False) -> None:
        self.kernel, self.why, self.hangs, self.gone = kernel, why, hangs, gone
        super().__init__(f"{kernel} cannot be asked: {why}")


class ControlRefused(ControlError):
    """A running kernel does not do what its control socket was asked for; nothing was done."""


class ControlTaken(ControlError):
    """No control socket can be made there: path is in use by a living process, or is no place of this user alone."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"no control socket at {path}: {why}")


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

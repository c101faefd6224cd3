"""A conversation does not take what was asked of it, or not now."""

from __future__ import annotations

from agentos.errors.base import NAMED_MAX, AgentosError, utc


class InputRefused(AgentosError):
    """Blank or oversized input; nothing was stored."""


class ConversationBusy(AgentosError):
    """A bound of a conversation's intake is reached, or a living process has it.

    waiting counts what waits already, 0 when that is not the reason. owner names the process that has it: number, pid,
    host, since when. key is that of an input which lies in the inbox and was not taken within inbox_wait_s. turns_max is
    how many turns may wait for a place among those that run, where that many do; None when that is not the reason.
    """

    def __init__(
        self, conversation: str, waiting: int, owner: str = "", key: str = "", turns_max: int | None = None
    ) -> None:
        self.conversation, self.waiting, self.owner, self.key = conversation, waiting, owner, key
        self.turns_max = turns_max
        super().__init__(f"{conversation} {_why_busy(waiting, owner, key, turns_max)}")


def _why_busy(waiting: int, owner: str, key: str, turns_max: int | None) -> str:
    if turns_max is not None:
        return (
            f"would begin a turn while {waiting} others wait for a place among those that run (waiting_turns_max is"
            f" {turns_max}); nothing was stored; send again later, or raise turns_max, tenant_turns_max or agent_turns_max"
        )
    if waiting:
        return f"has {waiting} inputs and other commands waiting (inbox_max); send again when a turn has ended"
    if key:
        return (
            f"is owned by another process that takes nothing ({owner}); the input waits in its inbox as {key!r}, and is"
            " taken when that process goes on, or another takes over: 'agentos writers' tells of both"
        )
    return (
        f"is at work in another process ({owner or 'unknown'}); `send` reaches it by way of the store; ask again when that"
        " process has ended"
    )


class ConversationHeld(AgentosError):
    """An import brought it with work left to do, and nobody has said yet that it may go on."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(
            f"{conversation} was imported with work left to do, and is paused; 'agentos unpause {conversation}' lets it go"
            f" on, 'agentos fork {conversation}' begins another one there"
        )


class ConversationClosed(AgentosError):
    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"{conversation} is closed; start another one")


class ConversationErased(ConversationClosed):
    """Its texts are gone; its entries stay. at is when, in microseconds, UTC."""

    def __init__(self, conversation: str, at: int) -> None:
        super().__init__(conversation)
        self.at = at
        self.args = (f"{conversation} was erased at {utc(at)} and is closed; start another one",)


class EraseRefused(AgentosError):
    """A conversation cannot be erased, or not now, or not alone. Of the log that the error names nothing was erased."""

    def __init__(self, conversation: str, why: str) -> None:
        self.conversation = conversation
        super().__init__(f"{conversation} cannot be erased: {why}")


class EraseTurnOpen(EraseRefused):
    """Somebody is at work in it, or in one that would go with it (log)."""

    def __init__(self, conversation: str, log: str, why: str = "a turn is open") -> None:
        self.log = log
        super().__init__(
            conversation,
            f"{why} in {log}; wait for its end, or 'agentos cancel {log}', and erase again;"
            f" where no process runs it, 'agentos run --resume {log}' has it end",
        )


class EraseHasForks(EraseRefused):
    """Living forks share its entries; they are in forks."""

    def __init__(self, conversation: str, forks: list[str]) -> None:
        self.forks = forks
        named = ", ".join(forks[:NAMED_MAX]) + (f" and {len(forks) - NAMED_MAX} more" * (len(forks) > NAMED_MAX))
        super().__init__(conversation, f"its entries are shared by {named}; erase it with its forks, or these first")


class EraseOfSubagent(EraseRefused):
    """It was begun by a call, and its task and result stand in the parent too."""

    def __init__(self, conversation: str, root: str) -> None:
        self.root = root
        super().__init__(conversation, f"its task and result stand in the conversation that asked too; erase {root}")


class EraseTooEarly(EraseRefused):
    """The retention rule of an agent keeps it, or one that would go with it (log), until then, in microseconds, UTC."""

    def __init__(self, conversation: str, log: str, agent: str, keep_s: float, until: int) -> None:
        self.log, self.agent, self.keep_s, self.until = log, agent, keep_s, until
        super().__init__(
            conversation,
            f"agent {agent} keeps {log} for {keep_s:g} s after its last entry (retention.keep_s), until {utc(until)}",
        )


class EraseUnanswered(EraseRefused):
    """Another process has the log and has not taken the command within inbox_wait_s, or it goes on and on."""

    def __init__(self, conversation: str, log: str, owner: str) -> None:
        self.log, self.owner = log, owner
        super().__init__(
            conversation,
            f"{log} is at work in another process that does not take the command ({owner}); it waits in the inbox. Erase"
            " again when that process goes on or has ended: 'agentos writers' tells, and what is erased stays so",
        )


class ForkRefused(AgentosError):
    """A fork cannot begin there. at is a seq at which it could, 0 when there is none."""

    def __init__(self, conversation: str, why: str, at: int = 0) -> None:
        self.conversation, self.at = conversation, at
        way = f"; fork at seq {at}" if at else ""
        super().__init__(f"{conversation} cannot be forked so: {why}{way}")


class ReplayRefused(AgentosError):
    """A conversation cannot be run anew from there."""

    def __init__(self, conversation: str, why: str) -> None:
        self.conversation = conversation
        super().__init__(f"{conversation} cannot be run anew so: {why}")


class NotInDoubt(AgentosError):
    """What became of the call is known, or about to be."""

    def __init__(self, call: str, why: str) -> None:
        self.call = call
        super().__init__(f"{call} is not in doubt: {why}")


class AlreadyResolved(NotInDoubt):
    """Somebody has said what became of the call; resolution and by are empty while that is still under way."""

    def __init__(self, call: str, resolution: str = "", by: str = "") -> None:
        self.resolution, self.by = resolution, by
        said = f"{by or 'somebody'} resolved it as {resolution}" if resolution else "a resolution of it is under way"
        super().__init__(call, f"{said}; the first one counts")

"""Every error that agentos raises on purpose.

    AgentosError
      ConfigurationError          a file, a name or an argument of the person in charge is wrong
        UnknownAgent, UnknownToolbox, UnknownConversation, UnknownCall, SessionRefused
      StoreError                  the store cannot do what was asked
        StoreUnavailable, StoreBusy, StoreTooNew, StoreTooOld, StoreDamaged, QueryRefused, CopyRefused
        IndexUnavailable, IndexDamaged
      AnchorError                 what a file of anchors cannot do
        AnchorDamaged, AnchorRefused
      BundleError                 what a bundle cannot do
        BundleRefused, BundleDamaged, ExportRefused, ImportRefused
      KernelClosed                the kernel is closed or closing
      ControlError                a running kernel cannot be asked from another process
        KernelUnreachable, ControlRefused, ControlTaken
      ConversationBusy            a bound of a conversation's intake is reached
      ConversationHeld            an imported conversation that nobody has let go on
      ConversationClosed
        ConversationErased
      EraseRefused                a conversation cannot be erased, or not now, or not alone
        EraseTurnOpen, EraseHasForks, EraseOfSubagent, EraseTooEarly, EraseUnanswered
      InputRefused                blank or oversized text
      ForkRefused                 a conversation cannot be forked there, or not with that result
      ReplayRefused               a conversation cannot be run anew from there
      NotInDoubt                  there is nothing to resolve about a call
        AlreadyResolved
      ResourceError               a lent thing cannot be had or given back
        ReleaseFailed, ResourceNotFound, ResourceScopeInvalid, ResourceClosed, ResourceBroken
        ResourceBusy, ResourceAccessTimeout, ResourceUpgradeRefused, ResourceDeadlock
        ResourceLimitReached
        FolderGone, FolderLimitReached
      CodecError                  a value has no canonical form
      ModelError                  what a model adapter reports, with its kind
      ToolError                   what a tool may raise to choose the words that the model sees
      SystemRaised                a system broke its contract; fails one turn

An error names the thing, the place and the way out. Attributes are for programs, the sentence is for people, and neither
carries a secret or the text of a conversation.
"""

from __future__ import annotations

from datetime import UTC, datetime


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


class CopyRefused(StoreError):
    """A store cannot be copied to this place, or not now; what was copied before stays, and is gone on with."""


class IndexUnavailable(StoreError):
    """The file of a search index cannot be used; it holds nothing that the store has not."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"search index {path}: {reason}; it may be deleted, and the next search makes it anew")


class IndexDamaged(IndexUnavailable):
    """It is not what was written, or is something else."""


class AnchorError(AgentosError):
    """A file of anchors does not say what was asked of it."""


class AnchorDamaged(AnchorError):
    """A line of a file of anchors is not as it was written; line counts from 1."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(f"{path} line {line}: {reason}; take another copy of the file")


class AnchorRefused(AnchorError):
    """No anchor can be written to this file, or not now; the file is as it was."""


class BundleError(AgentosError):
    """A bundle cannot be written or read."""


class BundleRefused(BundleError):
    """A file is no bundle, or one that may not be read; nothing of it was used."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class BundleDamaged(BundleRefused):
    """A member of a bundle is not as its manifest says; line counts from 1, 0 where it cannot be told."""

    def __init__(self, path: str, member: str, line: int, reason: str) -> None:
        self.member, self.line, self.why = member, line, reason
        super().__init__(path, f"{member}{f' line {line}' if line else ''}: {reason}")


class ImportRefused(BundleError):
    """A bundle cannot be taken into this store; nothing of it was stored."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class ExportRefused(BundleError):
    """Nothing can be exported so; no file was written."""


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


_NAMED_MAX = 10
"""How many ids a sentence names."""


def _utc(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"


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
        self.args = (f"{conversation} was erased at {_utc(at)} and is closed; start another one",)


class EraseRefused(AgentosError):
    """A conversation cannot be erased, or not now, or not alone. Of the log that the error names nothing was erased."""

    def __init__(self, conversation: str, why: str) -> None:
        self.conversation = conversation
        super().__init__(f"{conversation} cannot be erased: {why}")


class EraseTurnOpen(EraseRefused):
    """Somebody is at work in it, or in one that would go with it (log)."""

    def __init__(self, conversation: str, log: str, why: str = "a turn is open") -> None:
        self.log = log
        super().__init__(conversation, f"{why} in {log}; wait for its end, or 'agentos cancel {log}', and erase again")


class EraseHasForks(EraseRefused):
    """Living forks share its entries; they are in forks."""

    def __init__(self, conversation: str, forks: list[str]) -> None:
        self.forks = forks
        named = ", ".join(forks[:_NAMED_MAX]) + (f" and {len(forks) - _NAMED_MAX} more" * (len(forks) > _NAMED_MAX))
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
            f"agent {agent} keeps {log} for {keep_s:g} s after its last entry (retention.keep_s), until {_utc(until)}",
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


class ResourceNotFound(ResourceError):
    """No resource of this name lives in the scope, or in one around it."""

    def __init__(self, resource: str, scope: str, known: list[str]) -> None:
        self.resource, self.scope, self.known = resource, scope, known
        there = ", ".join(sorted(known)[:_NAMED_MAX]) or "none"
        super().__init__(f"no resource {resource!r} lives in {scope} or around it; those that do: {there}")


class ResourceScopeInvalid(ResourceError):
    """A resource cannot live in this scope."""

    def __init__(self, resource: str, scope: str, why: str) -> None:
        self.resource, self.scope = resource, scope
        super().__init__(f"resource {resource!r} cannot live in scope {scope}: {why}")


class ResourceClosed(ResourceError):
    """The scope that it belongs to has ended."""

    def __init__(self, resource: str, scope: str = "") -> None:
        self.resource, self.scope = resource, scope
        super().__init__(f"resource {resource!r} is closed{f': its scope {scope} has ended' if scope else ''}")


class ResourceBroken(ResourceError):
    """No sound handle could be made; tries counts how many were made or looked at."""

    def __init__(self, resource: str, tries: int, why: str) -> None:
        self.resource, self.tries = resource, tries
        super().__init__(f"resource {resource!r}: no sound handle after {tries} tries: {why}")


class ResourceBusy(ResourceError):
    """It cannot be had without waiting; holders name who has it."""

    def __init__(self, resource: str, size: int, holders: list[str]) -> None:
        self.resource, self.size, self.holders = resource, size, holders
        who = ", ".join(holders[:_NAMED_MAX]) or "nobody: a handle would have to be made or looked at first"
        super().__init__(f"resource {resource!r} ({size} at once) cannot be had without waiting; it is held by {who}")


WouldBlock = ResourceBusy
"""What `borrow_nowait` raises."""


class ResourceAccessTimeout(ResourceError):
    """It did not come free within the wait limit."""

    def __init__(self, resource: str, timeout_s: float, size: int, holders: list[str]) -> None:
        self.resource, self.timeout_s, self.size, self.holders = resource, timeout_s, size, holders
        who = ", ".join(holders[:_NAMED_MAX]) or "nobody"
        super().__init__(
            f"resource {resource!r} ({size} at once) did not come free within {timeout_s:g} s; it is held by {who}"
        )


class ResourceUpgradeRefused(ResourceError):
    """Who reads it asked to write: two that did so would wait for each other."""

    def __init__(self, resource: str, who: str) -> None:
        self.resource, self.who = resource, who
        super().__init__(
            f"resource {resource!r}: {who} reads it and asks to write; give it back first, then borrow anew"
        )


class ResourceDeadlock(ResourceError):
    """It would never come free: who holds it waits, in the end, for who asks. cycle: one sentence for each wait of it."""

    def __init__(self, resource: str, cycle: list[str]) -> None:
        self.resource, self.cycle = resource, cycle
        super().__init__(f"resource {resource!r} would never come free, a deadlock: {'; '.join(cycle)}")


class FolderGone(ResourceError):
    """A folder that is lent is no longer what stands at its path."""

    def __init__(self, folder: str, why: str) -> None:
        self.folder, self.why = folder, why
        super().__init__(f"folder {folder}: {why}; give it back, and the next to borrow it has it made or opened anew")


class FolderLimitReached(ResourceError):
    """A bound of a lent folder: limit names it, maximum is its value, in bytes where the name says so."""

    def __init__(self, folder: str, what: str, limit: str, maximum: int, way_out: str) -> None:
        self.folder, self.limit, self.maximum = folder, limit, maximum
        super().__init__(f"folder {folder}: {what}, over {maximum:,} ({limit}); {way_out}")


class ResourceLimitReached(ResourceError):
    """A bound of processes, handles or bytes is reached, and waiting for it would not end. limit is the setting, of a scope
    (program, tenant, agent, toolbox, conversation) of this name; held of size are in use."""

    def __init__(
        self, limit: str, scope: str, name: str, what: str, size: int, held: int, wanted: str, why: str
    ) -> None:
        self.limit, self.scope, self.name, self.size, self.held, self.wanted = limit, scope, name, size, held, wanted
        where = f"{scope} {name}" if name else f"the {scope}"
        super().__init__(
            f"no room for {wanted}: {limit} allows {size} {what} in {where}, {held} are in use, and {why}; raise {limit}, or "
            "give some back ('agentos lsof' shows who has them)"
        )


class ProcessError(ResourceError):
    """A process that is to stay does not. name is whose it is, said the end of what it printed on stderr, if anything."""

    def __init__(self, name: str, what: str, said: str = "") -> None:
        self.name, self.what, self.said = name, what, said
        super().__init__(f"{name}: {self.how}")

    @property
    def how(self) -> str:
        """The same without the name."""
        return f"{self.what}; it said: {self.said}" if self.said else self.what


class ProcessNotStarted(ProcessError):
    """It could not be started, or was not ready within its limit."""


class ProcessLost(ProcessError):
    """It ended, or was ended, while somebody waited for it: what it was asked may be done or not."""


class ProcessGaveUp(ProcessError):
    """It ended too often in too short a time, so it is not started again."""


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

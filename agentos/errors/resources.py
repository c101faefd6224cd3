"""A lent thing, or a process, cannot be had, kept or given back."""

from __future__ import annotations

from agentos.errors.base import NAMED_MAX, AgentosError


class ResourceError(AgentosError):
    """A lent thing could not be had or given back."""


class ReleaseFailed(ResourceError):
    """One or more releases of a scope failed; the others were done all the same."""

    def __init__(self, scope: str, failures: list[tuple[str, BaseException]]) -> None:
        self.scope, self.failures = scope, failures
        what = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures)
        super().__init__(f"scope {scope}: {len(failures)} releases failed: {what}")


class ResourceNotFound(ResourceError):
    """No resource of this name lives in the scope, or in one around it; or nothing else has the name: of says what was looked
    for. is_kind: there is a kind of this name, so one can be made."""

    def __init__(self, resource: str, scope: str, known: list[str], *, of: str = "", is_kind: bool = False) -> None:
        self.resource, self.scope, self.known = resource, scope, known
        there = ", ".join(sorted(known)[:NAMED_MAX]) or "none"
        words = f"no {of} is named {resource!r}; there are: {there}"
        if not of:
            words = f"no resource {resource!r} lives in {scope} or around it; those that do: {there}"
        if is_kind:
            words += f"; {resource!r} is a kind, of which context.resource({resource!r}) makes one"
        super().__init__(words)


class ResourceScopeInvalid(ResourceError):
    """A resource cannot live in this scope."""

    def __init__(self, resource: str, scope: str, why: str) -> None:
        self.resource, self.scope = resource, scope
        super().__init__(f"resource {resource!r} cannot live in scope {scope}: {why}")


class ResourceClosed(ResourceError):
    """The scope that it belongs to has ended, or has given it back before."""

    def __init__(self, resource: str, scope: str = "") -> None:
        self.resource, self.scope = resource, scope
        why = f": its scope {scope} has ended, or has given it back at somebody's word ('agentos release')"
        super().__init__(f"resource {resource!r} is closed{why if scope else ''}")


class ResourceBroken(ResourceError):
    """No sound handle could be made; tries counts how many were made or looked at."""

    def __init__(self, resource: str, tries: int, why: str) -> None:
        self.resource, self.tries = resource, tries
        super().__init__(f"resource {resource!r}: no sound handle after {tries} tries: {why}")


class ResourceBusy(ResourceError):
    """It cannot be had without waiting; holders name who has it."""

    def __init__(self, resource: str, size: int, holders: list[str]) -> None:
        self.resource, self.size, self.holders = resource, size, holders
        who = ", ".join(holders[:NAMED_MAX]) or "nobody: a handle would have to be made or looked at first"
        super().__init__(f"resource {resource!r} ({size} at once) cannot be had without waiting; it is held by {who}")


WouldBlock = ResourceBusy
"""What `borrow_nowait` raises."""


class ResourceAccessTimeout(ResourceError):
    """It did not come free within the wait limit."""

    def __init__(self, resource: str, timeout_s: float, size: int, holders: list[str]) -> None:
        self.resource, self.timeout_s, self.size, self.holders = resource, timeout_s, size, holders
        who = ", ".join(holders[:NAMED_MAX]) or "nobody"
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

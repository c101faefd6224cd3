"""What was waited for when the time was over: it travels on the cancellation, and stands in the words of whoever ended it."""

from __future__ import annotations

from asyncio import CancelledError


def attach_waiting(error: CancelledError, what: str) -> None:
    """Leaves on a cancellation what the cancelled one waited for, for `waited_for` to find. Who says so first knows best."""
    if not hasattr(error, "waited_for"):
        error.waited_for = what  # type: ignore[attr-defined]


def waited_for(error: BaseException) -> str:
    """Words to put behind those of a timeout; empty when nothing was waited for that is known."""
    seen: BaseException | None = error
    while seen is not None:
        what = getattr(seen, "waited_for", None)
        if isinstance(what, str):
            return f"; it waited for {what}"
        seen = seen.__cause__ or seen.__context__
    return ""

"""What a cancelled run had printed so far travels on the cancellation itself."""

from __future__ import annotations


def attach_partial(error: BaseException, text: str) -> None:
    """Leaves what a cancelled call had printed so far on the cancellation, for `partial_of` to find."""
    error.partial = text  # type: ignore[attr-defined]


def partial_of(error: BaseException) -> str:
    """What a cancelled or timed-out call had printed, also when a TimeoutError took the place of the cancellation."""
    seen: BaseException | None = error
    while seen is not None:
        text = getattr(seen, "partial", None)
        if isinstance(text, str):
            return text
        seen = seen.__cause__ or seen.__context__
    return ""

"""From what a server answers instead of a reply to a ModelError. Pure; the retry is decided by `complete`.

The messages go on from the name of the server, which the adapter puts before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentos.errors import ModelError
from agentos.ids import Micros
from agentos.models.retry_after import in_words, retry_after_s

WORDS_CHARS_MAX = 500

QUOTA_CODES = frozenset(
    {
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_too_low",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_quota",
        "quota_exceeded",
    }
)
"""Money or a quota that is used up: no wait helps."""

_QUOTA = re.compile(
    r"exceeded your current quota|insufficient (?:balance|quota|credit|funds)|credit balance is too low"
    r"|spending cap|billing hard limit|budget has been exceeded",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"context[ _](?:length|window|size)|maximum context|(?:input|prompt|request)s? (?:is|are) too (?:long|large)"
    r"|too many (?:input )?tokens|model token limit|exceeds? .{0,40}(?:token|context) (?:limit|length|window)",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overloaded|over capacity|at capacity|engine is (?:currently )?busy", re.IGNORECASE)

_KINDS = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "invalid_request",
    407: "auth",
    408: "timeout",
    409: "overloaded",
    425: "overloaded",
    429: "rate_limit",
    500: "overloaded",
    501: "unavailable",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    505: "unavailable",
    529: "overloaded",
}


class Said(msgspec.Struct, frozen=True):
    """What an error body says: the server's words, and its codes and types in lower case."""

    words: str
    codes: tuple[str, ...] = ()
    status: int | None = None


def status_error(status: int, headers: Mapping[str, str], body: bytes, now: Micros) -> ModelError:
    """For an answer whose status is no success. headers have lower-case names."""
    if 300 <= status < 400:
        return _redirected(status, headers)
    said = said_in(body, headers.get("content-type", ""))
    wait_s = retry_after_s(headers, said.words, now)
    return _error(f"answered {_status(status)}", status, said, wait_s)


def stream_error(chunk: Mapping[str, Any], now: Micros) -> ModelError | None:
    """For a chunk of a stream, or a body of status 200, that is an error; None when it is none."""
    if not chunk.get("error") and chunk.get("object") != "error" and chunk.get("type") != "error":
        return None
    said = _said(chunk)
    return _error("broke off with an error", said.status or 0, said, retry_after_s({}, said.words, now))


def said_in(body: bytes, content_type: str = "") -> Said:
    """The error of a body: an object of one of the usual forms, or else the text itself when it is one for people."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        is_page = "html" in content_type or text[:1] == "<"
        return Said("a page of HTML; is base_url that of an API?" if is_page else text)
    return _said(value)


def _said(value: Any) -> Said:
    """Takes {"error": {...}}, {"error": "..."}, {"message": ...}, {"detail": ...}, and lists of these."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if not isinstance(value, dict):
        return Said(value if isinstance(value, str) else "")
    inner: Any = value.get("error")
    error: dict[str, Any] = inner if isinstance(inner, dict) else {}
    detail = value.get("detail")
    words = _first_text(error.get("message"), inner, value.get("message"), detail, error.get("type"))
    if not words and (inner or detail):
        words = _as_json(inner or detail)
    fields = [source.get(name) for source in (error, value) for name in ("code", "type", "status")]
    codes = tuple(dict.fromkeys(field.lower() for field in fields if isinstance(field, str)))
    return Said(words, codes, next(filter(None, map(_as_status, fields)), None))


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"


def _first_text(*candidates: object) -> str:
    return next((text for text in candidates if isinstance(text, str) and text.strip()), "")


def _as_status(field: Any) -> int | None:
    if isinstance(field, str) and field.isdecimal() and len(field) == 3:
        field = int(field)
    return field if isinstance(field, int) and not isinstance(field, bool) and 400 <= field <= 599 else None


def _error(what: str, status: int, said: Said, wait_s: float | None) -> ModelError:
    kind = _kind(status, said, wait_s)
    message = f"{what}: {_capped(said.words)}" if said.words else what
    if wait_s is not None:
        message += f" (it asks to wait {in_words(wait_s)})"
    return ModelError(kind, message, retry_after_s=wait_s)


def _kind(status: int, said: Said, wait_s: float | None) -> str:
    """A body says more than its status. Words of a quota with a time to wait for mean a rate limit."""
    if not QUOTA_CODES.isdisjoint(said.codes):
        return "quota"
    if status in (0, 402, 403, 429) and wait_s is None and _QUOTA.search(said.words):
        return "quota"
    if "context_length_exceeded" in said.codes or (status in (0, 400, 413, 422) and _CONTEXT.search(said.words)):
        return "context"
    if status in (0, 429) and (_OVERLOADED.search(said.words) or any("overloaded" in code for code in said.codes)):
        return "overloaded"
    if status == 0:
        return _kind_of_codes(said.codes)
    if status >= 500:
        return _KINDS.get(status, "overloaded")
    return _KINDS.get(status, "invalid_request")


def _kind_of_codes(codes: tuple[str, ...]) -> str:
    """For an error inside a stream without a status: what nobody can name may go away by itself."""
    for code in codes:
        if "rate_limit" in code:
            return "rate_limit"
        if "auth" in code or "permission" in code:
            return "auth"
        if "invalid" in code or "not_found" in code:
            return "invalid_request"
    return "overloaded"


def _redirected(status: int, headers: Mapping[str, str]) -> ModelError:
    """Says where to, without the query, which may hold a secret."""
    try:
        to = urlsplit(headers.get("location", ""))
        where = f"{to.scheme}://{to.hostname}{to.path}" if to.hostname else to.path
    except ValueError:
        where = "an address that is none"
    return ModelError(
        "unavailable",
        f"answered {_status(status)}, a redirect to {_capped(where) or 'nowhere'}; "
        "redirects are not followed: set base_url to the address itself",
    )


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _capped(words: str) -> str:
    """One line of printable text, of WORDS_CHARS_MAX at most."""
    line = " ".join("".join(c if c.isprintable() else " " for c in words[: 4 * WORDS_CHARS_MAX]).split())
    return line if len(line) <= WORDS_CHARS_MAX else line[: WORDS_CHARS_MAX - 1] + "…"

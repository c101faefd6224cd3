"""Whether a produced draft is what is stored, and what differs, as plain readable data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentos.codec import encode_body, encode_json
from agentos.errors import CodecError
from agentos.events.entry import ERASED, Draft, Head, decode_head, encode_head
from agentos.events.kinds import JSON_PAYLOADS
from agentos.persistence.base import StoredEntry

Leaves = dict[str, Any]
"""An entry as plain values by path: `kind`, `data.status`, `changes.3.turn_state.phase`, `private.0.text`."""


class _ErasedBody(str):
    """Says itself in a list of leaves, and is no text that anybody wrote."""


ERASED_BODY = _ErasedBody("(erased)")
_NOTHING = object()


def entry_leaves(stored: StoredEntry) -> Leaves:
    """A stored entry, all but its place in the chain. Raises CodecError."""
    head = decode_head(stored.head)
    bodies = {i: body for i, _, _, body in stored.payloads}
    names = [name for name, _ in head.commitments]
    private = [(name, bodies.get(i)) for i, name in enumerate(names)]
    return _leaves(head, [(name, ERASED_BODY if body is None else body) for name, body in private])


def draft_leaves(draft: Draft) -> Leaves:
    """A produced draft in the same form, by way of the same bytes."""
    head = decode_head(encode_head(draft, 0, 0, 0, 0, ()))
    return _leaves(head, [(name, _body(name, value)) for name, value in draft.private])


def is_same(stored: StoredEntry, head: Head, draft: Draft) -> bool:
    """Byte by byte, and quick; False also for what is the same in another form, for which the leaves tell. head is the
    stored one, decoded."""
    if encode_head(draft, head.seq, head.unit, head.at, head.writer, head.commitments) != stored.head.encode():
        return False
    private = draft.private
    if not private and not head.commitments:
        return True
    if [name for name, _ in private] != [name for name, _ in head.commitments]:
        return False
    bodies = {i: body for i, _, _, body in stored.payloads}
    return all(bodies.get(i) in (None, _body(name, value)) for i, (name, value) in enumerate(private))


def differing(stored: Leaves, produced: Leaves, ignored: Sequence[str] = ()) -> tuple[Leaves, Leaves]:
    """The paths at which they differ, with the values on either side; a missing one is left out. Erased bodies equal
    anything."""
    paths = [*stored, *(path for path in produced if path not in stored)]
    found = [path for path in paths if path not in ignored and not _equal(path, stored, produced)]
    return ({p: stored[p] for p in found if p in stored}, {p: produced[p] for p in found if p in produced})


def _equal(path: str, stored: Leaves, produced: Leaves) -> bool:
    a, b = stored.get(path, _NOTHING), produced.get(path, _NOTHING)
    if path.startswith("private."):
        return a is not _NOTHING and b is not _NOTHING and (a == b or type(a) is _ErasedBody)
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _leaves(head: Any, private: Sequence[tuple[str, str]]) -> Leaves:
    leaves: Leaves = {"kind": head.kind, "turn": head.turn, "call": head.call, "by": head.by, "cause": head.cause}
    _flatten("data", head.data or {}, leaves)
    leaves["changes"] = [f"{entity}.{name}" for entity, name, _ in head.changes]
    for entity, name, value in head.changes:
        _flatten(f"changes.{entity}.{name}", value, leaves)
    for i, (name, body) in enumerate(private):
        leaves[f"private.{i}.{name}"] = body
    return leaves


def _flatten(path: str, value: Any, leaves: Leaves) -> None:
    if not isinstance(value, Mapping):
        leaves[path] = value
        return
    for key, inner in sorted(value.items()):
        _flatten(f"{path}.{key}", inner, leaves)


def _body(name: str, value: Any) -> str:
    if value is ERASED:
        return ERASED_BODY
    try:
        return encode_json(value) if name in JSON_PAYLOADS else encode_body(value)
    except (CodecError, msgspec.EncodeError, RecursionError) as error:
        return f"(a value without a stored form: {error})"

"""From a pass to a unit: drafts become entries with seq, digest and commitments, and everything that goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec

from agentos.codec import encode_body, encode_json
from agentos.components import Component
from agentos.events.entry import Draft, encode_head
from agentos.events.intake import POST_KIND, ChildEnded, Item
from agentos.events.kinds import JSON_PAYLOADS, MESSAGE_ROLES, CallResolved, PayloadErased, Snapshot, role_of
from agentos.ids import Micros, Name, SaltSource
from agentos.journal.forgetting import leaving
from agentos.journal.projections import Times, project, resolutions_of
from agentos.persistence.base import EntryRow, InboxRow, LogRow, MessageRow, PayloadRow, Unit, WakeupRow
from agentos.world import Alarm, Post, View

C = TypeVar("C", bound=Component)

_REACHING_BACK = frozenset({CallResolved.kind, PayloadErased.kind})
"""Kinds whose entries change rows of earlier units. They are rare: no other unit looks for what they change."""


class Head(msgspec.Struct, kw_only=True):
    """Where a log ends, and this writer's right to go on with it. new: no unit of it is stored yet."""

    row: LogRow
    snapshot: int = 0
    new: bool = False


class Sealed(msgspec.Struct, gc=False):
    """A unit on its way to the store, and what its pass leaves behind once it is there."""

    unit: Unit
    drafts: Sequence[Draft]
    first: int
    at: Micros
    shown: str


def seal(view: View, head: Head, writer: int, times: Times, salts: SaltSource, snapshot_entries: int) -> Sealed:
    """The unit of a pass. Nothing that it is made from is changed, but for a snapshot that is due and joins the view."""
    if view.next - 1 - head.snapshot > snapshot_entries:
        view.add_snapshot(snapshot_of(view))
    unit = seal_drafts(view.drafts, head, view.first, view.now, writer, salts)
    projection = project(view.log, view.over, view.now, view.find, times)
    unit.conversation, unit.turns, unit.calls = projection.conversation, projection.turns, projection.calls
    unit.components = projection.components
    if view.posts:
        unit.posts = [_inbox_row(post, unit.digest, salts) for post in view.posts]
    if view.alarms:
        unit.wakeups = [wakeup_row(view.log, alarm) for alarm in view.alarms]
    return Sealed(unit, view.drafts, view.first, view.now, projection.shown)


def seal_drafts(drafts: Sequence[Draft], head: Head, first: int, at: int, writer: int, salts: SaltSource) -> Unit:
    """The chained entries of a unit; also for logs of administration, which have no pass."""
    entries: list[EntryRow] = []
    payloads: list[PayloadRow] = []
    messages: list[MessageRow] = []
    row = head.row
    digest, seq, reaches_back = row.digest, first, False
    for draft in drafts:
        kind = draft.data.kind
        if kind in _REACHING_BACK:
            reaches_back = True
        commitments = _commit(draft, seq, payloads, messages, salts) if draft.private else ()
        encoded = encode_head(draft, seq, first, at, writer, commitments)
        digest = sha256(digest + encoded).digest()
        entries.append((seq, first, kind, draft.turn, draft.call, at, encoded.decode(), digest))
        seq += 1
    unit = Unit(
        log=row.id,
        owner=row.owner,
        epoch=row.epoch,
        previous_seq=row.seq,
        previous=row.digest,
        seq=seq - 1,
        digest=digest,
        entries=entries,
        payloads=payloads,
        messages=messages,
        create=row if head.new else None,
    )
    if reaches_back:
        unit.resolved, unit.erases = resolutions_of(drafts), erases_of(drafts)
    return unit


def erases_of(drafts: Sequence[Draft]) -> int:
    """The seq up to which the private values of the log go with a unit, 0 for none. A receipt is the first of its unit."""
    data = drafts[0].data if drafts else None
    return data.upto if type(data) is PayloadErased else 0


def _commit(
    draft: Draft, seq: int, payloads: list[PayloadRow], messages: list[MessageRow], salts: SaltSource
) -> list[tuple[str, bytes]]:
    role = MESSAGE_ROLES.get(draft.data.kind)
    if role == "tool":  # else it need not be asked
        role = role_of(draft.data.kind, draft.data)
    commitments = []
    i = 0
    for name, value in draft.private:
        salt, body = salts.salt(), encode_json(value) if name in JSON_PAYLOADS else encode_body(value)
        commitments.append((name, sha256(salt + body.encode()).digest()))
        if i == 0 and role is not None:
            messages.append((seq, role, draft.turn, draft.call, salt, body))
        else:
            payloads.append((seq, i, name, salt, body))
        i += 1
    return commitments


def snapshot_of(view: View) -> Draft:
    """Every stored component that stays loaded after the unit, as one entry at which a fold may begin."""
    found = view.entities()
    gone = leaving({entity for entity, _ in found}, view.drafts, view.turn)
    changes = tuple(
        (entity, component)
        for entity, type_ in found
        if entity not in gone and (component := view.find(entity, type_)) is not None
    )
    return Draft(data=Snapshot(), changes=changes)


def posted_item(post: Post, digest: bytes) -> Item:
    """The item as it arrives: the end of a child's turn names the child's digest after that unit."""
    if post.end and isinstance(post.item, ChildEnded):
        return msgspec.structs.replace(post.item, child_head=Name(digest.hex()))
    return post.item


def _inbox_row(post: Post, digest: bytes, salts: SaltSource) -> InboxRow:
    item = posted_item(post, digest)
    return InboxRow(
        log=post.log,
        key=post.key,
        kind=POST_KIND[type(item)],
        salt=salts.salt(),
        body=encode_body(msgspec.to_builtins(item)),
    )


def wakeup_row(log: str, alarm: Alarm) -> WakeupRow:
    return WakeupRow(log=log, reason=alarm.reason, turn=alarm.turn, call=alarm.call, due_at=alarm.due_at)

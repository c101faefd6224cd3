"""Conversations that are not for this kernel to go on with: others have them, or nobody may before a person says so.

The latter an import brought with work left to do. Their last word is a `conversation.paused` by IMPORTER. That alone would
let the open turn go on to its end; so no kernel takes such a conversation while nobody has owned it, until a word waits in
its inbox: unpause, cancel or erase.
"""

from __future__ import annotations

from agentos import codec
from agentos.events.entry import decode_head
from agentos.events.intake import POST_KIND, Cancel, Control, ControlItem, Erase
from agentos.events.kinds import CONTROLS
from agentos.ids import Name
from agentos.persistence.base import LogRow, Store

IMPORTER = Name("import")
"""By whom a conversation is paused that came from elsewhere."""
NOBODY = 0
_ENDS = frozenset({POST_KIND[Cancel], POST_KIND[Erase]})
_KINDS = tuple(data.kind for data in CONTROLS.values())


class Foreign(Exception):
    """A living writer of another process owns the log."""


async def is_held(store: Store, row: LogRow) -> bool:
    """Whether nobody may go on with a log yet. It costs a read only where no writer has ever owned it."""
    if row.owner != NOBODY:
        return False
    after = row.upto if row.forked_from is not None else 0
    said = await store.entries(row.id, after, kinds=_KINDS)
    if not said or said[-1].kind != CONTROLS[Control.PAUSE].kind or decode_head(said[-1].head).by != IMPORTER:
        return False
    return not await _is_let_go(store, row)


async def _is_let_go(store: Store, row: LogRow) -> bool:
    """Whether somebody said that it may go on, that its turn is to end, or that it is to be erased: none of these runs
    anything that a person has not asked for."""
    for waiting in await store.inbox(row.id):
        if waiting.kind in _ENDS:
            return True
        if waiting.kind == POST_KIND[ControlItem]:
            item = codec.convert(codec.decode_json(waiting.body), ControlItem)
            if item.control is Control.UNPAUSE:
                return True
    return False

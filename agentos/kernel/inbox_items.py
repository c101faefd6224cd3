"""What lies in the inbox of a log, as rows and as the items that these hold."""

from __future__ import annotations

import os

import msgspec

from agentos import codec
from agentos.events.intake import POST_KIND, POSTED, Item
from agentos.persistence.base import InboxRow


def item_of(row: InboxRow) -> Item:
    """The item that an inbox row holds. Raises CodecError."""
    return codec.convert(codec.decode_json(row.body), POSTED[row.kind])  # type: ignore[return-value]


def inbox_row(log: str, key: str, item: Item) -> InboxRow:
    return InboxRow(
        log=log,
        key=key,
        kind=POST_KIND[type(item)],
        salt=os.urandom(16),
        body=codec.encode_body(msgspec.to_builtins(item)),
    )

"""Ids and salts that count: the adapters of `agentos.ids.IdSource` and `SaltSource` for tests."""

from __future__ import annotations

from agentos.ids import SALT_BYTES, Kind, base32

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


class SequentialIds:
    """Valid TypeIDs that sort by birth: the millisecond of a UUIDv7 is the count, its random bits are zero."""

    def __init__(self, first: int = 1) -> None:
        self.made = first - 1

    def new(self, kind: Kind) -> str:
        self.made += 1
        return f"{kind.value}_{base32(self.made << 80 | _VERSION_7 | _VARIANT)}"


class SequentialSalts:
    """Salts that hide nothing: the same kernel makes the same digests again."""

    def __init__(self) -> None:
        self.made = 0

    def salt(self) -> bytes:
        self.made += 1
        return self.made.to_bytes(SALT_BYTES, "big")

"""What all entry kinds have."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components import Phase

NO_PHASE: frozenset[Phase] = frozenset()


class EntryData(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What an entry says beside its component changes."""

    kind: ClassVar[str]
    fed: ClassVar[bool] = False
    private: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[frozenset[Phase]] = NO_PHASE
    writer: ClassVar[str] = ""

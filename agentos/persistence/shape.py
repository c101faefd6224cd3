"""Whether a database itself is as its schema makes it: what stands beside the rows, and could hide or change them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as the schema has it: a table, a view, a trigger, an index, or one value of another type.

    log is that of the row, None where it is of no log or of none that can be told; seq is 0 where there is none. stored and
    expected are short words, and None for nothing. No value is shown.
    """

    log: str | None = None
    seq: int = 0
    table: str
    field: str
    stored: str | None
    expected: str | None


@runtime_checkable
class Shaped(Protocol):
    """A store that others may reach past us, by the language of its database. Others hold nothing but rows."""

    async def misfits(self, *, rows: bool = True) -> list[Misfit]:
        """What is not as the schema has it. What others keep beside it, as a view or an index of their own, is none.

        rows: also what is wrong in rows and pages, which takes a look at all of them. Raises StoreUnavailable.
        """

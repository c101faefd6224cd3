"""Who waits for inner calls: the tools of this process that asked for them. Live; the log knows nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agentos.components import CallStatus
from agentos.events.entry import Draft
from agentos.events.intake import InnerCall, Item
from agentos.events.kinds import CallFinished
from agentos.ids import LogId, call_id
from agentos.ports import InnerResult

Asked = asyncio.Future[InnerResult | None]
"""The end of an inner call; None when it was refused: the attempt that asked was over."""


class InnerCalls:
    """Those of one conversation: first by what was asked, then, once that is stored, by the seq of the inner call.

    A waiter that was cancelled changes nothing: the call goes on.
    """

    def __init__(self, log: LogId) -> None:
        self._log = log
        self._asked: dict[tuple[int, int, int], Asked] = {}
        self._nested: dict[int, Asked] = {}

    def ask(self, item: InnerCall) -> Asked:
        waiter = self._asked[_key(item)] = asyncio.get_running_loop().create_future()
        return waiter

    def nested(self, seq: int, draft: Draft) -> None:
        """The inner call is stored at this seq."""
        if isinstance(draft.fed, InnerCall) and (waiter := self._asked.pop(_key(draft.fed), None)) is not None:
            self._nested[seq] = waiter

    def finished(self, draft: Draft) -> None:
        """The end of a call is stored; a lost attempt is none."""
        data = draft.data
        if not isinstance(data, CallFinished) or data.status is CallStatus.LOST:
            return
        waiter = self._nested.pop(draft.call, None)
        if waiter is None or waiter.done():
            return
        private = dict(draft.private)
        text = private.get("whole", private["result"])
        waiter.set_result(
            InnerResult(call=call_id(self._log, draft.call), status=data.status, text=text, kind=data.call_kind)
        )

    def refused(self, taken: Iterable[Item]) -> None:
        """What a pass took and made no call of."""
        for item in taken if self._asked else ():
            waiter = self._asked.pop(_key(item), None) if isinstance(item, InnerCall) else None
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


def _key(item: InnerCall) -> tuple[int, int, int]:
    return item.call, item.attempt, item.index

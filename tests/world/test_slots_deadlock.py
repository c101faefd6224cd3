"""Slots tell a call in line whether it would wait for ever: for room that is held by calls which wait for it."""

from __future__ import annotations

import pytest

from agentos.components import Access, ToolboxSharing
from agentos.ids import Name
from agentos.resources import Slots
from agentos.resources.borrowing import Caller

READ, WRITE = Access.READ, Access.WRITE
OUTER, OTHER, INNER, THIRD = (("conversation_a", n) for n in range(1, 5))


class Granted(list[Caller]):
    def __call__(self, log: str, call: int) -> None:
        self.append((log, call))


def slots(sharing: ToolboxSharing, size: int = 0) -> Slots:
    made = Slots(Granted())
    for name in ("desk", "shelf"):
        made.add(Name(name), sharing, size)
    return made


def take(of: Slots, caller: Caller, access: Access = WRITE, toolbox: str = "desk") -> bool:
    return of.take(Name(toolbox), caller, "main", access)


@pytest.mark.parametrize(("sharing", "size"), [(ToolboxSharing.EXCLUSIVE, 0), (ToolboxSharing.POOL, 1)])
def test_room_that_a_caller_holds_never_comes_free_for_what_it_waits_for(sharing: ToolboxSharing, size: int) -> None:
    desk = slots(sharing, size)
    took = take(desk, OUTER), take(desk, INNER)

    assert took == (True, False)
    assert desk.deadlock(INNER, [OUTER])
    assert desk.statistics()[0].waiters == ()


def test_room_that_somebody_else_holds_comes_free() -> None:
    desk = slots(ToolboxSharing.EXCLUSIVE)
    take(desk, OTHER)
    take(desk, INNER)

    assert not desk.deadlock(INNER, [OUTER])
    assert desk.statistics()[0].waiters == (INNER,)


def test_a_pool_is_stuck_with_the_last_of_those_who_hold_it() -> None:
    pool = slots(ToolboxSharing.POOL, 2)
    for caller in (OUTER, OTHER, INNER, THIRD):
        take(pool, caller)
    first, second = bool(pool.deadlock(INNER, [OUTER])), bool(pool.deadlock(THIRD, [OTHER]))

    assert (first, second) == (False, True)
    pool.give_back(OTHER)
    assert pool.holds(INNER)


def test_a_reader_behind_a_writer_waits_for_its_own_caller() -> None:
    book = slots(ToolboxSharing.READ_WRITE)
    took = take(book, OUTER, READ), take(book, OTHER, WRITE), take(book, INNER, READ)

    assert took == (True, False, False)
    assert book.deadlock(INNER, [OUTER])
    book.give_back(OUTER)
    assert book.holds(OTHER)


def test_two_calls_that_each_want_what_the_other_holds_are_stuck_over_two_toolboxes() -> None:
    boxes = slots(ToolboxSharing.EXCLUSIVE)
    take(boxes, OUTER, toolbox="desk")
    take(boxes, OTHER, toolbox="shelf")
    take(boxes, INNER, toolbox="shelf")
    take(boxes, THIRD, toolbox="desk")
    first, second = bool(boxes.deadlock(INNER, [OUTER])), bool(boxes.deadlock(THIRD, [OTHER]))

    assert (first, second) == (False, True)
    boxes.give_back(OTHER)
    assert boxes.holds(INNER)


def test_a_call_that_holds_room_or_asked_for_none_does_not_wait() -> None:
    desk = slots(ToolboxSharing.EXCLUSIVE)
    take(desk, OUTER)

    assert not desk.deadlock(OUTER, [OTHER])
    assert not desk.deadlock(INNER, [OUTER])

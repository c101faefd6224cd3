"""What an erase would touch: a conversation with its children, and the forks that share their entries. It needs no kernel.

The logs stand in the order in which they are erased: forks before what they are forks of, children before parents, the
conversation itself last. What a crash cuts short is so always a tree whose root says that it is not done.
"""

from __future__ import annotations

import msgspec

from agentos.errors import UnknownConversation
from agentos.ids import LogId, Name
from agentos.kernel.listing import Queried

_LOG = """
select logs.id, conversations.agent, conversations.state, conversations.depth, conversations.parent, logs.parent_call,
    conversations.root, logs.forked_from, logs.upto, logs.seq, logs.erased_at, conversations.open_turn,
    conversations.updated_at,
    (select count(*) from payloads where payloads.n = logs.n and payloads.body is not null)
        + (select count(*) from messages where messages.n = logs.n and messages.text is not null)
from logs join conversations on conversations.n = logs.n
"""
_ONE = f"{_LOG} where logs.id = ?"
_BELOW = f"{_LOG} where conversations.root = ? and conversations.parent is not null and logs.id <> ?"
_FORKS = "select id from logs where forked_from = ? order by n"
_UNBEGUN = """
select inbox.log, owners.id from inbox join calls on calls.child = inbox.log join logs as owners on owners.n = calls.n
where inbox.seq is null and not exists (select 1 from logs where logs.id = inbox.log)
"""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One log that goes: whose it is, where it ends (seq), and how many private values of its own entries stand (bodies).

    state is as `ps` shows it. Times are in microseconds, UTC; erased_at is None while its texts stand.
    """

    log: LogId
    agent: Name
    state: str
    depth: int
    parent: LogId | None
    parent_call: str | None
    root: LogId
    forked_from: LogId | None
    upto: int
    seq: int
    erased_at: int | None
    open_turn: int | None
    updated_at: int
    bodies: int


class ErasePlan(msgspec.Struct, frozen=True, kw_only=True):
    """targets in the order of the erase, the conversation itself last. forks are those that share entries of it and are not
    erased; they are among the targets when they are to go too. unbegun are children whose task nobody has taken, each
    with the log that asked."""

    conversation: LogId
    targets: tuple[Target, ...]
    forks: tuple[LogId, ...]
    unbegun: tuple[tuple[LogId, LogId], ...] = ()

    @property
    def itself(self) -> Target:
        return self.targets[-1]

    @property
    def standing(self) -> tuple[Target, ...]:
        """Those that are not erased yet."""
        return tuple(target for target in self.targets if target.erased_at is None)


async def erase_plan_of(store: Queried, conversation: str, *, forks: bool = False) -> ErasePlan:
    """What would go with a conversation, with or without its forks. Raises UnknownConversation, StoreError."""
    trees = [await _tree(store, conversation)]
    if not trees[0]:
        raise UnknownConversation(conversation)
    known = {target.log for target in trees[0]}
    for tree in trees:  # grows: forks have children and forks of their own
        for target in tree:
            for (fork,) in (await store.query(_FORKS, (target.log,))).rows:
                if fork not in known:
                    trees.append(await _tree(store, fork))
                    known.update(target.log for target in trees[-1])
    living = tuple(tree[-1].log for tree in trees[1:] if tree[-1].erased_at is None)
    going = trees[::-1] if forks else trees[:1]
    targets = tuple(target for tree in going for target in tree)
    return ErasePlan(
        conversation=trees[0][-1].log, targets=targets, forks=living, unbegun=await _unbegun(store, targets)
    )


async def target_of(store: Queried, log: str) -> Target:
    """One log as it stands. Raises UnknownConversation."""
    for row in (await store.query(_ONE, (log,))).rows:
        return Target(**dict(zip(Target.__struct_fields__, row, strict=True)))
    raise UnknownConversation(log)


async def _tree(store: Queried, root: str) -> list[Target]:
    """A conversation with all below it, the deepest first and itself last; empty when there is none."""
    rows = (await store.query(_ONE, (root,))).rows
    rows += (await store.query(_BELOW, (root, root))).rows
    found = [Target(**dict(zip(Target.__struct_fields__, row, strict=True))) for row in rows]
    return sorted(found, key=lambda target: (target.log == root, -target.depth))


async def _unbegun(store: Queried, targets: tuple[Target, ...]) -> tuple[tuple[LogId, LogId], ...]:
    """Few tasks lie in the inbox of a child that was never begun: those of a process that has died."""
    asked = {target.log for target in targets}
    found = (await store.query(_UNBEGUN)).rows
    return tuple((LogId(child), LogId(owner)) for child, owner in found if owner in asked)

"""The command that erases: conversations at rest with all below them, one log after the other, each by an entry of its own.

A log of this kernel gets the command as intake, one of another living process by its inbox, one of a dead process is taken
over first. What the command counts is counted again when the log went on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Sequence

import msgspec

from agentos.clock import Clock
from agentos.errors import (
    ConversationClosed,
    EraseHasForks,
    EraseOfSubagent,
    EraseTooEarly,
    EraseTurnOpen,
    EraseUnanswered,
)
from agentos.events.intake import Erase
from agentos.ids import ConversationId, LogId, Name, name_of
from agentos.kernel.commands import Commands
from agentos.kernel.erase_plan import ErasePlan, Target, erase_plan_of, target_of
from agentos.kernel.erasure import Erasure, Receipt, bytes_words, receipt_of
from agentos.kernel.logs import Foreign
from agentos.kernel.owners import owner_words
from agentos.kernel.retention import Rules
from agentos.persistence.base import Store
from agentos.persistence.search_index import SearchIndex

TRIES_MAX = 10
"""How often a log is counted anew that goes on while it is counted."""


class Erasing:
    """Erases for one kernel."""

    def __init__(self, store: Store, commands: Commands, rules: Rules, clock: Clock) -> None:
        self._store, self._commands, self._rules, self._clock = store, commands, rules, clock

    async def erase(self, conversation: LogId, by: str, reason: Name, *, forks: bool) -> Erasure:
        """See `Kernel.erase`."""
        erasure = await self.erase_unsettled(conversation, by, reason, forks=forks)
        return msgspec.structs.replace(erasure, settled=await self._store.settle_erased())

    async def erase_unsettled(self, conversation: LogId, by: str, reason: Name, *, forks: bool) -> Erasure:
        """Without waiting until the bytes are overwritten in the files of the store: for one of many."""
        plan = await self.plan(conversation, forks=forks)
        receipts: list[Receipt] = []
        try:
            for target in plan.targets:
                receipt = await self._erased(plan, target, name_of(by), reason)
                receipts.append(receipt)
        finally:
            index = await forget_beside(self._store.url, [receipt.log for receipt in receipts])
        itself = plan.itself
        return Erasure(
            conversation=ConversationId(itself.log),
            receipts=tuple(receipts),
            new=len(plan.standing),
            store=bytes_words(self._store.url),
            index=index,
            shared_from=itself.forked_from,
            shared_upto=itself.upto if itself.forked_from is not None else 0,
        )

    async def plan(self, conversation: LogId, *, forks: bool) -> ErasePlan:
        """What goes; a conversation that is erased already is not refused. Raises what `check` does."""
        plan = await erase_plan_of(self._store, conversation, forks=forks)
        if plan.itself.erased_at is None:
            await self.check(plan, forks=forks)
        return plan

    async def check(self, plan: ErasePlan, *, forks: bool) -> None:
        """Raises EraseOfSubagent, EraseTurnOpen, EraseHasForks, EraseTooEarly."""
        id_, itself = plan.conversation, plan.itself
        if itself.parent_call is not None:
            raise EraseOfSubagent(id_, itself.root)
        for target in plan.standing:
            _check_at_rest(id_, target)
        for child, asker in plan.unbegun:
            raise EraseTurnOpen(
                id_, asker, f"the task for {child} waits to be taken (agentos run --resume): work is open"
            )
        if plan.forks and not forks:
            raise EraseHasForks(id_, list(plan.forks))
        for target in plan.standing:
            rule = await self._rules.of(target.agent, target.log)
            until = target.updated_at + round((rule.keep_s or 0) * 1e6)
            if rule.keep_s and until > self._clock.now():
                raise EraseTooEarly(id_, target.log, target.agent, rule.keep_s, until)

    async def _erased(self, plan: ErasePlan, target: Target, by: Name, reason: Name) -> Receipt:
        """The receipt of one log, which is erased when this returns; one that was so before has its own."""
        for _ in range(TRIES_MAX):
            if target.erased_at is not None:
                return await receipt_of(self._store, target.log, target.agent, target.upto)
            _check_at_rest(plan.conversation, target)
            item = Erase(upto=target.seq, bodies=target.bodies, reason=reason, by=by)
            await self._command(plan.conversation, target.log, item)
            target = await target_of(self._store, target.log)
        raise EraseTurnOpen(
            plan.conversation, target.log, f"{TRIES_MAX} times something came in before the command did"
        )

    async def _command(self, conversation: LogId, log: LogId, item: Erase) -> None:
        """Until the owner of the log has decided on the item; it may have dropped it."""
        with contextlib.suppress(ConversationClosed):  # erased meanwhile, or it went on: its row tells
            try:
                await self._commands.erase(log, item)
            except Foreign:
                if not await self._commands.by_inbox(log, f"erase:{uuid.uuid4().hex}", item):
                    raise EraseUnanswered(conversation, log, await owner_words(self._store, log)) from None


async def forget_beside(url: str, logs: Sequence[LogId]) -> str | None:
    """Takes these logs out of the search index, where there is one, and says where that is. Raises IndexUnavailable."""
    path = SearchIndex.beside(url)
    if path is None or not logs or not path.exists():
        return None
    await asyncio.to_thread(SearchIndex(path).forget, logs)
    return str(path)


def _check_at_rest(conversation: LogId, target: Target) -> None:
    if target.open_turn:
        raise EraseTurnOpen(conversation, target.log)

"""The command that erases: conversations at rest with all below them, one log after the other, each by an entry of its own.

A log of this kernel gets the command as intake, one of another living process by its inbox, one of a dead process is taken
over first. What the command counts is counted again when the log went on meanwhile.
"""

from __future__ import annotations

import contextlib
import uuid

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
from agentos.kernel.held import Foreign
from agentos.kernel.owners import owner_words
from agentos.kernel.retention import Rules
from agentos.kernel.search_beside import forget_beside
from agentos.persistence.base import Store

TRIES_MAX = 10
"""How often a log is counted anew that goes on while it is counted."""
ROUNDS_MAX = 10
"""How often it is looked again for forks that began while the erase was at work."""


class Erasing:
    """Erases for one kernel."""

    def __init__(self, store: Store, commands: Commands, rules: Rules, clock: Clock) -> None:
        self._store, self._commands, self._rules, self._clock = store, commands, rules, clock

    async def erase(self, conversation: LogId, by: str, reason: Name, *, forks: bool) -> Erasure:
        """See `Kernel.erase`."""
        receipts: dict[LogId, Receipt] = {}
        plan = await self.plan(conversation, forks=forks)
        try:
            erasure = await self.erase_planned(plan, by, reason, receipts, forks=forks)
        finally:
            index = await forget_beside(self._store.url, receipts)
        return msgspec.structs.replace(erasure, index=index, settled=await self._store.settle_erased())

    async def erase_planned(
        self,
        plan: ErasePlan,
        by: str,
        reason: Name,
        receipts: dict[LogId, Receipt],
        *,
        forks: bool,
        tries: int = TRIES_MAX,
    ) -> Erasure:
        """What is planned and, with forks, what has begun to share entries with it meanwhile. Bytes and the search index are
        left to the caller; receipts, empty at first, has what is erased when this raises, too. tries is how often a log is
        counted: at 1, one that goes on meanwhile is left."""
        new = 0
        for _ in range(ROUNDS_MAX):
            for target in plan.targets:
                if target.log not in receipts:
                    receipts[target.log], is_new = await self._erased(plan, target, name_of(by), reason, tries)
                    new += is_new
            plan = await self.plan(plan.conversation, forks=forks)
            if not plan.standing:
                break
        itself = plan.itself
        return Erasure(
            conversation=ConversationId(itself.log),
            receipts=tuple(receipts.values()),
            new=new,
            store=bytes_words(self._store.url),
            shared_from=itself.forked_from,
            shared_upto=itself.upto if itself.forked_from is not None else 0,
            living_forks=plan.forks,
        )

    async def plan(self, conversation: LogId, *, forks: bool) -> ErasePlan:
        """What goes; a conversation that is erased already is not refused, what else is to go with it may be. Raises what
        `check` does."""
        plan = await erase_plan_of(self._store, conversation, forks=forks)
        if plan.standing:
            await self.check(plan, forks=forks)
        return plan

    async def check(self, plan: ErasePlan, *, forks: bool) -> None:
        """Raises EraseOfSubagent, EraseTurnOpen, EraseHasForks, EraseTooEarly."""
        id_, itself = plan.conversation, plan.itself
        if itself.parent_call is not None and itself.erased_at is None:
            raise EraseOfSubagent(id_, itself.root)
        for target in plan.standing:
            _check_at_rest(id_, target)
        for child, asker in plan.unbegun:
            raise EraseTurnOpen(id_, asker, f"the task for {child} waits to be taken: work is open")
        if plan.forks and not forks:
            raise EraseHasForks(id_, list(plan.forks))
        for target in plan.standing:
            await self._check_kept(id_, target)

    async def _check_kept(self, conversation: LogId, target: Target) -> None:
        """Raises EraseTooEarly."""
        rule = await self._rules.of(target.agent, target.log)
        until = target.updated_at + round((rule.keep_s or 0) * 1e6)
        if rule.keep_s and until > self._clock.now():
            raise EraseTooEarly(conversation, target.log, target.agent, rule.keep_s, until)

    async def _erased(
        self, plan: ErasePlan, target: Target, by: Name, reason: Name, tries: int
    ) -> tuple[Receipt, bool]:
        """The receipt of one log, which is erased when this returns, and whether it is of this command: one that was erased
        before has its own."""
        sent_upto = None
        for n in range(tries):
            if target.erased_at is None:
                _check_at_rest(plan.conversation, target)
                if n:  # it went on since the plan was checked, so its time begins anew
                    await self._check_kept(plan.conversation, target)
                item = Erase(upto=target.seq, bodies=target.bodies, reason=reason, by=by)
                sent_upto = item.upto if await self._command(plan.conversation, target.log, item) else None
                target = await target_of(self._store, target.log)
            if target.erased_at is not None:
                await self._commands.sending.drop_late(target.log)
                receipt = await receipt_of(self._store, target.log, target.agent, target.upto)
                return receipt, sent_upto is not None and receipt.seq == sent_upto + 1
        raise EraseTurnOpen(plan.conversation, target.log, "something came in before the command did")

    async def _command(self, conversation: LogId, log: LogId, item: Erase) -> bool:
        """Until the owner of the log has decided on the item. False when this kernel dropped it; another process may have."""
        with contextlib.suppress(ConversationClosed):  # erased meanwhile, or it went on: its row tells
            try:
                return bool(await self._commands.erase(log, item))
            except Foreign:
                taken = await self._commands.sending.hand_over(log, f"erase:{uuid.uuid4().hex}", item)
            if not taken:
                raise EraseUnanswered(conversation, log, await owner_words(self._store, log))
            return True
        return False


def _check_at_rest(conversation: LogId, target: Target) -> None:
    if target.open_turn:
        raise EraseTurnOpen(conversation, target.log)

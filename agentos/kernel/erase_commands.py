"""What people say to a kernel about erasing: one conversation, those that have had their time, and what is left in files."""

from __future__ import annotations

from collections.abc import Collection

from agentos.definitions import AgentSpec
from agentos.ids import name_of
from agentos.kernel.erase_plan import ErasePlan
from agentos.kernel.erasure import Erasure
from agentos.kernel.machine import Machine
from agentos.kernel.sweeping import TellLeft, log_left


class EraseCommands(Machine):
    """The part of a kernel that answers them."""

    async def erase(self, id_: str, *, by: str = "user", reason: str = "request", forks: bool = False) -> Erasure:
        """Erases the texts of a conversation and of all below it; entries, digests and the lineage stay, and verify.

        The conversation is closed by it for good. With forks=True the forks that share its entries go too, with all below
        them. A fork erased by itself loses its own entries; what it shares is the parent's. Nothing is written before
        everything was found at rest; when something else cuts it short, erasing again goes on. An erased conversation
        answers with its receipts. by and reason are names, and stand in the receipts.
        Errors: UnknownConversation; EraseTurnOpen, EraseHasForks, EraseOfSubagent, EraseTooEarly, EraseUnanswered, which
        are EraseRefused and say the way out; StoreUnavailable, KernelClosed.
        """
        self._commands.check_open()
        return await self._erasing.erase(await self._known(id_), by, name_of(reason), forks=forks)

    async def erase_expired(
        self, limit: int = 1_000, *, tell: TellLeft = log_left, among: Collection[str] | None = None
    ) -> list[Erasure]:
        """Erases conversations that have had their time (`retention.erase_after_s` of their agents), at most so many, the
        least recently updated first. One that is at work is left, as is one with a fork that has not expired; tell hears of
        it. among: no others than these, as `expired` gave them. A kernel does this by itself every retention_sweep_s.

        Errors: StoreUnavailable, KernelClosed.
        """
        self._commands.check_open()
        return await self._sweeping.erase_expired(limit, tell, among)

    async def compact(self) -> bool:
        """Writes the files of the store anew, so that nothing is left in them of what was erased at any time, and says
        whether that is so: not while somebody needs an older view. It takes as long as the store is large, and nobody
        writes meanwhile. Errors: StoreUnavailable, KernelClosed."""
        self._commands.check_open()
        return await self.store.compact()

    async def erase_plan(self, id_: str, *, forks: bool = False) -> ErasePlan:
        """What `erase` would touch, once it has found that nothing stands against it. Errors: as `erase`."""
        self._commands.check_open()
        return await self._erasing.plan(await self._known(id_), forks=forks)

    def keep_to(self, spec: AgentSpec) -> None:
        """Has an agent that is not installed here count with its retention rule."""
        self._rules.tell(spec)

    async def expired(self, limit: int = 1_000, *, tell: TellLeft = log_left) -> list[ErasePlan]:
        """What `erase_expired` would erase now, with all that would go along; tell hears of what would be left. Raises
        StoreUnavailable."""
        return await self._sweeping.expired(limit, tell)

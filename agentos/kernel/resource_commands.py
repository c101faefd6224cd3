"""What people ask a kernel about what it lends and how it does: who has what, how busy it is, and who comes first where
many wait."""

from __future__ import annotations

import msgspec

from agentos.components import Shares
from agentos.errors import ResourceNotFound
from agentos.ids import Kind, agent_id, hashed_id, is_id
from agentos.kernel.limiting import limits_of
from agentos.kernel.lsof import OpenResource, concerning
from agentos.kernel.machine import Machine
from agentos.kernel.top import TURNS_SHOWN, Top


class ResourceCommands(Machine):
    """The part of a kernel that answers them."""

    async def release(self, name: str) -> int:
        """Gives back at once what was lent to a conversation (its id), an agent, a toolbox (their names) or the `program`.

        They go on, and have it made anew when it is asked for. What is held has a moment to come back. A process that a
        toolbox consists of is let go too, and the next call starts another, also where it had given up. Says how many
        things there were, 0 for one of these that was lent nothing.
        Errors: ResourceNotFound when the store never had any such; ReleaseFailed, StoreUnavailable.
        """
        self._commands.check_open()
        try:
            return await self._lending.release(name)
        except ResourceNotFound as error:
            if await self._is_of_the_store(name):
                return 0
            known = {*error.known, *self.catalog.agents, *self.catalog.toolboxes}
            of = "agent, toolbox or conversation"
            raise ResourceNotFound(name, "the program", sorted(known), of=of) from None

    async def lsof(self, of: str | None = None) -> list[OpenResource]:
        """What is open and who has it, resources and the slots of toolboxes. of: the id of a conversation, turn, call,
        toolbox, agent or resource, or a name: only what that, or what is below it, has or waits for."""
        found = self._open_resources.all()
        return found if of is None else concerning(found, of)

    async def top(self, turns_max: int = TURNS_SHOWN) -> Top:
        """How it does now; turns_max bounds how many open turns are told of one by one. The first call begins to count what
        rates are made of; nothing is counted any more when nobody has asked for METER_IDLE_S. It answers while the kernel
        closes, too, until effects have ended; then it raises KernelClosed."""
        return msgspec.structs.replace(
            self.vitals.top(turns_max),
            turns_waiting=self.turns_waiting,
            limits=tuple(limits_of(self.ticker.admission, self.slots, self._ledger)),
            shares=self._shares.now(),
        )

    async def renice(self, name: str, weight: float, *, tenant: bool = False) -> bool:
        """Gives an agent, or a tenant, another weight where many wait: for a place among the turns and calls that may be at
        once, for a toolbox, for a resource. Tenants share by their weights, the agents of one by theirs; everybody has 1.

        It counts from the next that comes in, and is in force again when the store is opened anew. False when another
        living process keeps the weights of this store: then it holds here until the kernel closes, and that one has to be
        told too ('agentos renice' tells all).
        Errors: UnknownAgent for one that this store never had; InputRefused for a weight that is out of bounds;
        StoreUnavailable.
        """
        self._commands.check_open()
        return await self._shares.renice(name, weight, tenant=tenant)

    async def shares(self) -> Shares:
        """The weights that somebody has given and that are in force here."""
        self._commands.check_open()
        return self._shares.now()

    async def _is_of_the_store(self, name: str) -> bool:
        """Whether it names a conversation, an agent or a toolbox, of whatever process."""
        if is_id(name, Kind.CONVERSATION):
            return await self.store.log(name) is not None
        return any([await self.store.log(log) is not None for log in (agent_id(name), hashed_id(Kind.TOOLBOX, name))])

    @property
    def turns_waiting(self) -> int:
        """How many turns wait for a place among those that run; see the bounds of turns in Settings."""
        return self.ticker.admission.waiting if self.ticker.admission is not None else 0

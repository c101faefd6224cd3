"""The kernel as people call it: conversations are begun, talked to, forked and read, and it says how it does.

What is said about agents is in agent_commands.py, about erasing in erase_commands.py, about what it lends and how it does in
resource_commands.py; its parts, and when they open and close, are in machine.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType

from agentos.components import Resolution, Verdict
from agentos.errors import UnknownConversation
from agentos.events.entry import Entry
from agentos.events.intake import Control
from agentos.ids import ConversationId, LogId, Name
from agentos.journal import decode_units
from agentos.kernel.agent_commands import AgentCommands
from agentos.kernel.beginning import tenant_of
from agentos.kernel.conversation import Conversation, Fork
from agentos.kernel.doubts import Doubt, doubts_of
from agentos.kernel.erase_commands import EraseCommands
from agentos.kernel.listing import WAITING, Listing, Page, list_among, list_conversations
from agentos.kernel.loaded import Loaded
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.resource_commands import ResourceCommands
from agentos.kernel.variants import Whole
from agentos.kernel.watch import StreamGap, Watched
from agentos.models.base import ModelClient
from agentos.persistence.base import Rows, WriterRow


class Kernel(AgentCommands, EraseCommands, ResourceCommands):
    """Hosts agents over one store, from the begin of an `async with` block to its end, on the loop that runs the block.

    store: memory:, sqlite:///FILE, file:DIR, postgresql://..., or a Store. ids, clock and salts replace the sources of
    ids, time and salts (tests do).
    keys are key files, asked before those of this user; base_url replaces the address of every model over a network.
    observers are told of every effect. With control, other processes of this user may ask this kernel by a socket beside
    its store, and use its agents: the commands of agentos are given one, a program says so.
    Errors: ConfigurationError for an unknown kind of url; StoreError, at the begin, when the store cannot be opened.
    """

    async def __aenter__(self) -> Kernel:
        await self._open()
        if self._listens:
            await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(0.0 if error is not None else None)

    async def listen(self) -> None:
        """Lets other processes of this user ask this kernel from here on; `control` does so at the begin, when no agent is
        installed yet. A second time does nothing."""
        self._commands.check_open()
        if self._door is None:
            from agentos.kernel.control.server import ControlServer

            self._door = server = ControlServer(self, self.store.url, self.settings)
            await server.open(self.ticker.writer)

    async def start(self, agent: str, key: str | None = None, *, tenant: str | None = None) -> Conversation:
        """A new conversation of an installed agent, stored when this returns; the same key gives the same one.

        tenant: on whose account it runs, with all that its calls begin and all its forks: bounds and weights of tenants
        hold for it, and keys are the tenant's own. It is a name, and stays as it is.
        Errors: UnknownAgent, StoreUnavailable; InputRefused for a tenant that is no name.
        """
        self._commands.check_open()
        said = tenant_of(tenant)
        slug = Name(agent)
        self.catalog.spec(agent)
        if self.settings.follow_files and self._following.anything:
            await self._following.refresh(slug)
        return Conversation(self, await self._beginning.begin(slug, key, said))

    async def begin(self, agent: str, key: str | None = None, *, tenant: str | None = None) -> ConversationId:
        """As `start`; gives the id."""
        return (await self.start(agent, key, tenant=tenant)).id

    async def fork(
        self,
        id_: str,
        at: int | None = None,
        *,
        replace_results: Mapping[str, str] | None = None,
        model: ModelClient | str | None = None,
        prompt: str | None = None,
        agent: Whole | None = None,
        repin: bool = False,
        run: bool = True,
    ) -> Fork:
        """A conversation that begins with what this one had come to at a seq, or at the end of the unit before; without one,
        at its end. It shares those entries, and is one row and one unit, however many they are.

        A turn that was open there goes on: a model is asked anew, calls that were under way end as unknown, those that wait
        go on waiting. With run=False all this waits until somebody takes the fork up (`recover`, `ask`, `send`).
        replace_results gives results to calls, by their ids, that are open there; without a seq, the fork begins where
        they last are. How the other calls of that step ended is taken over then.
        model, prompt and agent vary whom the fork goes on with, from the open turn on: a model by its name or a client, the
        text of a system prompt, a whole agent (a slug, a file, a definition). With repin, an open turn pins what its agent
        is now also where nothing is varied: its definition, and the hooks and the approval port of this kernel.
        Errors: UnknownConversation, ForkRefused, UnknownAgent, ConfigurationError, StoreUnavailable.
        """
        self._commands.check_open()
        log = await self._known(id_)
        origin = await self._forking.origin_of(log, at)
        if origin.is_fork:
            await self._stored_agents.take_if_missing(origin.agent)
        other = await self._variants.slug_of(origin.agent, agent, model, prompt)
        pins_other = repin or other != origin.agent
        forked = await self._forking.fork(log, at, replace_results or {}, other if pins_other else None)
        fork = Fork(
            self,
            forked.id,
            forked_from=ConversationId(forked.parent),
            upto=forked.upto,
            turn=forked.turn,
            agent=other,
        )
        if run:
            await self.run_fork(fork)
        return fork

    async def run_fork(self, fork: Fork) -> None:
        """Takes up a fork that was begun with run=False: its open turn goes on, and inputs that wait begin one."""
        self._commands.check_open()
        await self._forking.run(LogId(fork.id), fork.turn)

    async def take_agent(self, id_: str) -> Name:
        """Has the agent of a conversation in force, before anything is said to it. That of a fork, which may be installed in
        the process alone that forked, is taken from the store; its toolboxes come from what is installed here.

        Errors: UnknownConversation, UnknownAgent, StoreUnavailable; ConfigurationError for a toolbox that is not here.
        """
        self._commands.check_open()
        origin = await self._forking.origin_of(await self._known(id_), None)
        if origin.is_fork:
            await self._stored_agents.take(origin.agent)
        return Name(self.catalog.spec(origin.agent).slug)

    async def get(self, id_: str) -> Conversation:
        """The handle of a stored conversation. Raises UnknownConversation."""
        return Conversation(self, ConversationId(await self._known(id_)))

    async def conversations(self, state: str | None = None) -> list[ConversationId]:
        """Ids of stored conversations, oldest first; state as the store has it."""
        sql = "select id from conversations where state = coalesce(?, state) order by started_at, id"
        return [ConversationId(row[0]) for row in (await self.query(sql, (state,))).rows]

    async def page(self, listing: Listing | None = None) -> Page:
        """A page of stored conversations with what `ps` shows of each. Raises UnknownConversation, StoreError."""
        listing, admission = listing or Listing(), self.ticker.admission
        if listing.state == WAITING:
            page = await list_among(self.store, listing, admission.line if admission is not None else [])
            return page._replace(conversations=[row._replace(state=WAITING) for row in page.conversations])
        page = await list_conversations(self.store, listing)
        if admission is None:
            return page
        rows = [row._replace(state=WAITING) if admission.waits(LogId(row.id)) else row for row in page.conversations]
        return page._replace(conversations=rows)

    async def history(self, id_: str, after_seq: int = 0, upto: int | None = None) -> list[Entry]:
        """Stored entries of a conversation with their bodies."""
        stored = await self.store.entries(id_, after_seq, upto)
        return [entry for unit in decode_units(LogId(id_), stored, self.registry) for entry in unit]

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """One reading SQL statement over the store. Raises QueryRefused."""
        return await self.store.query(sql, parameters)

    async def watch(self, id_: str, after_seq: int = 0) -> AsyncIterator[Watched]:
        """Stored entries after a seq, then live ones without end; see `Conversation.watch`. Raises UnknownConversation."""
        log = await self._known(id_, or_posted=True)
        poll_s = self.settings.inbox_poll_ms / 1000
        async with aclosing(self.watchers.watch(log, lambda seq: self.history(log, seq), after_seq, poll_s)) as items:
            async for item in items:
                yield item

    def state_of(self, id_: str) -> str:
        loaded = self.ticker.loaded.get(LogId(id_))
        return self._shown(loaded) if loaded is not None else "unloaded"

    async def state_now(self, id_: str) -> str:
        """idle, running, parked, paused or closed, whoever has it; waiting, when this kernel bounds turns at once and one
        stands in line for its place here. Raises UnknownConversation."""
        loaded = self.ticker.loaded.get(LogId(id_))
        if loaded is not None:
            return self._shown(loaded)
        for (state,) in (await self.query("select state from conversations where id = ?", (id_,))).rows:
            return str(state)
        raise UnknownConversation(id_[:80])

    async def send(self, id_: str, text: str, *, key: str | None = None, ephemeral: bool = False) -> int:
        if self.settings.follow_files and self._following.anything:
            await self._follow(LogId(id_))
        return await self._commands.send(LogId(id_), text, key, ephemeral)

    async def ask(self, id_: str, text: str, *, ephemeral: bool = False) -> RunOutcome:
        if self.settings.follow_files and self._following.anything:
            await self._follow(LogId(id_))
        return await self._commands.ask(LogId(id_), text, ephemeral)

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> bool:
        """Answers an approval request from any process. False when it was answered before: the first answer counts."""
        return await self._commands.answer(request, verdict, reason, by)

    async def resolve(
        self, call: str, resolution: Resolution, *, result: str | None = None, reason: str = "", by: str = "user"
    ) -> None:
        """Says what became of a call in doubt, from any process; result is what it brought, where somebody knows.

        While the call waits for a person (`doubt_s` of its agent) it ends by that, or is started again. One that has ended
        with an unknown outcome stays so, and the model reads a note at the beginning of the next turn.
        Errors: UnknownCall, NotInDoubt, AlreadyResolved, InputRefused, StoreUnavailable.
        """
        await self._commands.resolve(call, resolution, result, reason, by)

    async def doubts(self, conversation: str | None = None) -> list[Doubt]:
        """The calls of one conversation, or of all, that nobody knows the outcome of and that nobody has resolved."""
        return await doubts_of(self.store, conversation)

    async def interrupt(self, id_: str, *, by: str = "user") -> None:
        await self._commands.interrupt(LogId(id_), by)

    async def control(self, id_: str, control: Control) -> None:
        await self._commands.control(LogId(id_), control)

    async def outcome(self, id_: str) -> RunOutcome | None:
        """Waits for the end of the open turn; None when there is none."""
        return await self._commands.outcome(LogId(id_))

    async def recover(self, only: Collection[str] | None = None) -> list[Conversation]:
        """Takes up what a dead process left: open turns go on, items in the inbox are taken.

        only: ids of the conversations to look at, None for all. A tree of delegations has to be taken up as a whole.
        Returns the conversations that had an open turn, or have one now; a short turn may have ended already. Logs that
        a living process owns are left to it.
        """
        self._commands.check_open()
        return [Conversation(self, ConversationId(log)) for log in await self._recovery.recover(only)]

    def take_up_only(self, agents: Collection[str]) -> None:
        """From here on, `recover` and what a kernel takes up by itself leave the conversations of other agents alone."""
        self._recovery.agents = frozenset(agents)

    def everything(self) -> AsyncIterator[Entry | StreamGap]:
        """The entries of all conversations as they are stored, from the first step on, until the kernel closes. Who takes
        them too slowly loses some, and is told so by a gap."""
        return self.watchers.everything()

    @property
    def control_path(self) -> str | None:
        """The control socket; None when this kernel has none."""
        return self._door.path if self._door is not None else None

    async def writers(self) -> list[WriterRow]:
        """Every process that ever opened the store for writing, oldest first, and whether it lives."""
        return await self.store.writers()

    async def declare_dead(self, writer: int) -> bool:
        """On a person's word: what this writer owns may be taken over from now on, and it stores nothing there any more.

        For a process that hangs, or whose machine is out of reach: a store knows by itself of those that have ended. A
        tool that still runs there goes on until its process finds out, or ends. Take up its turns with `recover`.
        False when there is no such writer, or it had ended, or is this kernel itself.
        """
        self._commands.check_open()
        return await self.store.declare_dead(writer)

    def _shown(self, loaded: Loaded) -> str:
        admission = self.ticker.admission
        return WAITING if admission is not None and admission.waits(loaded.log) else loaded.times.shown

    async def _follow(self, log: LogId) -> None:
        """Takes up what was edited for the next turn of a conversation; one that others own is theirs to look after."""
        slug = await self._commands.agent_of(log)
        if slug is not None:
            await self._following.refresh(slug)


open = Kernel
"""As people write it: `async with agentos.open(url) as kernel`."""

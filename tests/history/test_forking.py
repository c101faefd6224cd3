"""A fork is one row and one unit, begins at the end of any unit, and goes on by itself; what it shares stays its parent's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentos.errors import ForkRefused
from agentos.events.kinds import CallFinished
from agentos.history import Identical, parting_of, replay_family
from agentos.ids import call_id
from agentos.persistence.base import Store
from agentos.persistence.file import FileStore
from agentos.persistence.memory import MemoryStore
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.sqlite import SQLiteStore
from tests.history.forking import ends_of_units
from tests.history.support import Desk, assert_history_holds, kinds_of, office, settled, until
from tests.support import Mind, call, calls, lab

StoreFactory = Callable[[], Store]


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> StoreFactory:
    """Stores of each kind; all that one factory makes have the same data, as those of several processes."""
    if request.param == "memory":
        data = MemoryStore()
        return lambda: MemoryStore(data)
    if request.param == "file":
        return lambda: FileStore(str(tmp_path / "store"))
    if request.param == "sqlite":
        return lambda: SQLiteStore(str(tmp_path / "store.db"))
    url = request.getfixturevalue("postgres").new_schema_url()
    return lambda: PostgreSQLStore(url)


@pytest.fixture
async def store(stores: StoreFactory) -> AsyncIterator[Store]:
    made = stores()
    yield made
    await made.close()


EVERYTHING = "wait text=b\npeek text=c\nask_aide task='note text=d'\nfail text=e"


async def test_a_fork_at_the_end_of_any_unit_goes_on_to_an_end(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        asking = asyncio.ensure_future(clerk.ask(EVERYTHING))
        await desk.until_started(2)
        await clerk.send("note text=later")
        desk.gate.set()
        await asking
        await settled(kernel, [clerk.id])
        before = await store.log(clerk.id)
        ends = ends_of_units(await store.entries(clerk.id))
        forks = [await kernel.fork(clerk.id, upto) for upto in ends]
        for fork in forks:
            await kernel.outcome(fork.id)
        states = {kernel.state_of(fork.id) for fork in forks}
        after = await store.log(clerk.id)
        await assert_history_holds(store)

    assert [fork.upto for fork in forks] == ends
    assert {fork.forked_from for fork in forks} == {clerk.id}
    assert states == {"idle"}
    assert before == after


async def test_a_seq_within_a_unit_is_rounded_down_to_the_end_of_the_one_before(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        ends = ends_of_units(await store.entries(clerk.id))
        made = {at: (await kernel.fork(clerk.id, at, run=False)).upto for at in range(ends[0], ends[-1] + 1)}
        with pytest.raises(ForkRefused, match=f"has 1 to {ends[-1]}; fork at seq {ends[-1]}"):
            await kernel.fork(clerk.id, ends[-1] + 1)
        with pytest.raises(ForkRefused, match="there is no entry 0"):
            await kernel.fork(clerk.id, 0)

    assert made == {at: max(end for end in ends if end <= at) for at in made}
    assert len(made) > len(ends)


async def test_a_fork_of_a_fork_and_of_what_a_fork_shares(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        first = await kernel.fork(clerk.id)
        await first.ask("note text=b")
        second = await kernel.fork(first.id)
        outcome = await second.ask("note text=c")
        sideways = await kernel.fork(second.id, first.upto)
        await assert_history_holds(store)
        texts = [entry.private[0][1] for entry in await second.history() if entry.data.kind == "input.received"]

    assert (second.forked_from, sideways.forked_from, sideways.upto) == (first.id, clerk.id, first.upto)
    assert outcome.completed
    assert texts == ["note text=a", "note text=b", "note text=c"]


async def test_a_fork_of_a_fork_inside_a_childs_run_holds_after_each_step(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("ask_helper task='ask_aide task=\"peek text=x\"'"))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        ((child,),) = (await kernel.query("select id from conversations where agent = 'aide'")).rows
        first = await kernel.fork(child)
        second = await kernel.fork(first.id)
        desk.gate.set()
        await asking
        await settled(kernel, [child, first.id])
        await assert_history_holds(store)
        outcome = await second.ask("note text=b")
        third = await kernel.fork(second.id)
        families = [await replay_family(store, id_) for id_ in (clerk.id, first.id, second.id, third.id)]
        await assert_history_holds(store)

    assert "noted b" in outcome.text
    assert (second.forked_from, third.forked_from) == (first.id, second.id)
    assert [len(family) for family in families] == [3, 1, 1, 1]
    assert all(isinstance(result, Identical) for family in families for result in family)


async def test_a_log_that_another_process_is_at_work_on_is_forked_as_it_stands(
    stores: StoreFactory, store: Store, desk: Desk
) -> None:
    async with office(store, desk) as owner, office(stores(), Desk()) as other:
        clerk = await owner.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("note text=a\nwait text=b"))
        await desk.until_started(1)
        await owner.ticker.wait_quiet()
        before = await store.log(clerk.id)
        fork = await other.fork(clerk.id)
        ended = await other.outcome(fork.id)
        meanwhile = await store.log(clerk.id)
        desk.gate.set()
        outcome = await asking
        finds = [entry.data for entry in await fork.history() if isinstance(entry.data, CallFinished)]
        await assert_history_holds(store)

    assert before == meanwhile
    assert outcome.completed
    assert ended is None or ended.completed
    assert [end.status.value for end in finds] == ["done", "unknown"]


async def test_a_fork_inside_a_childs_run_answers_to_nobody(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("ask_aide task='peek text=x'"))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        ((child,),) = (await kernel.query("select id from conversations where parent is not null")).rows
        fork = await kernel.fork(child)
        desk.gate.set()
        await asking
        await kernel.outcome(fork.id)
        ((parent, root),) = (await kernel.query("select parent, root from conversations where id = ?", (fork.id,))).rows
        late = "child.late" in await kinds_of(kernel, clerk.id)
        await assert_history_holds(store)

    assert (parent, root) == (None, fork.id)
    assert not late


async def test_a_fork_that_is_not_run_waits_and_is_taken_up_by_whoever_speaks_to_it() -> None:
    held = asyncio.Event()

    async def first(_: object) -> str:
        await held.wait()
        return "as it was"

    mind = Mind(first, "anew", "and then")
    async with lab(mind) as here:
        talk = await here.start()
        asked = asyncio.ensure_future(talk.ask("go"))
        await until(lambda: bool(mind.requests))
        fork = await here.kernel.fork(talk.id, run=False)
        await here.advance(60)
        waits = len(mind.requests)
        said = await here.moving(fork.ask("more"))
        held.set()
        answer = (await asked).text
        texts = [entry.private[0][1] for entry in await fork.history() if entry.data.kind == "model.finished"]

    assert waits == 1
    assert fork.turn
    assert (answer, said.text) == ("as it was", "and then")
    assert texts == ["", "anew", "and then"]


async def test_the_present_step_is_asked_anew_with_another_model_and_prompt() -> None:
    async with lab(Mind("plain"), system_prompt="Be plain.") as here:
        talk = await here.start()
        await talk.ask("go")
        other = Mind("other", "other again")
        fork = await here.kernel.fork(talk.id, 4, model=other, prompt="Be odd.")
        outcome = await here.kernel.outcome(fork.id)
        again = await fork.ask("and now?")
        parting = await parting_of(here.kernel.store, talk.id, fork.id)
        await assert_history_holds(here.kernel.store)

    assert outcome is not None
    assert (outcome.text, again.text, fork.agent.startswith("main-")) == ("other", "other again", True)
    assert [request.context.prompt for request in other.requests] == [("Be odd.",)] * 2
    assert parting.shared == 4
    assert [act and act.text for act in parting.pairs[0]] == ["plain", "other"]
    assert parting.components["pinned.prompt"] == (("Be plain.",), ("Be odd.",))


async def test_another_result_of_a_call_is_given_and_the_others_of_its_step_are_taken_over() -> None:
    async def price(of: str) -> str:  # in threads, the second may end first
        """The price."""
        return f"{of}: 1"

    ask_two = calls(call("price", of="tea"), call("price", of="rum"))
    mind = Mind(ask_two, "cheap", lambda request: f"{[m.text for m in request.messages if m.name]}")
    async with lab(mind, [price]) as here:
        talk = await here.start()
        await talk.ask("go")
        first = next(entry for entry in await talk.history() if entry.data.kind == "call.proposed")
        id_ = call_id(talk.id, first.seq)
        fork = await here.kernel.fork(talk.id, replace_results={id_: "tea: 99"})
        outcome = await here.kernel.outcome(fork.id)
        ends = [entry.data for entry in await fork.history() if isinstance(entry.data, CallFinished)]
        with pytest.raises(ForkRefused, match=f"has ended .*; fork at seq {fork.upto}$"):
            await here.kernel.fork(talk.id, (await talk.history())[-1].seq, replace_results={id_: "x"})
        with pytest.raises(ForkRefused, match=f"not there yet .*; fork at seq {fork.upto}$"):
            await here.kernel.fork(talk.id, 4, replace_results={id_: "x"})
        with pytest.raises(ForkRefused, match="it has no call"):
            await here.kernel.fork(talk.id, replace_results={call_id(talk.id, 1): "x"})
        await assert_history_holds(here.kernel.store)

    assert [end.source.value for end in ends] == ["replaced", "origin"]
    assert outcome is not None
    assert mind.results == ["tea: 99", "rum: 1"]


@pytest.mark.parametrize("turns", [1, 100])
async def test_a_fork_costs_the_same_however_long_the_conversation_is(turns: int) -> None:
    store = MemoryStore()
    async with lab(Mind(), store=store) as here:
        talk = await here.start()
        for _ in range(turns):
            await talk.ask("note " * 50)
        fork = await here.kernel.fork(talk.id, (await talk.history())[-2].seq, run=False)
        own = await store.entries(fork.id, fork.upto)
        bytes_ = sum(len(entry.head) + sum(len(body or "") for *_, body in entry.payloads) for entry in own)

    assert len(own) == 2
    assert bytes_ < 2_048

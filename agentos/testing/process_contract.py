"""The contract of durable stores over several processes: what holds when one is killed, frozen, or at work beside another.

Bind it in a test module of yours, with the URL of a new store for each test:

    pytest.register_assert_rewrite("agentos.testing.process_contract")
    from agentos.testing.process_contract import ProcessContract

    class TestMyStore(ProcessContract):
        @pytest.fixture
        def store_url(self, tmp_path: Path) -> str:
            return f"mystore:{tmp_path}"

The other processes are real: they run `agentos.testing.process_child`, are ended by SIGKILL, stopped by SIGSTOP, and none
outlives its test.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agentos.ids import Kind, LogId, hashed_id
from agentos.persistence import open_store
from agentos.persistence.base import LogRow, Store
from agentos.testing.log_units import opened, post_of
from agentos.testing.process_child import TASKS, UNIT, broken

PATIENCE_S = 60.0
"""How long another process, or an engine that has to notice a death, is waited for. Nothing is measured by it."""
LOOK_S = 0.05
UNITS_PER_TASK = 25
KEYS = [f"key {n}" for n in range(40)]


class OtherProcess:
    """A child of this process with the store open."""

    def __init__(self, url: str, name: str) -> None:
        command = [sys.executable, "-m", "agentos.testing.process_child", url, name]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.writer = 0

    async def begun(self) -> OtherProcess:
        self.writer = (await self.answer())["writer"]
        return self

    async def ask(self, do: str, **words: Any) -> dict[str, Any]:
        """What the child answers."""
        self.tell(do, **words)
        return await self.answer()

    def tell(self, do: str, **words: Any) -> None:
        assert self.process.stdin is not None, "a pipe"
        self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self.process.stdin.flush()

    async def answer(self) -> dict[str, Any]:
        """The next line; the loop of this process goes on meanwhile."""
        assert self.process.stdout is not None, "a pipe"
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), PATIENCE_S)
        assert line.endswith("\n"), f"the child ended with {self.process.wait()}"
        words: dict[str, Any] = json.loads(line)
        return words

    def kill(self) -> list[dict[str, Any]]:
        """By SIGKILL; what it had told before and nobody had read."""
        assert self.process.stdout is not None, "a pipe"
        self.process.kill()
        told = self.process.stdout.read()  # through the same buffer as the lines before
        self.process.communicate()
        return [json.loads(line) for line in told.splitlines(keepends=True) if line.endswith("\n")]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()


Start = Callable[[str], "asyncio.Future[OtherProcess]"]


class ProcessContract:
    """What every durable store promises across processes. The fixture `store_url` is the adapter's part."""

    @pytest.fixture
    def start(self, store_url: str) -> Iterator[Start]:
        """Starts another process under a name and waits until it has the store open."""
        started: list[OtherProcess] = []

        def start(name: str) -> asyncio.Future[OtherProcess]:
            started.append(OtherProcess(store_url, name))
            return asyncio.ensure_future(started[-1].begun())

        yield start
        for process in started:
            process.end()

    @pytest.mark.parametrize("batches", [1, 8, 30])
    async def test_a_writer_killed_while_it_appends_loses_nothing_that_it_acknowledged(
        self, store_url: str, start: Start, batches: int
    ) -> None:
        writer = await start("writer")
        writer.tell("burst", logs=["a", "b", "c"])
        told = [await writer.answer() for _ in range(batches)]
        told += writer.kill()
        acknowledged: dict[str, list[Any]] = {}
        for batch in told:
            acknowledged |= batch["heads"]
        async with opened(lambda: open_store(store_url)) as (store, number):
            for log, (seq, digest) in acknowledged.items():
                stored = await store.entries(log)
                row = await store.log(log)

                assert broken(log, stored) == []
                assert stored[seq - 1].digest.hex() == digest
                assert row is not None
                assert (row.seq, row.digest) == (len(stored), stored[-1].digest)
                assert all(entry.payloads[0][1] == "text" for entry in stored if entry.seq == entry.unit)
            claimed = await claimed_by(store, next(iter(acknowledged)))

            assert (claimed.owner, claimed.epoch) == (number, 2)

    async def test_the_logs_of_a_living_process_are_its_own(self, store_url: str, start: Start) -> None:
        living, dead = await start("living"), await start("dead")
        await living.ask("append", logs=["mine"])
        await dead.ask("append", logs=["left"])
        async with opened(lambda: open_store(store_url)) as (store, _):
            while_living = [await store.claim(log_id(name)) for name in ("mine", "left")]
            dead.kill()
            claimed = await claimed_by(store, log_id("left"))
            alive = {writer.n: writer for writer in await store.writers()}

            assert while_living == [None, None]
            assert claimed.epoch == 2
            assert await store.claim(log_id("mine")) is None
            assert (alive[living.writer].alive, alive[dead.writer].alive) == (True, False)
            assert alive[living.writer].pid == living.process.pid
        assert (await living.ask("append", logs=["mine"]))["verdicts"] == ["stored"]

    async def test_a_frozen_writer_that_was_declared_dead_is_fenced_when_it_wakes(
        self, store_url: str, start: Start
    ) -> None:
        frozen = await start("frozen")
        await frozen.ask("append", logs=["taken", "kept"])
        frozen.send(signal.SIGSTOP)
        async with opened(lambda: open_store(store_url)) as (store, number):
            before = await store.claim(log_id("taken"))
            declared = await store.declare_dead(frozen.writer)
            claimed = await store.claim(log_id("taken"))
            frozen.send(signal.SIGCONT)
            late = await frozen.ask("append", logs=["taken", "kept"])
            again = await frozen.ask("append", logs=["taken"])

            assert (before, declared) == (None, True)
            assert claimed is not None
            assert (claimed.owner, claimed.epoch, claimed.seq) == (number, 2, len(UNIT))
            assert late["verdicts"] == ["fenced", "stored"]
            assert again["verdicts"] == ["fenced"]
            assert len(await store.entries(log_id("taken"))) == len(UNIT)
            assert len(await store.entries(log_id("kept"))) == 2 * len(UNIT)

    async def test_two_processes_with_eight_tasks_each_lose_and_double_nothing(
        self, store_url: str, start: Start
    ) -> None:
        shared = log_id("shared")
        both = [await start(name) for name in ("one", "two")]
        answers = await asyncio.gather(*(child.ask("tasks", units=UNITS_PER_TASK, shared=shared) for child in both))
        heads: dict[str, list[Any]] = {}
        for answer in answers:
            heads |= answer["heads"]
        async with opened(lambda: open_store(store_url)) as (store, _):
            for log, (seq, digest) in heads.items():
                stored = await store.entries(log)

                assert broken(log, stored) == []
                assert (len(stored), stored[-1].digest.hex()) == (seq, digest)
            posted = [row.key for row in await store.inbox(shared)]

            assert [seq for seq, _ in heads.values()] == [len(UNIT) * UNITS_PER_TASK] * 2 * TASKS
            assert len(posted) == len(set(posted)) == 2 * TASKS * UNITS_PER_TASK
            assert (await store.query("select count(*) from messages")).rows == [(2 * TASKS * UNITS_PER_TASK,)]

    async def test_what_one_process_erases_is_gone_for_another_that_has_read_it(
        self, store_url: str, start: Start
    ) -> None:
        erasing = await start("erasing")
        await erasing.ask("append", logs=["erased", "kept"])
        await erasing.ask("append", logs=["erased", "kept"])
        async with opened(lambda: open_store(store_url)) as (store, _):
            await store.post(post_of(log_id("erased"), "k", "waits"))
            before = [await told(store, name) for name in ("erased", "kept")]
            answer = await erasing.ask("erase", log="erased")
            after = [await told(store, name) for name in ("erased", "kept")]
            row, waiting = await store.log(log_id("erased")), await store.inbox()
            taken = await store.inbox_seq(log_id("erased"), "k")

            assert answer["verdict"] == "stored"
            assert before == [(["from erasing"] * 2, 2), (["from erasing"] * 2, 2)]
            assert after == [([None] * 2, 0), (["from erasing"] * 2, 2)]
            assert row is not None
            assert row.erased_at is not None
            assert (waiting, taken) == ([], row.seq)

    async def test_what_another_process_writes_is_a_change(self, store_url: str, start: Start) -> None:
        async with opened(lambda: open_store(store_url)) as (store, _):
            other = await start("other")
            await quiet(store)
            await other.ask("post", log=log_id("a"), keys=["k"])
            after_post = await is_changed(store)
            await quiet(store)
            await other.ask("append", logs=["b"])

            assert after_post
            assert await is_changed(store)

    async def test_a_key_posted_by_two_processes_at_once_is_posted_once(self, store_url: str, start: Start) -> None:
        both = [await start(name) for name in ("one", "two")]
        answers = await asyncio.gather(*(child.ask("post", log=log_id("a"), keys=KEYS) for child in both))
        async with opened(lambda: open_store(store_url)) as (store, _):
            firsts = [key for answer in answers for key in answer["first"]]
            bodies = {row.key: row.body for row in await store.inbox(log_id("a"))}

            assert sorted(firsts) == sorted(KEYS)
            assert bodies == {
                key: name for name, answer in zip(("one", "two"), answers, strict=True) for key in answer["first"]
            }

    async def test_a_reader_beside_a_writer_sees_whole_units_alone(self, store_url: str, start: Start) -> None:
        writer, reader = await start("writer"), await start("reader")
        watching = asyncio.ensure_future(reader.ask("watch", log=log_id("a"), seq=100 * len(UNIT), lengths=5))
        writer.tell("burst", logs=["a"])
        while not watching.done():
            await writer.answer()
        writer.kill()
        seen = await watching

        assert seen["wrong"] == []
        assert len(seen["lengths"]) >= 5


def log_id(name: str) -> LogId:
    """As `LogUnits` names it."""
    return LogId(hashed_id(Kind.CONVERSATION, name))


async def told(store: Store, name: str) -> tuple[list[str | None], int]:
    """What is read of the texts of a log, and how many of them a query finds."""
    entries = await store.entries(log_id(name))
    found = await store.query(_TEXTS, (log_id(name),))
    return [body for entry in entries for _, _, _, body in entry.payloads], found.rows[0][0]


_TEXTS = "select count(text) from messages join logs on logs.n = messages.n where logs.id = ?"


async def claimed_by(store: Store, log: str) -> LogRow:
    """The log once its owner counts as dead, which some engines need a while to notice."""
    until = time.monotonic() + PATIENCE_S
    while (row := await store.claim(log)) is None:
        assert time.monotonic() < until, f"{log} cannot be claimed"
        await asyncio.sleep(LOOK_S)
    return row


async def is_changed(store: Store) -> bool:
    """Whether a change is seen; an engine that tells of it may be a little behind."""
    until = time.monotonic() + PATIENCE_S
    while not store.changed():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(LOOK_S)
    return True


async def quiet(store: Store) -> None:
    """Until nothing of what happened so far is news: twice in a row, since a store may be told a little late."""
    calm = 0
    while calm < 2:
        calm = 0 if store.changed() else calm + 1
        await asyncio.sleep(LOOK_S)

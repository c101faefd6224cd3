"""What was erased is gone whole and with a receipt: verify names what is missing without one, and what one hides."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import CodecError
from agentos.events.entry import decode_head, seed_digest
from agentos.history import Report, check_store, verify_store
from agentos.history.verify.chain import Chained, check_chain
from agentos.persistence.base import StoredEntry
from agentos.persistence.sqlite import SQLiteStore
from tests.history.erasing import MESSAGES_GONE, PAYLOADS_GONE, ROW_SAYS_SO, erase_by_hand
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, office

CLERK = "(select n from logs join conversations using (n) where agent = 'clerk')"


@pytest.fixture
async def path(tmp_path: Path, desk: Desk) -> Path:
    """A clerk who noted something and asked an aide, who noted something too."""
    path = tmp_path / "written.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a\nask_aide task='note text=b'")
    return path


async def verified(path: Path, *edits: str) -> Report:
    with closing(sqlite3.connect(path)) as db, db:
        for edit in edits:
            assert db.execute(edit).rowcount > 0, edit
    store = SQLiteStore(str(path))
    try:
        return await verify_store(store)
    finally:
        await store.close()


def places(report: Report | Chained) -> list[tuple[int, str, str]]:
    return sorted((one.seq, one.table, one.field) for one in report.differences)


def values_in(path: Path, table: str) -> list[int]:
    """The seqs of the clerk's entries with values in this table, each once."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"select distinct seq from {table} where n = {CLERK} order by seq").fetchall()
    return [seq for (seq,) in rows]


async def test_a_log_that_was_erased_with_a_receipt_is_no_difference(path: Path) -> None:
    erase_by_hand(path, "clerk")
    erase_by_hand(path, "aide")

    report = await verified(path)

    assert report.ok, [str(one) for one in report.differences]


async def test_values_that_are_gone_without_a_receipt_are_named_each(path: Path) -> None:
    expected = [(seq, "messages", "text") for seq in values_in(path, "messages")]

    report = await verified(path, f"update messages set salt = null, text = null where n = {CLERK}")

    assert places(report) == expected
    assert "value 0 is gone without a receipt" in str(report.differences[0])


async def test_a_value_that_is_gone_behind_the_receipt_is_named(path: Path) -> None:
    """A receipt covers what stands before its `upto`, and nothing else."""
    seqs = values_in(path, "messages")
    erase_by_hand(path, "clerk", upto=seqs[-1] - 1)

    report = await verified(
        path, f"update messages set salt = null, text = null where n = {CLERK} and seq = {seqs[-1]}"
    )

    assert places(report) == [(seqs[-1], "messages", "text")]


@pytest.mark.parametrize("kept", ["messages", "payloads"])
async def test_values_that_stand_behind_a_receipt_are_named_each(path: Path, kept: str) -> None:
    seqs = values_in(path, kept)
    erase_by_hand(path, "clerk", done=(MESSAGES_GONE if kept == "payloads" else PAYLOADS_GONE, ROW_SAYS_SO))

    report = await verified(path)

    field = "text" if kept == "messages" else "body"
    assert set(places(report)) == {(seq, kept, field) for seq in seqs}
    assert "note text" not in str(report.differences)


async def test_whoever_puts_a_text_back_behind_the_receipt_is_found_also_when_it_is_another(path: Path) -> None:
    erase_by_hand(path, "clerk")

    report = await verified(path, f"update messages set salt = x'00', text = 'a lie' where n = {CLERK} and seq = 2")

    assert set(places(report)) == {(2, "messages", "text")}
    assert len(report.differences) == 2, "it is kept, and it is not what was written"


@pytest.mark.parametrize(
    "edit",
    [
        f"update logs set erased_at = erased_at + 1 where n = {CLERK}",
        f"update logs set erased_at = null where n = {CLERK}",
    ],
)
async def test_a_wrong_time_of_the_erase_in_the_row_of_the_log_is_named(path: Path, edit: str) -> None:
    erase_by_hand(path, "clerk")

    report = await verified(path, edit)

    assert places(report) == [(0, "logs", "erased_at")]


async def test_a_row_that_says_erased_without_a_receipt_is_named(path: Path) -> None:
    report = await verified(path, f"update logs set erased_at = 1 where n = {CLERK}")

    assert places(report) == [(0, "logs", "erased_at")]


async def test_a_receipt_for_entries_that_are_not_before_it_covers_nothing(path: Path) -> None:
    seq = erase_by_hand(path, "clerk", upto=1_000)

    report = await verified(path)

    assert (seq, "entries", "head") in places(report)
    assert (2, "messages", "text") in places(report)


async def test_a_receipt_in_a_fork_covers_nothing_that_it_shares(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "forked.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        upto = ends_of_units(await kernel.store.entries(clerk.id))[-3]
        made = await fork(kernel, clerk.id, upto)
        assert made is not None
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update conversations set agent = 'fork' where id = ?", (made,))
    erase_by_hand(path, "fork")

    report = await verified(path, "update conversations set agent = 'clerk' where agent = 'fork'")
    cut = await verified(path, "update messages set salt = null, text = null where seq = 2")

    assert report.ok, [str(one) for one in report.differences]
    assert [(one.log, one.seq, one.field) for one in cut.differences] == [(clerk.id, 2, "text")]


async def test_fsck_says_of_an_erased_log_what_verify_says_and_makes_nothing_up(path: Path) -> None:
    erase_by_hand(path, "clerk")
    store = SQLiteStore(str(path))
    whole = await check_store(store)
    await verified(path, f"update messages set salt = x'00', text = 'back' where n = {CLERK} and seq = 2")
    kept = await check_store(store)
    await store.close()

    assert whole.ok, [str(one) for one in whole.findings]
    assert not kept.to_mend
    assert all("erase" in one.why_not or "backup" in one.why_not for one in kept.findings)


async def read(path: Path) -> tuple[str, bytes, list[StoredEntry]]:
    """The clerk's log: its name, the digest of its head, its entries."""
    store = SQLiteStore(str(path))
    try:
        with closing(sqlite3.connect(path)) as db:
            (log,) = db.execute(f"select id from logs where n = {CLERK}").fetchone()
        row = await store.log(log)
        assert row is not None
        return log, row.digest, await store.entries(log)
    finally:
        await store.close()


async def test_a_chain_is_checked_from_any_source(path: Path) -> None:
    erase_by_hand(path, "clerk")
    log, digest, entries = await read(path)

    checked = check_chain(log, iter(entries), seq=len(entries), digest=digest)
    cut = check_chain(log, entries[:-1], seq=len(entries), digest=digest)
    exchanged = check_chain(log, [entries[1], entries[0], *entries[2:]], seq=len(entries), digest=digest)

    assert checked.ok, [str(one) for one in checked.differences]
    assert (checked.entries, checked.erased_at) == (len(entries), decode_head(entries[-1].head).at)
    assert (len(entries), "entries", "row") in places(cut)
    assert not exchanged.ok


async def test_the_chain_of_a_fork_goes_on_from_what_it_shares(path: Path) -> None:
    log, digest, entries = await read(path)
    shared, own = entries[:5], entries[5:]

    checked = check_chain(log, own, seq=len(entries), digest=digest, shared=5, before=shared[-1].digest)
    from_seed = check_chain(log, own, seq=len(entries), digest=digest, shared=5, before=seed_digest(log))

    assert checked.ok
    assert (6, "entries", "head") in places(from_seed)


async def test_a_redacted_source_may_leave_values_out_and_no_more(path: Path) -> None:
    log, digest, entries = await read(path)
    bare = [
        StoredEntry(seq=e.seq, unit=e.unit, kind=e.kind, head=e.head, digest=e.digest, payloads=[]) for e in entries
    ]
    blank = [
        StoredEntry(
            seq=e.seq, unit=e.unit, kind=e.kind, head=e.head, digest=e.digest,
            payloads=[(i, name, None, None) for i, name, _, _ in e.payloads],
        )
        for e in entries
    ]  # fmt: skip
    lying = [
        StoredEntry(
            seq=e.seq, unit=e.unit, kind=e.kind, head=e.head, digest=e.digest,
            payloads=[(i, name, salt, "a lie") for i, name, salt, _ in e.payloads],
        )
        for e in entries
    ]  # fmt: skip

    for source in (bare, blank):
        assert check_chain(log, source, seq=len(entries), digest=digest, redacted=True).ok
        assert not check_chain(log, source, seq=len(entries), digest=digest).ok
    assert not check_chain(log, lying, seq=len(entries), digest=digest, redacted=True).ok


def test_a_head_that_is_none_is_a_difference_and_no_error() -> None:
    with pytest.raises(CodecError):
        decode_head("no head")
    stored = StoredEntry(seq=1, unit=1, kind="x", head="no head", digest=b"", payloads=[])

    checked = check_chain("conversation_x", [stored], seq=1, digest=b"")

    assert (1, "entries", "head") in places(checked)

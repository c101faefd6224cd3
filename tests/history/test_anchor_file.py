"""A file of anchors: a line that is not as it was written is named by its number, proofs by keys hold, and what is cut off
in a crash costs nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.errors import AnchorDamaged, AnchorRefused, ConfigurationError
from agentos.history import AnchorKey, anchor_store, read_anchors, verify_store
from agentos.history.anchors.check import prove
from agentos.history.anchors.file import anchor_file
from agentos.history.anchors.keys import KEY_CHARS_MIN
from agentos.history.anchors.write import anchor_of
from agentos.persistence.memory import MemoryStore
from agentos.secrets import Secret
from agentos.testing.clock import ManualClock
from tests.history.anchor_support import work
from tests.history.support import Desk

OLD, NEW, OTHER = (AnchorKey(Secret(f"canary-{word}-".ljust(KEY_CHARS_MIN, "x"))) for word in ("old", "new", "other"))


@pytest.fixture
async def store(desk: Desk) -> AsyncIterator[MemoryStore]:
    written = MemoryStore()
    await work(written, desk, "note text=a")
    store = MemoryStore(beside=written)
    yield store
    await store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors.jsonl"


@pytest.fixture
async def three(store: MemoryStore, file: Path, desk: Desk) -> list[bytes]:
    """The lines of a file with three anchors, the first and the last of which name heads that moved."""
    await anchor_store(store, file)
    await anchor_store(store, file)
    await work(MemoryStore(beside=store), desk, "note text=b")
    await anchor_store(store, file)
    return content(file).splitlines(keepends=True)


def full_disk(fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content(file: Path) -> bytes:
    return file.read_bytes()


def write(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(b"".join(lines))


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def exists(file: Path) -> bool:
    return file.exists()


def damage(file: Path, lines: list[bytes]) -> AnchorDamaged:
    write(file, lines)
    with pytest.raises(AnchorDamaged) as caught:
        read_anchors(file)
    return caught.value


async def test_an_anchor_names_what_moved_and_counts_the_whole_store(
    store: MemoryStore, file: Path, desk: Desk
) -> None:
    clock = ManualClock()
    first = await anchor_store(store, file, clock=clock)
    second = await anchor_store(store, file, clock=clock)
    clerk = await work(MemoryStore(beside=store), desk, "note text=new")
    third = await anchor_store(store, file, clock=clock)
    rows = {row.id: row for row in await store.logs()}
    anchors = read_anchors(file)

    assert (first.anchor.n, second.anchor.n, third.anchor.n) == (1, 2, 3)
    assert (first.moved, second.moved) == (first.anchor.logs, 0)
    assert clerk in {head.log for head in third.anchor.moved}
    assert third.anchor.logs == first.anchor.logs + 1
    assert third.anchor.writer > first.anchor.writer
    assert first.anchor.at == clock.now()
    assert {log: (head.seq, head.digest, head.epoch) for log, head in anchors.heads.items()} == {
        log: (row.seq, row.digest.hex(), row.epoch) for log, row in rows.items()
    }
    assert mode(file) == 0o600


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"no anchor\n", "it is no anchor"),
        (b"\n", "it is no anchor"),
        (b"\xff\xfe\n", "it is no anchor"),
        (b"[" * 100_000 + b"\n", "it is no anchor"),
        (b'{"anchor":{},"digest":"00"}\n', "it is no anchor"),
    ],
)
async def test_a_line_that_is_none_is_named(three: list[bytes], file: Path, line: bytes, reason: str) -> None:
    found = damage(file, [three[0], line, *three[1:]])

    assert found.line == 2
    assert f"{file} line 2: {reason}" in str(found)


async def test_no_line_can_be_edited_taken_out_moved_or_doubled(three: list[bytes], file: Path) -> None:
    first, second, third = three
    at = json.loads(second)["anchor"]["at"]

    assert damage(file, [first, second.replace(str(at).encode(), str(at + 1).encode()), third]).line == 2
    assert damage(file, [first, second.replace(b'"schema":3', b'"schema":4'), third]).line == 2
    assert damage(file, [first, third]).line == 2
    assert damage(file, [second, third]).line == 1
    assert damage(file, [second, first, third]).line == 1
    assert damage(file, [first, first, second, third]).line == 2
    assert damage(file, []).line == 1


async def test_every_flipped_byte_of_a_line_is_found(three: list[bytes], file: Path) -> None:
    line = three[1]

    for at in range(len(line) - 1):
        flipped = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        assert damage(file, [three[0], flipped, three[2]]).line == 2, flipped


async def test_another_form_of_an_anchor_is_refused(three: list[bytes], file: Path) -> None:
    line = json.loads(three[0])
    line["more"] = 1

    assert "it is no anchor" in str(damage(file, [json.dumps(line).encode() + b"\n"]))


async def test_an_anchor_that_was_never_complete_costs_nothing(
    store: MemoryStore, three: list[bytes], file: Path
) -> None:
    write(file, [*three[:2], three[2][:100]])
    before = read_anchors(file)
    anchored = await anchor_store(store, file)

    assert len(before.records) == 2
    assert (anchored.anchor.n, anchored.cut) == (3, 100)
    assert len(read_anchors(file).records) == 3


async def test_a_full_disk_leaves_the_file_as_it_was(
    store: MemoryStore, three: list[bytes], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="space"):
            await anchor_store(store, file)

    assert content(file) == b"".join(three)
    assert (await anchor_store(store, file)).anchor.n == 4


async def test_a_store_that_cannot_be_anchored_leaves_no_file(
    store: MemoryStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="space"):
            await anchor_store(store, file)

    assert not exists(file)


async def test_two_at_once_do_not_mix(store: MemoryStore, file: Path) -> None:
    await anchor_store(store, file)
    with anchor_file(file), pytest.raises(AnchorRefused, match="another process writes"):
        await anchor_store(store, file)

    assert len(read_anchors(file).records) == 1


async def test_a_key_proves_all_anchors_up_to_its_last(store: MemoryStore, file: Path) -> None:
    await anchor_store(store, file)
    await anchor_store(store, file, key=OLD)
    await anchor_store(store, file, key=NEW)
    anchors = read_anchors(file)
    proofs = {name: prove(anchors, keys) for name, keys in KEYS.items()}

    assert proofs["none"].key_ids == (OLD.id, NEW.id)
    assert [proofs[name].proven for name in KEYS] == [0, 3, 3, 2, 0]
    assert [proofs[name].keyed for name in KEYS] == [False, True, True, False, False]
    assert [[(one.seq, one.field) for one in proofs[name].differences] for name in KEYS] == [
        [], [], [], [(3, "key_id")], [(3, "key_id")],
    ]  # fmt: skip
    assert f"unkeyed check only: give the key {NEW.id}" in str(proofs["none"])
    assert str(proofs["both"]).endswith(f"proven by key {NEW.id}")
    assert str(proofs["old"]).endswith("proven up to anchor 2 and no further")


KEYS = {"none": (), "both": (OLD, NEW), "new": (NEW,), "old": (OLD,), "other": (OTHER,)}


async def test_a_proof_that_somebody_else_made_is_named(store: MemoryStore, file: Path) -> None:
    """He writes the id of the key, which is public, and a proof by a key of his own."""
    thief = AnchorKey(Secret("a guess at the key".ljust(KEY_CHARS_MIN, "?")))
    thief.id = OLD.id
    await anchor_store(store, file, key=thief)
    report = await verify_store(store, anchors=read_anchors(file), keys=[OLD])

    assert [(one.log, one.seq, one.field) for one in report.differences] == [("anchors", 1, "mac")]
    with pytest.raises(AnchorRefused, match="its holder did not write this"):
        await anchor_store(store, file, key=OLD)


async def test_behind_an_anchor_with_a_proof_none_may_come_without(store: MemoryStore, file: Path) -> None:
    await anchor_store(store, file, key=OLD)
    with pytest.raises(AnchorRefused, match=f"proof by key {OLD.id}.*give --key"):
        await anchor_store(store, file)
    with anchor_file(file) as open_:  # as somebody without the key would go on
        rows = {row.id: row for row in await store.logs()}
        open_.append(anchor_of(rows, 9, open_.anchors, None, 1), None)
    proof = prove(read_anchors(file), [OLD])

    assert {(one.seq, one.field) for one in proof.differences} == {(2, "mac"), (2, "key_id")}


async def test_no_key_is_ever_shown(store: MemoryStore, file: Path) -> None:
    await anchor_store(store, file, key=OLD)

    assert "canary" not in content(file).decode() + repr(OLD) + str(prove(read_anchors(file), [NEW]).differences)
    with pytest.raises(ConfigurationError, match="has 11 characters; at least 32") as caught:
        AnchorKey(Secret("canary-weak"))
    assert "canary" not in str(caught.value)


def test_the_id_of_a_key_is_the_same_from_wherever_it_comes() -> None:
    assert AnchorKey(Secret("x" * 40)).id == AnchorKey(Secret("x" * 40)).id
    assert len({OLD.id, NEW.id, OTHER.id}) == 3


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_anchors(tmp_path / "nowhere.jsonl")
    with pytest.raises(OSError, match="Is a directory"):
        read_anchors(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    fd = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(AnchorRefused, match="not a regular file"):
            read_anchors(tmp_path / "pipe")
    finally:
        os.close(fd)

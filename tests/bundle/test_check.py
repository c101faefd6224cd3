"""What verify finds in a bundle: each edit by log, seq, table and field, also with all digests around it made anew."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import BundleRefused
from agentos.history import read_anchors
from agentos.history.anchors.keys import AnchorKey
from agentos.history.anchors.write import anchor_store
from agentos.history.bundle import BundleReader, LogPart, check_bundle, export_bundle
from agentos.history.heads import digest_of_heads
from agentos.persistence.sqlite import SQLiteStore
from agentos.secrets import Secret
from tests.bundle.archive_support import checked, edit_lines, forged, found_in, manifest_of
from tests.history.copy_support import Left, again
from tests.history.support import Desk, office

Lines = list[dict[str, Any]]


@pytest.mark.parametrize("name", ["all.zip", "redacted.zip", "talk.zip", "fork.zip"])
def test_a_bundle_as_it_was_written_has_no_difference(bundles: Path, name: str) -> None:
    report = checked(bundles / name)

    assert report.ok, report.differences
    assert report.entries > 50
    assert (report.payloads == 0) == (name == "redacted.zip")


def part_of(path: Path, log: str) -> LogPart:
    return next(part for part in manifest_of(path).logs if part.id == log)


def _edited(
    change: Callable[[Lines], object], left: Left, bundles: Path, tmp_path: Path
) -> list[tuple[str, int, str, str]]:
    part = part_of(bundles / "talk.zip", left.settled)
    return found_in(forged(bundles / "talk.zip", tmp_path / "forged.zip", edit_lines(part.file, change)))


EDITS: dict[str, tuple[Callable[[Lines], object], int, str, str]] = {
    "a text": (lambda lines: lines[1]["payloads"][0].__setitem__(3, "other"), 2, "messages", "text"),
    "a salt": (lambda lines: lines[1]["payloads"][0].__setitem__(2, "00" * 16), 2, "messages", "text"),
    "a text taken out": (lambda lines: lines[1]["payloads"].clear(), 2, "messages", "row"),
    "a text blanked": (lambda lines: lines[1].update(payloads=[[0, "text", None, None]]), 2, "messages", "text"),
    "a text put in": (lambda lines: lines[0]["payloads"].append([0, "title", "00", "x"]), 1, "payloads", "row"),
    "a head": (
        lambda lines: lines[4].update(head=lines[4]["head"].replace('"writer":1', '"writer":2')),
        5,
        "entries",
        "head",
    ),
    "a digest": (lambda lines: lines[4].update(digest="00" * 32), 5, "entries", "digest"),
    "a kind": (lambda lines: lines[4].update(kind="call.finished"), 5, "entries", "kind"),
    "a unit": (lambda lines: lines[4].update(unit=1), 5, "entries", "unit"),
    "an entry taken out": (lambda lines: lines.pop(4), 5, "entries", "row"),
    "the end cut off": (lambda lines: lines.__delitem__(slice(-2, None)), 52, "entries", "row"),
    "the first entry gone": (lambda lines: lines.pop(0), 1, "entries", "row"),
}


@pytest.mark.parametrize(("change", "seq", "table", "field"), EDITS.values(), ids=list(EDITS))
def test_each_edit_of_a_log_is_named(
    left: Left, bundles: Path, tmp_path: Path, change: Callable[[Lines], object], seq: int, table: str, field: str
) -> None:
    assert (left.settled, seq, table, field) in _edited(change, left, bundles, tmp_path)


def test_an_end_that_was_cut_off_with_all_that_tells_of_it_is_found_by_what_hangs_on_it(
    left: Left, bundles: Path, tmp_path: Path
) -> None:
    """A child cut off with its row made anew: its parent names the head that it had."""
    whole = manifest_of(bundles / "talk.zip")
    child = next(part for part in whole.logs if part.parent_call is not None)
    cut: Lines = []

    def edit_manifest(manifest: dict[str, Any]) -> None:
        (row,) = [one for one in manifest["logs"] if one["id"] == child.id]
        row.update(seq=cut[-1]["seq"], digest=cut[-1]["digest"])
        manifest["heads"] = _heads(manifest)

    def cut_off(lines: Lines) -> None:
        del lines[-3:]
        cut[:] = lines

    path = forged(bundles / "talk.zip", tmp_path / "forged.zip", edit_lines(child.file, cut_off), edit_manifest)
    found = [one for one in found_in(path) if one[2:] == ("entries", "child_head")]

    assert [log for log, *_ in found] == [left.settled]


def _heads(manifest: dict[str, Any]) -> str:
    text = "".join(
        f"{log['id']} {log['seq']} {log['digest']}\n" for log in sorted(manifest["logs"], key=lambda one: one["id"])
    )
    return hashlib.sha256(text.encode()).hexdigest()


ROWS: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "another digest": (lambda row: row.update(digest="00" * 32), "logs", "digest"),
    "another end": (lambda row: row.update(seq=7), "logs", "seq"),
    "erased, it says": (lambda row: row.update(erased_at=5), "logs", "erased_at"),
    "another kind": (lambda row: row.update(kind="toolbox"), "logs", "kind"),
    "a part, it says": (lambda row: row.update(prefix=True), "manifest", "prefix"),
}


@pytest.mark.parametrize(("change", "table", "field"), ROWS.values(), ids=list(ROWS))
def test_what_the_manifest_says_of_a_log_is_compared(
    left: Left, bundles: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], table: str, field: str
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        change(next(row for row in manifest["logs"] if row["id"] == left.settled))
        manifest["heads"] = _heads(manifest)

    path = forged(bundles / "talk.zip", tmp_path / "forged.zip", lambda _: None, edit)

    assert (left.settled, 0, table, field) in found_in(path)


def test_a_fork_goes_on_from_what_it_shares(left: Left, bundles: Path, tmp_path: Path) -> None:
    """One that is said to go on from another seq, or whose parent is not there, or stands behind it."""
    part = part_of(bundles / "fork.zip", left.forked)

    def elsewhere(manifest: dict[str, Any]) -> None:
        next(row for row in manifest["logs"] if row["id"] == left.forked)["upto"] = part.upto - 1

    def behind(manifest: dict[str, Any]) -> None:
        manifest["logs"].reverse()

    moved, reversed_ = [
        found_in(forged(bundles / "fork.zip", tmp_path / f"{edit.__name__}.zip", lambda _: None, edit))
        for edit in (elsewhere, behind)
    ]

    assert (left.forked, part.upto, "entries", "row") in moved
    assert (left.forked, 0, "logs", "forked_from") in reversed_


def test_another_digest_of_heads_and_another_conversation_asked_for_are_found(bundles: Path, tmp_path: Path) -> None:
    other = "conversation_" + "0" * 26
    path = forged(
        bundles / "talk.zip",
        tmp_path / "forged.zip",
        lambda _: None,
        lambda it: it.update(heads="00" * 32, asked=other),
    )

    assert found_in(path) == [("bundle", 0, "manifest", "heads"), ("bundle", 0, "manifest", "asked")]


def test_definitions_have_their_digest_and_are_all_there(left: Left, bundles: Path, tmp_path: Path) -> None:
    talk = bundles / "talk.zip"
    pinned = json.loads(
        next(line["head"] for line in map(json.loads, _log_lines(talk, left.settled)) if line["kind"] == "turn.started")
    )
    context = next(value["context"] for _, name, value in pinned["changes"] if name == "turn_config")
    name = f"definitions/{context}.json"
    edited = forged(talk, tmp_path / "edited.zip", lambda members: members.update({name: members[name] + b" "}))
    gone = forged(
        talk,
        tmp_path / "gone.zip",
        lambda members: members.pop(name),
        lambda it: it.update(definitions=[one for one in it["definitions"] if one["digest"] != context]),
    )

    assert found_in(edited) == [("bundle", 0, "definitions", "body")]
    assert [(log, table, field) for log, _, table, field in found_in(gone)] == [(left.settled, "definitions", "row")]


def _log_lines(path: Path, log: str) -> list[bytes]:
    with BundleReader(path) as bundle:
        part = next(part for part in bundle.manifest.logs if part.id == log)
        return b"".join(bundle.chunks(bundle.members[part.file])).splitlines()


def test_a_text_in_a_redacted_bundle_is_a_difference_though_it_is_the_one(
    left: Left, bundles: Path, tmp_path: Path
) -> None:
    part = part_of(bundles / "redacted.zip", left.settled)
    kept = next(json.loads(line) for line in _log_lines(bundles / "all.zip", left.settled) if b'"seq":2,' in line)
    path = forged(
        bundles / "redacted.zip",
        tmp_path / "forged.zip",
        edit_lines(part.file, lambda lines: lines[1].update(payloads=kept["payloads"])),
    )

    assert found_in(path) == [(left.settled, 2, "payloads", "body")]


def test_files_for_people_are_as_they_were_written(bundles: Path, tmp_path: Path) -> None:
    path = forged(
        bundles / "talk.zip",
        tmp_path / "forged.zip",
        lambda members: members.update({"index.html": members["index.html"] + b"<p>"}),
        lambda it: next(one for one in it["files"] if one["file"] == "index.html").update(sha256="00" * 32),
    )

    assert found_in(path) == [("bundle", 0, "archive", "index.html")]


def _flipped_places(size: int, structure: list[range]) -> list[int]:
    """All of the structure, and some hundred of the rest."""
    places = [place for stretch in structure for place in stretch]
    chosen = random.Random(7).sample(range(size), min(size, 300))
    return sorted({*places, *chosen})


async def test_one_flipped_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "small.zip"
    store = SQLiteStore(str(tmp_path / "small.db"))
    async with office(store, Desk()) as kernel:
        talk = await kernel.start("aide")
        await talk.ask("note text=small")
    store = again(store)
    await export_bundle(store, path, conversation=talk.id, redact=True)
    await store.close()
    whole = path.read_bytes()
    with BundleReader(path) as bundle:
        members = list(bundle.members.values())
    headers = [range(member.offset, member.data_offset) for member in members]
    for place in _flipped_places(len(whole), [*headers, range(members[-1].end, len(whole))]):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            found = not checked(path).ok
        except BundleRefused:
            found = True

        assert found, f"byte {place} of {len(whole)}"


async def test_with_anchors_every_log_goes_on_from_where_it_was_anchored(tmp_path: Path) -> None:
    desk, path, file = Desk(), tmp_path / "all.zip", tmp_path / "anchors.jsonl"
    key = AnchorKey(Secret("k" * 40))
    store = SQLiteStore(str(tmp_path / "store.db"))
    async with office(store, desk) as kernel:
        talk = await kernel.start("clerk")
        await talk.ask("note text=a")
        await anchor_store(kernel.store, file, key=key)
        await talk.ask("note text=b")
        await export_bundle(kernel.store, path)
        await export_bundle(kernel.store, tmp_path / "talk.zip", conversation=talk.id)
        await talk.ask("note text=c")
        before = read_anchors(file)
        await anchor_store(kernel.store, file, key=key)
        after = read_anchors(file)
    proven, part = checked(path, anchors=before, keys=[key]), checked(tmp_path / "talk.zip", anchors=before)
    cut = checked(path, anchors=after)

    assert proven.ok
    assert proven.proof is not None
    assert proven.proof.keyed
    assert part.ok
    assert ("logs", "seq") in {(one.table, one.field) for one in cut.differences if one.log == talk.id}


async def test_a_bundle_that_was_made_anew_as_a_whole_is_found_with_anchors_alone(tmp_path: Path) -> None:
    file, anchored, other = tmp_path / "anchors.jsonl", tmp_path / "anchored.zip", tmp_path / "other.zip"
    for name, path in (("one", anchored), ("two", other)):
        store = SQLiteStore(str(tmp_path / f"{name}.db"))
        async with office(store, Desk()) as kernel:
            talk = await kernel.start("clerk")
            await talk.ask(f"note text={name}")
            await export_bundle(kernel.store, path)
            if path is anchored:
                await anchor_store(kernel.store, file)
    anchors = read_anchors(file)
    found = checked(other, anchors=anchors)

    assert checked(other).ok
    assert checked(anchored, anchors=anchors).ok
    assert ("logs", "row") in {(one.table, one.field) for one in found.differences}


async def test_of_a_part_that_a_fork_shares_anchors_say_what_they_can(
    left: Left, bundles: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anchors.jsonl"
    store = again(left.store)
    await anchor_store(store, file)
    await store.close()
    report = checked(bundles / "fork.zip", anchors=read_anchors(file))

    assert [part.prefix for part in manifest_of(bundles / "fork.zip").logs].count(True) == 1
    assert report.ok, report.differences


def test_the_heads_of_a_whole_store_are_those_that_verify_prints_of_it(bundles: Path) -> None:
    manifest = manifest_of(bundles / "all.zip")

    assert manifest.heads == digest_of_heads(part.row() for part in manifest.logs)


def test_only_so_many_differences_are_told(bundles: Path, tmp_path: Path) -> None:
    def blank(members: dict[str, bytes]) -> None:
        for name in [name for name in members if name.startswith("logs/")]:
            edit_lines(name, lambda lines: [line.update(digest="00" * 32) for line in lines])(members)

    path = forged(bundles / "all.zip", tmp_path / "forged.zip", blank)
    with BundleReader(path) as bundle:
        report = check_bundle(bundle, differences_max=3)

    assert len(report.differences) == 3
    assert report.more > 10

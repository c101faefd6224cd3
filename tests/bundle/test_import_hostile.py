"""A stranger's bundle in which every digest fits, and which says what no kernel ever wrote, does not reach the store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import BundleError, ImportRefused
from agentos.history.bundle import BundleReader, import_bundle
from agentos.persistence.memory import MemoryStore
from tests.bundle.archive_support import forged, reheaded
from tests.history.copy_support import Left


async def refused(store: MemoryStore, path: Path, reason: str) -> None:
    with BundleReader(path) as bundle, pytest.raises(ImportRefused, match=reason):
        await import_bundle(store, bundle)
    assert await store.logs() == []
    assert await store.definitions() == []


class Edits:
    """Puts another text into heads, of entries of one kind or of all; count says into how many."""

    def __init__(self, old: str, new: str, kind: str = "") -> None:
        self._old, self._new, self._kind = old, new, kind
        self.count = 0

    def __call__(self, head: str) -> str:
        if self._old not in head or (self._kind and f'"{self._kind}"' not in head):
            return head
        self.count += 1
        return head.replace(self._old, self._new)


def forgery(bundles: Path, left: Left, tmp_path: Path, edit: Callable[[str], str]) -> Path:
    """The conversation of talk.zip with other heads, and a manifest that says so too."""
    return reheaded(bundles / "talk.zip", tmp_path / "forged.zip", left.settled, edit)


async def test_the_forgery_itself_is_taken_when_it_says_what_was(
    bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """So that what the other tests see is what they changed."""
    with BundleReader(forgery(bundles, left, tmp_path, lambda head: head)) as bundle:
        arrived = await import_bundle(store, bundle)

    assert len(arrived.conversations) > 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"phase":"prompt"', '"phase":"nowhere"'),
        ('"step_index":', '"step_index":{},"was":'),
        ('"slug":"clerk"', '"slug":7'),
    ],
)
async def test_what_cannot_be_folded_is_refused(
    old: str, new: str, bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    edits = Edits(old, new)
    path = forgery(bundles, left, tmp_path, edits)

    await refused(store, path, f"{left.settled} cannot be folded")
    assert edits.count


async def test_a_snapshot_that_says_another_thing_than_the_entries_is_refused(
    bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """A kernel would begin at it, and find work that nobody had decided on."""
    edited: list[str] = []

    def open_a_turn(head: str) -> str:
        found = (
            re.sub(r'("last_turn":[0-9]+)(,"open_turn":[0-9]+)?', r'\1,"open_turn":3', head)
            if '"kind":"snapshot"' in head
            else head
        )
        edited.extend([found] if found != head else [])
        return found

    path = forgery(bundles, left, tmp_path, open_a_turn)

    await refused(store, path, f"{left.settled} seq [0-9]+: entries.snapshot is")
    assert edited


@pytest.mark.parametrize("name", ["root", "tenant", "parent_call"])
async def test_a_manifest_that_says_another_place_than_the_log_is_refused(
    name: str, bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    other = {
        "root": "conversation_00000000000000000000000000",
        "tenant": "somebody-else",
        "parent_call": "call_00000000000000000000000000_3",
    }

    def say(manifest: dict[str, Any]) -> None:
        (part,) = [one for one in manifest["logs"] if one["id"] == left.settled]
        part[name] = other[name]

    await refused(store, forged(bundles / "talk.zip", tmp_path / "lies.zip", lambda _: None, say), left.settled)


async def test_a_file_that_is_no_bundle_makes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "not.zip"
    path.write_bytes(b"PK\x03\x04" + json.dumps({"a": 1}).encode())

    with pytest.raises(BundleError):
        BundleReader(path)

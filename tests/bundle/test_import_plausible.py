"""A bundle whose digests all fit and whose units fold, and that says what no kernel writes, is refused whole."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from agentos.clock import SystemClock
from agentos.errors import ImportRefused
from agentos.events.entry import commitment
from agentos.history.bundle import BundleReader, import_bundle
from agentos.history.bundle.plausible import AHEAD_S
from agentos.history.past.points import iso_time
from agentos.ids import Micros
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from tests.bundle.archive_support import edit_lines, forged, manifest_of, reheaded
from tests.history.copy_support import Left

FAR_US = 2**62


async def refused(store: MemoryStore, path: Path, reason: str, **options: Any) -> None:
    with BundleReader(path) as bundle, pytest.raises(ImportRefused, match=reason):
        await import_bundle(store, bundle, **options)
    assert await store.logs() == []


@pytest.mark.parametrize(
    ("field", "pattern", "new"),
    [
        ("at", '"at":[0-9]+', f'"at":{FAR_US}'),
        ("at", '"at":[0-9]+', '"at":-5'),
        ("at", '"at":[0-9]+', f'"at":{2**64}'),
        ("changes", '"started_at":[0-9]+', f'"started_at":{FAR_US}'),
        ("changes", '"slug":"clerk"', r'"slug":"\\u001b[31mclerk"'),
        ("changes", '"slug":"clerk"', '"slug":"<script>"'),
        ("changes", '"slug":"clerk"', '"slug":"cl\u202eerk"'),
        ("changes", '"slug":"clerk"', f'"slug":"{"c" * 129}"'),
        ("writer", '"writer":[0-9]+', f'"writer":{2**63 - 1}'),
        ("writer", '"writer":[0-9]+', '"writer":-1'),
        ("by", '("at":[0-9]+)', r'\1,"by":"my boss"'),
        ("turn", '"turn":[0-9]+', '"turn":99999'),
        ("its head", '{"at"', '{"at":1,"at"'),
        ("its head", '"kind":', '"kind": '),
        ("its head", '"writer":1', '"writer":1,"zeal":2'),
        ("conversations.depth", '("children_budget":[0-9]+)', r'\1,"depth":-4'),
        ("conversations.input_tokens", '"input_tokens":[0-9]+', f'"input_tokens":{10**13}'),
    ],
)
async def test_what_no_kernel_writes_is_refused_with_its_place(
    field: str, pattern: str, new: str, bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    path = reheaded(
        bundles / "talk.zip", tmp_path / "forged.zip", left.settled, lambda head: re.sub(pattern, new, head, count=1)
    )

    await refused(store, path, f"{left.settled} seq [0-9]+: {re.escape(field)} is not as a kernel writes it")


@pytest.mark.parametrize("body", ["a\x00b", '{"$text":', '{"$bytes":"AA=="}'])
async def test_a_body_of_another_form_is_refused(
    body: str, bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """PostgreSQL stores no U+0000, and whoever opens the body would fail."""
    source, log = bundles / "talk.zip", left.settled
    file = next(part.file for part in manifest_of(source).logs if part.id == log)
    salts: list[bytes] = []

    def put(lines: list[dict[str, Any]]) -> None:
        line = next(line for line in lines if line["kind"] == "input.received")
        line["payloads"][0][3] = body
        salts.append(bytes.fromhex(line["payloads"][0][2]))

    with_body = forged(source, tmp_path / "body.zip", edit_lines(file, put))
    promised = commitment(salts[0], body)

    def commit(head: str) -> str:
        word = base64.b64encode(promised).decode()
        return (
            re.sub(r'(\["text",")[^"]+', rf"\g<1>{word}", head) if '"kind":"input.received","seq":2,' in head else head
        )

    await refused(
        store,
        reheaded(with_body, tmp_path / "forged.zip", log, commit),
        f"{log} seq 2: value 0, 'text', is not as a kernel writes it",
    )


async def test_entries_of_a_time_to_come_are_refused_with_the_limit(bundles: Path, store: MemoryStore) -> None:
    """Retention counts from the last entry, and would keep them for ever."""
    before = ManualClock(start=Micros(SystemClock().now() - 2 * AHEAD_S * 1_000_000))

    await refused(store, bundles / "talk.zip", r"more than 24 hours ahead \(AHEAD_S\)", clock=before)


def test_an_owner_count_that_leaves_no_next_one_is_no_manifest(bundles: Path, tmp_path: Path) -> None:
    path = tmp_path / "epoch.zip"

    with pytest.raises(ValueError, match="epoch"):
        forged(bundles / "talk.zip", path, lambda _: None, lambda manifest: manifest["logs"][0].update(epoch=2**63 - 1))

    assert not path.exists()


def test_a_number_that_is_no_time_is_shown_as_one() -> None:
    assert iso_time(FAR_US) == f"{FAR_US} us"
    assert iso_time(-FAR_US) == f"-{FAR_US} us"
    assert iso_time(0) == "1970-01-01T00:00:00.000000Z"

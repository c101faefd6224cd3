"""What of private texts goes into a bundle: all, none, or what an erase has left."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from agentos.history.bundle import export_bundle
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from tests.bundle.archive_support import checked, manifest_of, members_of
from tests.history.copy_support import Left, again
from tests.history.support import Desk, office

CANARY = "canary-4711"


async def _talk(store: Store, tmp_path: Path, **spec: Any) -> str:
    """A conversation with the canary in all that is private: prompt, input, reply, arguments, results, of a child too."""
    clerk = {"system_prompt": f"Keep {CANARY}.", **spec}
    async with office(store, Desk(), clerk=clerk) as kernel:
        talk = await kernel.start("clerk")
        await talk.ask(f"note text={CANARY}\nfail text={CANARY}\nask_aide task='note text={CANARY}'")
        return str(talk.id)


def _hidden(text: str) -> list[bytes]:
    """The forms in which a text may stand in a file."""
    shifted = [base64.b64encode(b"x" * n + text.encode())[4 if n else 0 : -4] for n in range(3)]
    return [text.encode(), text.encode("utf-16-le"), text.encode().hex().encode(), text[::-1].encode(), *shifted]


async def test_a_redacted_bundle_has_no_private_text_in_any_byte(tmp_path: Path) -> None:
    store = MemoryStore()
    talk = await _talk(store, tmp_path)
    for n, asked in enumerate((talk, None)):
        plain = await export_bundle(store, tmp_path / f"plain{n}.zip", conversation=asked)
        redacted = await export_bundle(store, tmp_path / f"redacted{n}.zip", redact=True, conversation=asked)
        whole = members_of(tmp_path / f"redacted{n}.zip")
        held = [*whole.values(), (tmp_path / f"redacted{n}.zip").read_bytes(), "\n".join(whole).encode()]

        assert any(CANARY.encode() in body for body in members_of(tmp_path / f"plain{n}.zip").values())
        for form in _hidden(CANARY):
            assert not [body for body in held if form in body]
        assert (redacted.payloads, redacted.entries) == (0, plain.entries)
        assert redacted.manifest.heads == plain.manifest.heads
        assert not [name for name in whole if name.startswith("definitions/")]
        assert b"note" in whole["index.html"], "the names of tools stay"
        assert checked(tmp_path / f"redacted{n}.zip").ok
    await store.close()


async def test_who_has_a_text_and_its_salt_proves_it_by_a_redacted_bundle(left: Left, bundles: Path) -> None:
    store = again(left.store)
    ((_, _, salt, body), *_) = (await store.entries(left.settled, 1, 2))[0].payloads
    await store.close()
    part = next(log for log in manifest_of(bundles / "redacted.zip").logs if log.id == left.settled)
    line = json.loads(members_of(bundles / "redacted.zip")[part.file].splitlines()[1])
    ((_, committed),) = json.loads(line["head"])["commitments"]

    assert line["payloads"] == [[0, "text", None, None]]
    assert salt is not None
    assert body is not None
    assert base64.b64decode(committed) == hashlib.sha256(salt + body.encode()).digest()


async def test_an_erased_conversation_goes_with_its_receipts_and_a_fork_of_it_too(tmp_path: Path) -> None:
    store = SQLiteStore(str(tmp_path / "store.db"))
    async with office(store, Desk()) as kernel:
        talk = await kernel.start("clerk")
        await talk.ask(f"note text={CANARY}\nask_aide task='note text={CANARY}'")
        fork = await kernel.fork(talk.id, None, run=False)
        await kernel.erase(talk.id, forks=True)
        whole = await export_bundle(kernel.store, tmp_path / "talk.zip", conversation=talk.id)
        forked = await export_bundle(kernel.store, tmp_path / "fork.zip", conversation=fork.id)
        await export_bundle(kernel.store, tmp_path / "all.zip")
        await export_bundle(kernel.store, tmp_path / "redacted.zip", redact=True)
    parent = next(log for log in forked.manifest.logs if log.id == talk.id)

    assert whole.erased == len(whole.manifest.logs) == 2
    assert whole.payloads == 0
    assert (parent.prefix, parent.seq) == (False, next(log.seq for log in whole.manifest.logs if log.id == talk.id))
    for name in ("talk", "fork", "all", "redacted"):
        assert checked(tmp_path / f"{name}.zip").ok, checked(tmp_path / f"{name}.zip").differences
        assert not [body for body in members_of(tmp_path / f"{name}.zip").values() if CANARY.encode() in body]

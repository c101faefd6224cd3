"""An export holds what it was asked for, from every kind of store, in a form that others read too."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agentos.components import Verdict
from agentos.history import copy_store, heads_digest
from agentos.history.bundle import BundleLimits, Exported, export_bundle
from agentos.ids import Kind
from agentos.kernel.rest import open_requests
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from agentos.testing.postgres import PostgresServer
from tests.bundle.archive_support import checked, manifest_of, members_of
from tests.history.copy_support import Left, again
from tests.history.support import Desk, office, until


async def _entries(store: Store, path: Path) -> None:
    """Every log of a bundle has the entries, salts and bodies that the store has."""
    members, manifest = members_of(path), manifest_of(path)
    for part in manifest.logs:
        lines = [json.loads(line) for line in members[part.file].splitlines()]
        stored = await store.entries(part.id, part.shared, part.seq)
        assert [(line["head"], line["digest"]) for line in lines] == [(one.head, one.digest.hex()) for one in stored]
        assert [
            [(i, name, bytes.fromhex(salt), body) for i, name, salt, body in line["payloads"]] for line in lines
        ] == [one.payloads for one in stored]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file", "postgresql"])
async def test_every_store_gives_the_same_logs(
    left: Left, bundles: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path / 'copy.db'}", "file": f"file:{tmp_path / 'copy'}"}
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        urls[kind] = server.new_schema_url()
    source, memory = again(left.store), MemoryStore()
    await copy_store(source, memory if kind == "memory" else open_store(urls[kind]))
    store = MemoryStore(beside=memory) if kind == "memory" else open_store(urls[kind])
    exported = await export_bundle(store, tmp_path / "all.zip")
    await _entries(store, tmp_path / "all.zip")
    heads = await heads_digest(store)
    await store.close()
    await source.close()
    mine, theirs = members_of(tmp_path / "all.zip"), members_of(bundles / "all.zip")
    logs = [
        {part.id: mine_or[part.file] for part in manifest_of(path).logs}
        for mine_or, path in ((mine, tmp_path / "all.zip"), (theirs, bundles / "all.zip"))
    ]

    assert checked(tmp_path / "all.zip").ok
    assert exported.manifest.heads == heads == manifest_of(bundles / "all.zip").heads
    assert logs[0] == logs[1]
    assert {name: body for name, body in mine.items() if name.startswith("definitions/")} == {
        name: body for name, body in theirs.items() if name.startswith("definitions/")
    }


async def test_the_same_store_at_the_same_time_gives_the_same_bytes(left: Left, tmp_path: Path) -> None:
    store = again(left.store)
    for name in ("one", "two"):
        await export_bundle(store, tmp_path / name, conversation=left.settled, clock=ManualClock())
    await store.close()

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_other_programs_for_zips_read_a_bundle_and_its_digest_is_that_of_the_file(
    bundles: Path, tmp_path: Path
) -> None:
    for path in sorted(bundles.iterdir()):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            assert archive.testzip() is None
            assert {name: archive.read(name) for name in names} == members_of(path)
            comment = archive.comment
        raw = path.read_bytes()

        assert names[0] == "manifest.json"
        assert names[1:] == sorted(names[1:])
        assert comment == b"agentos bundle 1 sha256 " + hashlib.sha256(raw[: -len(comment)]).hexdigest().encode()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_conversation_goes_with_all_below_it_and_the_whole_store_with_agents_and_toolboxes(
    left: Left, bundles: Path
) -> None:
    talk, whole = manifest_of(bundles / "talk.zip"), manifest_of(bundles / "all.zip")
    below = [log.id for log in whole.logs if log.root == left.settled and log.forked_from is None]

    assert sorted(log.id for log in talk.logs) == sorted(below)
    assert len(below) == 5
    assert talk.asked == left.settled
    assert whole.asked is None
    assert {log.kind for log in whole.logs} == {Kind.CONVERSATION.value, Kind.AGENT.value, Kind.TOOLBOX.value}
    assert not [log for log in (*talk.logs, *whole.logs) if log.prefix]


def test_a_fork_goes_with_the_entries_that_it_shares_and_the_children_of_those_and_no_others(
    left: Left, bundles: Path
) -> None:
    fork, talk = manifest_of(bundles / "fork.zip"), manifest_of(bundles / "talk.zip")
    own = next(log for log in fork.logs if log.id == left.forked)
    (parent,) = [log for log in fork.logs if log.prefix]
    children = [log for log in talk.logs if log.parent_call is not None]
    shared = [log.id for log in children if int((log.parent_call or "").rpartition("_")[2]) <= own.upto]

    assert (parent.id, parent.seq, parent.entries) == (left.settled, own.upto, own.upto)
    assert own.forked_from == left.settled
    assert sorted(log.id for log in fork.logs) == sorted([left.forked, left.settled, *shared])
    assert 0 < len(shared) < len(children)


async def test_forks_of_forks_and_of_children_go_with_all_that_they_share(tmp_path: Path) -> None:
    async with office(MemoryStore(), Desk()) as kernel:
        talk = await kernel.start("clerk")
        await talk.ask("note text=a\nask_aide task='note text=deep'")
        child = next(row.id for row in await kernel.store.logs() if row.parent_call is not None)
        first = await kernel.fork(talk.id, None, run=False)
        await (await kernel.get(first.id)).ask("note text=b\nask_aide task='note text=deeper'")
        second = await kernel.fork(first.id, None, run=False)
        early = await kernel.fork(second.id, first.upto, run=False)
        inner = await kernel.fork(child, None, run=False)
        await talk.ask("note text=not shared")
        found = {}
        for name, fork in (("second", second), ("early", early), ("inner", inner)):
            exported = await export_bundle(kernel.store, tmp_path / name, conversation=fork.id)
            found[name] = {log.id: (log.prefix, log.seq) for log in exported.manifest.logs}
            assert checked(tmp_path / name).ok, checked(tmp_path / name).differences

    assert len(found["second"]) == 5, "two forks, a conversation, and a child of each of the first two"
    assert found["second"][talk.id] == found["early"][talk.id] == (True, first.upto)
    assert first.id not in found["early"], "what it shares is of the conversation alone"
    assert found["inner"].keys() == {inner.id, child}


async def test_a_child_by_itself_goes_without_what_is_above_it(left: Left, bundles: Path, tmp_path: Path) -> None:
    child = next(log for log in manifest_of(bundles / "talk.zip").logs if log.parent_call is not None)
    store = again(left.store)
    exported = await export_bundle(store, tmp_path / "child.zip", conversation=child.id)
    await store.close()

    assert [log.id for log in exported.manifest.logs] == [child.id]
    assert checked(tmp_path / "child.zip").ok


async def test_pages_that_show_a_part_say_so(left: Left, tmp_path: Path) -> None:
    store = again(left.store)
    exported: Exported = await export_bundle(store, tmp_path / "all.zip", limits=BundleLimits(bundle_nodes_max=10))
    await store.close()

    assert exported.cut
    assert b"a part of it" in members_of(tmp_path / "all.zip")["index.html"]
    assert checked(tmp_path / "all.zip").ok


def test_the_readme_tells_how_to_verify_without_the_program(bundles: Path, tmp_path: Path) -> None:
    """What it says, done with nothing but the standard library."""
    members = members_of(bundles / "fork.zip")
    (tmp_path / "verify.py").write_text(_BY_HAND)
    ran = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "verify.py"), str(bundles / "fork.zip")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert all(word in members["README.txt"].decode() for word in ("agentos verify", "sha256", "salt"))
    assert (ran.stdout, ran.stderr, ran.returncode) == ("63 entries, 29 values\n", "", 0)


_BY_HAND = """
import base64, hashlib, json, sys, zipfile

def sha256(data):
    return hashlib.sha256(data).digest()

raw, archive = open(sys.argv[1], "rb").read(), zipfile.ZipFile(sys.argv[1])
assert archive.comment.decode().split()[-1] == sha256(raw[: -len(archive.comment)]).hex()
manifest, at, entries, values = json.loads(archive.read("manifest.json")), {}, 0, 0
for log in manifest["logs"]:
    before = sha256(b"agentos log " + log["id"].encode())
    if log["forked_from"]:
        before = at[log["forked_from"], log["upto"]]
    for line in archive.read(log["file"]).decode().split("\\n")[:-1]:
        entry = json.loads(line)
        before = sha256(before + entry["head"].encode())
        assert before.hex() == entry["digest"]
        committed = json.loads(entry["head"]).get("commitments", [])
        for i, name, salt, body in entry["payloads"]:
            assert base64.b64decode(committed[i][1]) == sha256(bytes.fromhex(salt) + body.encode())
            values += 1
        at[log["id"], entry["seq"]] = before
        entries += 1
    assert before.hex() == log["digest"]
heads = "".join(f"{log['id']} {log['seq']} {log['digest']}\\n" for log in sorted(manifest["logs"], key=lambda x: x["id"]))
assert sha256(heads.encode()).hex() == manifest["heads"]
print(f"{entries} entries, {values} values")
"""


async def test_settled_or_not_a_turn_that_is_open_goes_as_it_is(left: Left, tmp_path: Path) -> None:
    store = again(left.store)
    exported = await export_bundle(store, tmp_path / "running.zip", conversation=left.running)
    await store.close()

    assert checked(tmp_path / "running.zip").ok
    assert b"running" in members_of(tmp_path / "running.zip")["index.html"]
    assert exported.manifest.asked == left.running


def test_the_page_about_bundles_has_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundles.md").read_text()
    limits = BundleLimits()

    for name in limits.__struct_fields__:
        assert f"| `{name}` | {getattr(limits, name)} |" in page


async def test_a_child_that_was_begun_behind_what_a_fork_shares_does_not_go_along(tmp_path: Path) -> None:
    """Its call stood there already, and waited for a person: what came of it was said in the parent later."""
    store, path = MemoryStore(), tmp_path / "fork.zip"
    asks = {"approval": "park", "approval_s": 3_600, "policy": [{"tool": "ask_helper", "verdict": "ask"}]}
    async with office(store, Desk(), clerk=asks) as kernel:
        clerk = await kernel.start("clerk")
        asked = asyncio.ensure_future(clerk.ask("ask_helper task='note text=later-secret'"))
        await until(lambda: kernel.state_of(clerk.id) == "parked")
        (request,) = open_requests(kernel)
        forked = await kernel.fork(clerk.id, run=False)
        await kernel.answer(request, Verdict.ALLOW)
        await asked
        children = [row.id for row in await store.logs("conversation") if row.parent_call is not None]

        exported = await export_bundle(store, path, conversation=forked.id)
        whole = await export_bundle(store, tmp_path / "whole.zip", conversation=clerk.id)

    assert [log.id for log in exported.manifest.logs] == [clerk.id, forked.id]
    assert not [name for name, member in members_of(path).items() if b"noted later-secret" in member]
    assert {log.id for log in whole.manifest.logs} == {clerk.id, *children}
    assert checked(path).ok
    await store.close()

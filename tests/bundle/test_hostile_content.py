"""Hostile content: a manifest, lines and heads of other forms, in an archive whose digests all fit."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.errors import BundleDamaged, BundleRefused
from agentos.history.bundle import BundleLimits, BundleReader, check, check_bundle
from agentos.history.bundle.container import COMMENT_BYTES, MARK
from tests.bundle.archive_support import Raw, archive, edit_lines, forged, members_of, raws_of

Edit = Callable[[list[Raw]], list[Raw] | None]

LOG = "logs/00001.jsonl"


def _other_manifest(edit: Callable[[bytes], bytes]) -> Edit:
    def apply(raws: list[Raw]) -> None:
        raws[0].data = edit(raws[0].data)

    return apply


def _ladder(raw: bytes) -> bytes:
    return raw.replace(b'"rules": "', b'"rules": ' + b"[" * 50_000 + b'"', 1)


MANIFESTS: dict[str, tuple[Edit, str]] = {
    "not JSON": (_other_manifest(lambda raw: b"\xff\xfe{"), "not that of a bundle"),
    "empty": (_other_manifest(lambda raw: b""), "not that of a bundle"),
    "deep": (_other_manifest(_ladder), "not that of a bundle"),
    "a huge integer": (
        _other_manifest(lambda raw: raw.replace(b'"format": 1', b'"format": ' + b"9" * 90_000)),
        "not that",
    ),
    "a key twice": (_other_manifest(lambda raw: raw.replace(b'"format": 1', b'"format": 1,\n "format": 1')), "twice"),
    "an unknown key": (
        _other_manifest(lambda raw: raw.replace(b'"format"', b'"run": "rm",\n "format"')),
        "unknown field",
    ),
    "other blanks": (_other_manifest(lambda raw: raw + b"\n"), "not written as a bundle writes it"),
    "a number as text": (_other_manifest(lambda raw: raw.replace(b'"format": 1', b'"format": "1"')), "not that"),
    "a later format": (_other_manifest(lambda raw: raw.replace(b'"format": 1', b'"format": 2')), "reads format 1"),
    "negative": (_other_manifest(lambda raw: raw.replace(b'"schema": 3', b'"schema": -3')), "not that of a bundle"),
}


@pytest.mark.parametrize(("edit", "reason"), MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_manifest_of_another_form_is_refused(bundles: Path, tmp_path: Path, edit: Edit, reason: str) -> None:
    raws = raws_of(bundles / "talk.zip")
    edit(raws)
    path = archive(tmp_path / "hostile.zip", raws)

    with pytest.raises(BundleRefused) as refused:
        BundleReader(path)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_a_manifest_that_says_two_things_of_one_log_or_member_is_refused(bundles: Path, tmp_path: Path) -> None:
    edits: list[Callable[[dict[str, Any]], object]] = [
        lambda manifest: manifest["logs"].append(dict(manifest["logs"][0])),
        lambda manifest: manifest["logs"][1].update(id=manifest["logs"][0]["id"]),
        lambda manifest: manifest["logs"][1].update(file=manifest["logs"][0]["file"]),
        lambda manifest: manifest["definitions"].append(dict(manifest["definitions"][0])),
        lambda manifest: manifest["logs"][0].update(file="README.txt"),
        lambda manifest: manifest["definitions"][0].update(file=None),
        lambda manifest: manifest["definitions"][0].update(file=manifest["definitions"][1]["file"]),
        lambda manifest: manifest["files"][0].update(bytes=1),
    ]
    for edit in edits:
        path = forged(bundles / "talk.zip", tmp_path / "forged.zip", lambda _: None, edit)
        with pytest.raises(BundleRefused):
            BundleReader(path)


def _line(edit: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], None]:
    """Edits the second line of a log."""

    def apply(members: dict[str, bytes]) -> None:
        first, second, rest = members[LOG].split(b"\n", 2)
        members[LOG] = b"\n".join((first, edit(second), rest))

    return apply


LINES: dict[str, Callable[[bytes], bytes]] = {
    "a key twice": lambda line: line[:-1] + b',"unit":1}',
    "an unknown key": lambda line: line[:-1] + b',"zzz":1}',
    "blanks": lambda line: line.replace(b'"seq":', b'"seq": '),
    "a huge integer": lambda line: line.replace(b'"seq":2', b'"seq":' + b"2" * 50_000),
    "a number in another form": lambda line: line.replace(b'"seq":2', b'"seq":2.0'),
    "deep": lambda line: line.replace(b'"payloads":[', b'"payloads":[' + b"[" * 100_000),
    "an escape that is none": lambda line: line.replace(b'"kind":"', b'"kind":"\\ud800'),
    "an escape of a letter": lambda line: line.replace(b'"kind":"i', b'"kind":"\\u0069'),
    "not UTF-8": lambda line: line.replace(b'"kind":"', b'"kind":"\xff'),
    "a digest of blanks": lambda line: line.replace(b'"digest":"', b'"digest":" '),
    "empty": lambda line: b"",
    "a return": lambda line: line + b"\r",
    "another line": lambda line: b"[]",
}


@pytest.mark.parametrize("edit", LINES.values(), ids=list(LINES))
def test_a_line_of_another_form_is_named_with_its_place(
    bundles: Path, tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    path = forged(bundles / "talk.zip", tmp_path / "forged.zip", _line(edit))
    with BundleReader(path) as bundle:
        log = bundle.manifest.logs[0].id
        report = check_bundle(bundle)

    assert ("archive", f"{LOG} line 2") in [(one.table, one.field) for one in report.differences if one.log == log]
    assert all(len(str(one)) < 1_000 for one in report.differences)


HEADS: dict[str, Any] = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "a huge integer": b"1" * 100_000,
    "a list": b"[]",
    "a child that is a list": b'{"child_head":["x"]}',
    "a receipt of nothing": b'{"upto":"all"}',
}


@pytest.mark.parametrize("kind", ["call.finished", "payload.erased", "turn.started", "input.received"])
@pytest.mark.parametrize("data", HEADS.values(), ids=list(HEADS))
def test_a_head_of_any_form_is_a_difference_and_no_fault_of_this_program(
    bundles: Path, tmp_path: Path, data: bytes, kind: str
) -> None:
    """The chain goes on over it, since the forger made all digests anew."""
    changes = (
        b'[[0,"turn_config",[]],[0,"turn_config",{"context":{}}],[2,"call_state",7],[2,"call_state",{"child":[]}]]'
    )
    head = b'{"at":1,"changes":%b,"data":%b,"kind":"%b","seq":2,"unit":2,"writer":1}' % (changes, data, kind.encode())

    def edit(members: dict[str, bytes]) -> None:
        first = json.loads(members[LOG].split(b"\n", 1)[0])
        digest = hashlib.sha256(bytes.fromhex(first["digest"]) + head).hexdigest()
        line = {"seq": 2, "unit": 2, "kind": kind, "digest": digest, "head": head.decode(), "payloads": []}
        members[LOG] = b"".join(msgspec.json.encode(one, order="sorted") + b"\n" for one in (first, line))

    path = forged(bundles / "talk.zip", tmp_path / "forged.zip", edit)
    with BundleReader(path) as bundle:
        report = check_bundle(bundle)

    assert not report.ok


def test_nothing_of_a_bundle_is_held_in_memory_but_a_line(bundles: Path) -> None:
    """Members come in pieces, however large they are."""
    with BundleReader(bundles / "all.zip") as bundle:
        sizes = [len(chunk) for member in bundle.members.values() for chunk in bundle.chunks(member)]

    assert max(sizes) <= 64 * 1024
    assert sum(sizes) == sum(map(len, members_of(bundles / "all.zip").values()))


def test_a_forger_cannot_fill_the_memory_with_differences_or_delegations(
    bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "HELD_MAX", 5)

    def blank(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line.update(digest="00" * 32)

    path = forged(bundles / "talk.zip", tmp_path / "forged.zip", edit_lines(LOG, blank))
    with BundleReader(path) as bundle:
        report = check_bundle(bundle)
    with BundleReader(bundles / "talk.zip", BundleLimits(bundle_delegations_max=1)) as bundle:
        delegations = check_bundle(bundle)

    assert len(report.differences) == 7
    assert "nothing more was looked for" in str(report.differences[0])
    assert {one.field for one in delegations.differences} == {"child_head"}
    assert "bundle_delegations_max" in str(delegations.differences[0])


def test_a_log_with_more_entries_than_said_or_allowed_is_not_read_to_its_end(bundles: Path, tmp_path: Path) -> None:
    few = forged(bundles / "talk.zip", tmp_path / "few.zip", lambda _: None, lambda it: it["logs"][0].update(entries=3))
    with BundleReader(few) as bundle:
        entries = bundle.entries(bundle.manifest.logs[0])
        read = [next(entries).seq for _ in range(3)]
        with pytest.raises(BundleDamaged, match="4 lines or more, and 3 are said"):
            next(entries)
    with pytest.raises(BundleRefused, match="bundle_log_entries_max"):
        BundleReader(bundles / "talk.zip", BundleLimits(bundle_log_entries_max=20))

    assert read == [1, 2, 3]


def _mutated(content: bytes, dice: random.Random) -> bytes:
    """A few bytes changed, put in, taken out or doubled."""
    found = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 3, 10))):
        at = dice.randrange(len(found))
        upto = at + dice.choice((1, 2, 8, 64))
        more = dice.choice((b"0", b'"', b"[", b'{"a":1}', b"null", b"-1", b",", b"\n", b"\0", b"9" * 30))
        found[at:upto] = dice.choice((more, b"", found[at:upto] * 2, bytes([dice.randrange(256)])))
    return bytes(found)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_forger_changes_the_answer_is_a_refusal_or_a_difference(
    bundles: Path, tmp_path: Path, seed: int
) -> None:
    """The archive, the manifest and the logs are changed at random, and the digests around them made anew."""
    dice, source, path = random.Random(seed), bundles / "fork.zip", tmp_path / "forged.zip"
    whole, raws = source.read_bytes()[:-COMMENT_BYTES], raws_of(source)
    logs = [raw.name.decode() for raw in raws if raw.name.startswith(b"logs/")]
    answers = {"refused": 0, "differs": 0, "holds": 0}
    for n in range(60):
        if n % 3 == 0:
            changed = _mutated(whole, dice)
            path.write_bytes(changed + MARK + hashlib.sha256(changed).hexdigest().encode())
        elif n % 3 == 1:
            manifest = Raw(name=raws[0].name, data=_mutated(raws[0].data, dice))
            archive(path, [manifest, *raws[1:]])
        else:
            name = dice.choice(logs)
            forged(source, path, _changed_member(name, dice))
        answers[_answer(path)] += 1

    assert answers["refused"] > 10
    assert answers["differs"] > 10
    assert answers["holds"] < 5, "a change of the manifest that says the same, or nothing that can be recomputed"


def _changed_member(name: str, dice: random.Random) -> Callable[[dict[str, bytes]], object]:
    return lambda members: members.update({name: _mutated(members[name], dice)})


def _answer(path: Path) -> str:
    try:
        with BundleReader(path) as bundle:
            return "holds" if check_bundle(bundle).ok else "differs"
    except BundleRefused:
        return "refused"

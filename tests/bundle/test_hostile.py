"""Hostile archives: each form of the attack is refused whole, by name, before anything of it is used or written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import BundleDamaged, BundleRefused
from agentos.history.bundle import BundleLimits, BundleReader, check_bundle
from tests.bundle.archive_support import Raw, archive, raws_of

Edit = Callable[[list[Raw]], list[Raw] | None]


def with_member(name: bytes | str, **more: Any) -> Edit:
    """One more member, at the place where it belongs by its name."""
    raw = Raw(name=name.encode() if isinstance(name, str) else name, data=b"x", **more)
    return lambda raws: [raws[0], *sorted([*raws[1:], raw], key=lambda one: one.name)]


def with_field(part: str, index: int = 1, **fields: Any) -> Edit:
    """Other values in one header, or in both, of a member."""

    def edit(raws: list[Raw]) -> None:
        for name in ("local", "central") if part == "both" else (part,):
            setattr(raws[index], name, fields)

    return edit


NAMES = {
    "up": "logs/../../evil.jsonl",
    "up at once": "../evil",
    "absolute": "/etc/passwd",
    "drive": "C:/evil.txt",
    "backslash": "logs\\00001.jsonl",
    "backslash up": "..\\evil.txt",
    "network": "//host/share",
    "nul": "README.txt\0.exe",
    "newline behind": "README.txt\n",
    "control": "logs/\x1b[2J.jsonl",
    "case twin": "readme.TXT",
    "case twin of the manifest": "MANIFEST.JSON",
    "full width": "ｌogs/00002.jsonl".encode(),
    "other digits": "logs/0000٢.jsonl".encode(),
    "right to left": "README\u202e.txt".encode(),
    "not unicode": b"logs/\xff\xfe.jsonl",
    "a directory": "logs/",
    "a stream": "README.txt:evil",
    "a device": "logs/NUL",
    "a blank": "README.txt ",
    "a dot": "./README.txt",
    "empty": "",
    "long": "logs/" + "0" * 5_000 + ".jsonl",
    "unknown": "setup.py",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_no_member_has_a_name_that_is_not_of_the_closed_set(bundles: Path, tmp_path: Path, name: str | bytes) -> None:
    before = sorted(tmp_path.rglob("*"))
    path = archive(tmp_path / "hostile.zip", with_member(name)(raws_of(bundles / "talk.zip")) or [])

    with pytest.raises(BundleRefused, match=r"a member is named .*, and no member of a bundle is|its directory of"):
        BundleReader(path)
    assert sorted(tmp_path.rglob("*")) == [*before, path]


LAYOUTS: dict[str, tuple[Edit, str]] = {
    "a symbolic link": (with_field("both", external=0o120777 << 16), "is a symbolic link"),
    "a device": (with_field("both", external=0o060600 << 16), "is a device"),
    "a pipe": (with_field("both", external=0o010600 << 16), "is a pipe"),
    "a directory by its mode": (with_field("both", external=0o040755 << 16), "is a directory"),
    "a directory by a flag": (with_field("both", external=0x10), "is a directory"),
    "set-user-id": (with_field("both", external=0o104755 << 16), "not as a bundle has it"),
    "encrypted": (with_field("both", flags=1), "is encrypted"),
    "strongly encrypted": (with_field("both", flags=0x41), "is encrypted"),
    "a data descriptor": (with_field("both", flags=8), "not as a bundle has it"),
    "bzip2": (with_field("both", method=12), "packed by method 12"),
    "lzma": (with_field("both", method=14), "packed by method 14"),
    "zstd": (with_field("both", method=93), "packed by method 93"),
    "zip64 sizes": (with_field("both", packed=0xFFFFFFFF, unpacked=0xFFFFFFFF), "zip64"),
    "zip64 offset": (with_field("central", offset=0xFFFFFFFF), "zip64"),
    "zip64 extra field": (with_field("both", extra=b"\x01\x00\x08\x00" + bytes(8)), "extra fields"),
    "an extra field in one header": (with_field("local", extra=b"\x99\x99\x02\x00ab"), "overlap or gape"),
    "a comment of a member": (with_field("central", comment=b"look"), "not as a bundle has it"),
    "another name in the local header": (with_field("local", name=b"evil.txt.x"), "another thing of itself"),
    "another size in the local header": (with_field("local", unpacked=5), "another thing of itself"),
    "another checksum in the local header": (with_field("local", crc=5), "another thing of itself"),
    "another method in the local header": (with_field("local", method=0), "another thing of itself"),
    "another time": (with_field("both", time=77), "not as a bundle has it"),
    "another disk": (with_field("central", disk=1), "not as a bundle has it"),
    "a later version": (with_field("both", version=45), "not as a bundle has it"),
    "overlapping members": (with_field("central", offset=0), "overlap or gape"),
    "a member twice": (lambda raws: [*raws[:2], *raws[1:]], "twice"),
    "the manifest twice": (lambda raws: [raws[0], *raws], "twice"),
    "the manifest not first": (lambda raws: [*raws[1:], raws[0]], "first member is README.txt and not manifest.json"),
    "no manifest": (lambda raws: raws[1:], "first member is README.txt"),
    "out of order": (lambda raws: [raws[0], *reversed(raws[1:])], "out of order"),
    "a member beside the manifest": (with_member("logs/77777.jsonl"), "manifest.json does not name it"),
    "a member that is missing": (lambda raws: raws[:-1], "which is not there"),
    "no member": (lambda raws: [], "it has no manifest.json"),
}


@pytest.mark.parametrize(("edit", "reason"), LAYOUTS.values(), ids=list(LAYOUTS))
def test_every_other_layout_of_a_zip_is_refused(bundles: Path, tmp_path: Path, edit: Edit, reason: str) -> None:
    raws = raws_of(bundles / "talk.zip")
    path = archive(tmp_path / "hostile.zip", edited if (edited := edit(raws)) is not None else raws)

    with pytest.raises(BundleRefused) as refused:
        BundleReader(path)
    assert reason in str(refused.value)
    assert str(path) in str(refused.value)


def test_the_maker_of_these_archives_makes_bundles_when_nothing_is_said_otherwise(
    bundles: Path, tmp_path: Path
) -> None:
    path = archive(tmp_path / "same.zip", raws_of(bundles / "talk.zip"))

    assert path.read_bytes() == (bundles / "talk.zip").read_bytes()


@pytest.mark.parametrize(
    "more",
    [
        {"before": b"#!/bin/sh\n"},
        {"behind": b"\n"},
        {"behind": b"PK\x05\x06" + bytes(18)},
        {"between": b"gap"},
        {"end": {"all": 1}},
        {"end": {"here": 1, "all": 1}},
        {"end": {"size": 10}},
        {"end": {"offset": 10}},
        {"end": {"disk": 1}},
        {"end": {"here": 0xFFFF, "all": 0xFFFF}},
        {"end": {"offset": 0xFFFFFFFF}},
        {"comment": b""},
        {"comment": b"agentos bundle 2 sha256 " + b"0" * 64},
        {"comment": b"agentos bundle 1 sha256 " + b"Z" * 64},
        {"comment": b"agentos bundle 1 sha256 " + b"\xff" * 64},
        {"comment": b"x" * 65_000},
    ],
    ids=str,
)
def test_bytes_before_between_and_behind_and_another_end_are_refused(
    bundles: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    path = archive(tmp_path / "hostile.zip", raws_of(bundles / "talk.zip"), **more)

    with pytest.raises(BundleRefused):
        BundleReader(path)


@pytest.mark.parametrize("kept", [0, 1, 21, 22, 109, 110, 111, 500, -1])
def test_a_file_that_was_cut_off_is_refused(bundles: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes((bundles / "talk.zip").read_bytes()[:kept])

    with pytest.raises(BundleRefused, match="does not end as a bundle does"):
        BundleReader(path)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    for name in ("pipe", "folder"):
        with pytest.raises(BundleRefused, match="not a regular file"):
            BundleReader(tmp_path / name)
    with pytest.raises(BundleRefused, match="not a regular file"):
        BundleReader(Path("/dev/zero"))


BOUNDS: dict[str, tuple[dict[str, int], str]] = {
    "bundle_bytes_max": ({"bundle_bytes_max": 1_000}, "it has"),
    "bundle_files_max": ({"bundle_files_max": 3}, "members, of 3"),
    "bundle_unpacked_bytes_max": ({"bundle_unpacked_bytes_max": 9_000}, "come to more than 9,000"),
    "bundle_member_bytes_max": ({"bundle_member_bytes_max": 500}, "bytes, of 500"),
    "bundle_manifest_bytes_max": ({"bundle_manifest_bytes_max": 100}, "manifest.json has"),
    "bundle_definition_bytes_max": ({"bundle_definition_bytes_max": 10}, "definitions/"),
    "bundle_ratio_max": ({"bundle_ratio_max": 1}, "times as many"),
}


@pytest.mark.parametrize(("limits", "reason"), BOUNDS.values(), ids=list(BOUNDS))
def test_what_is_over_a_limit_is_refused_with_its_name(bundles: Path, limits: dict[str, int], reason: str) -> None:
    with pytest.raises(BundleRefused) as refused:
        BundleReader(bundles / "talk.zip", BundleLimits(**limits))

    assert reason in str(refused.value)
    assert f"({next(iter(limits))})" in str(refused.value)


def test_a_line_or_a_unit_without_end_is_refused_with_its_limit(bundles: Path) -> None:
    for limits in (
        BundleLimits(bundle_line_bytes_max=50),
        BundleLimits(bundle_unit_entries_max=1),
        BundleLimits(bundle_unit_bytes_max=50),
    ):
        with BundleReader(bundles / "talk.zip", limits) as bundle:
            part = bundle.manifest.logs[0]
            with pytest.raises(BundleDamaged, match=r"bundle_(line_bytes|unit_entries|unit_bytes)_max"):
                list(bundle.units(part))


def test_a_bomb_is_never_unpacked(bundles: Path, tmp_path: Path) -> None:
    raws = raws_of(bundles / "talk.zip")
    raws[1].data = bytes(50_000_000)
    path = archive(tmp_path / "bomb.zip", raws)

    with pytest.raises(BundleRefused, match="bundle_ratio_max"):
        BundleReader(path)


def _packed_as(raw: Raw, data: bytes, **says: int) -> Raw:
    """A member whose packed bytes are these, whatever its headers say."""
    fields = {"method": 8, **says}
    return Raw(name=raw.name, data=data, method=0, local=fields, central=fields)


def test_members_that_become_more_or_less_than_they_say_are_stopped_there(bundles: Path, tmp_path: Path) -> None:
    """A size that is a lie, data behind the end of the stream, a stream without end, a false checksum."""
    raws = raws_of(bundles / "talk.zip")
    readme = raws[1]
    packed, size, crc = readme.packed(), len(readme.data), zlib.crc32(readme.data)
    bomb = Raw(name=readme.name, data=bytes(10_000_000)).packed()
    truths = {"packed": len(packed), "unpacked": size, "crc": crc}
    lies = [
        (_packed_as(readme, bomb, **{**truths, "packed": len(bomb)}), "becomes more than the"),
        (_packed_as(readme, packed + b"xx", **{**truths, "packed": len(packed) + 2}), "bytes behind its end"),
        (_packed_as(readme, packed[:-4], **{**truths, "packed": len(packed) - 4}), "are said"),
        (_packed_as(readme, packed, **{**truths, "crc": crc ^ 1}), "another checksum"),
        (_packed_as(readme, b"\xff" * len(packed), **truths), "cannot be unpacked"),
    ]
    for lie, reason in lies:
        path = archive(tmp_path / "lie.zip", [raws[0], lie, *raws[2:]])
        with BundleReader(path) as bundle:
            report = check_bundle(bundle)

        assert [(one.log, one.table, one.field) for one in report.differences] == [("bundle", "archive", "README.txt")]
        assert reason in str(report.differences[0])

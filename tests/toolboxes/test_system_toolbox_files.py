"""Files and folders that the system toolbox shows, within a sandbox."""

from __future__ import annotations

import codecs
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.ids import Name
from agentos.toolboxes.base import Failed
from agentos.toolboxes.results import Media
from agentos.toolboxes.system import SystemLimits
from agentos.toolboxes.system.files import media_type_of
from tests.toolboxes.system_support import ask, everything, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.mark.parametrize("capability", ["attach-file", "list-directory"])
async def test_without_a_sandbox_no_file_is_shown(root: Path, capability: str) -> None:
    (root / "a").write_text("a")

    async with opened(root, capability) as toolbox:
        failed = await ask(toolbox, capability, path="a" if capability == "attach-file" else ".")

    assert failed.kind == "refused"
    assert "toolbox sys, which has no file sandbox, allows no such file or folder" in failed.text


async def test_a_text_is_given_as_it_is(root: Path) -> None:
    (root / "a.txt").write_text("héllo\n𝄞")
    (root / "bom.txt").write_bytes(codecs.BOM_UTF8 + b"x")
    (root / "wide.txt").write_bytes("wide é".encode("utf-16"))
    (root / "empty").write_bytes(b"")

    async with opened(root, "attach-file", sandbox=everything(root)) as toolbox:
        texts = [await ask(toolbox, "attach-file", path=path) for path in ("a.txt", "bom.txt", "wide.txt", "empty")]

    assert texts == ["héllo\n𝄞", "x", "wide é", ""]


async def test_c24_of_a_long_text_head_tail_and_size_are_kept(root: Path) -> None:
    (root / "long.txt").write_text("begin" + "é" * 2_500_000 + "end")

    async with opened(root, "attach-file", sandbox=everything(root), limits=SystemLimits(kept_bytes=10_000)) as toolbox:
        text = await ask(toolbox, "attach-file", path="long.txt")

    assert (text[:6], text[-4:]) == ("beginé", "éend")
    assert "of 5,000,008 bytes left out here" in text
    assert len(text) < 10_000


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"PK\3\4", "application/zip"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"\x7fELF\2", "application/x-executable"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"x" * 257 + b"ustar", "application/x-tar"),
        (b"text", None),
        (b"", None),
        (b"<svg xmlns='x'/>", None),
    ],
)
def test_the_first_bytes_tell_a_media_type(data: bytes, media_type: str | None) -> None:
    assert media_type_of(data) == media_type


async def test_what_is_no_text_is_media_with_its_size(root: Path) -> None:
    (root / "p.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 5_000)
    (root / "nul").write_bytes(b"a\0b")
    (root / "latin").write_bytes("é".encode("latin-1"))
    with closing(sqlite3.connect(root / "d.db")) as db:
        db.execute("CREATE TABLE t (a)")

    async with opened(root, "attach-file", sandbox=everything(root), limits=SystemLimits(kept_bytes=100)) as toolbox:
        png, nul, latin, database = [
            await ask(toolbox, "attach-file", path=path) for path in ("p.txt", "nul", "latin", "d.db")
        ]

    assert (png.media_type, len(png.data), png.total) == ("image/png", 75, 5_008)
    assert nul == Media("application/octet-stream", b"a\0b", 3)
    assert latin == Media("application/octet-stream", b"\xe9", 1)
    assert database.media_type == "application/vnd.sqlite3"


async def test_a_file_over_the_limit_of_the_sandbox_is_refused(root: Path) -> None:
    (root / "a").write_bytes(b"x" * 101)

    async with opened(root, "attach-file", sandbox=everything(root, fsbMaxFileSize=100)) as toolbox:
        failed = await ask(toolbox, "attach-file", path="a")

    assert failed == Failed(Name("refused"), "'a' has 101 bytes, over 100 (fsbMaxFileSize)")


async def test_a_file_that_may_not_be_read_is_a_failed_call(root: Path) -> None:
    os.mkfifo(root / "pipe")

    async with opened(root, "attach-file", sandbox=everything(root)) as toolbox:
        failed = [await ask(toolbox, "attach-file", path=path) for path in ("pipe", ".", "none", "/proc/self/environ")]
        invalid = await ask(toolbox, "attach-file", path=7)

    assert [f.kind for f in failed] == ["refused"] * 4
    assert "is no regular file" in failed[0].text
    assert invalid == Failed(Name("invalid"), "path is a text")


async def test_a_folder_is_listed_with_kinds_and_sizes(root: Path) -> None:
    (root / "b.txt").write_text("bb")
    (root / "a").mkdir()
    (root / "c").symlink_to("b.txt")
    os.mkfifo(root / "d")
    (root / os.fsdecode(b"e\xff")).write_text("")

    async with opened(root, "list-directory", sandbox=everything(root)) as toolbox:
        told = await ask(toolbox, "list-directory")

    assert told == {
        "path": ".",
        "entries": [
            {"name": "a", "kind": "directory"},
            {"name": "b.txt", "kind": "file", "bytes": 2},
            {"name": "c", "kind": "link"},
            {"name": "d", "kind": "other"},
            {"name": "e\\xff", "kind": "file", "bytes": 0},
        ],
    }


async def test_a_long_folder_is_cut_and_says_so(root: Path) -> None:
    for n in range(30):
        (root / f"f{n:02}").touch()
    limits = [SystemLimits(entries_max=10), SystemLimits(entries_max=10, scan_max=20)]

    told = []
    for limit in limits:
        async with opened(root, "list-directory", sandbox=everything(root), limits=limit) as toolbox:
            told.append(await ask(toolbox, "list-directory", path=str(root)))

    assert [len(t["entries"]) for t in told] == [10, 10]
    assert told[0]["entries"][9]["name"] == "f09"
    assert told[0]["truncated"] == "10 of 30 are shown (entries_max 10); list a folder in it"
    assert told[1]["truncated"] == "10 of more than 20 are shown (entries_max 10); list a folder in it"

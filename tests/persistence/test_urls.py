"""Which store a URL names, and what is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentos.errors import ConfigurationError
from agentos.persistence import open_store
from agentos.persistence.base import Durability
from agentos.persistence.file import FileStore
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore


def test_memory_names_a_store_in_memory() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.parametrize("name", ["store.db", "a folder/store.db", "100%.db"])
async def test_three_slashes_name_a_file_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:///{name}")
    monkeypatch.chdir("/")
    await store.open("program")
    await store.close()

    assert (tmp_path / name).is_file()
    assert store.url == f"sqlite:///{name}"


async def test_four_slashes_name_a_file_from_the_root(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/what%3F.db")
    await store.open("program")
    await store.close()

    assert (tmp_path / "what?.db").is_file()


@pytest.mark.parametrize("name", ["store", "a folder/store", "100%"])
async def test_file_names_a_folder_below_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(f"file:{name}")
    monkeypatch.chdir("/")
    await store.open("program")
    await store.close()

    assert (tmp_path / name / "store.json").is_file()
    assert store.url == f"file:{name}"


@pytest.mark.parametrize("slashes", ["/", "///"])
async def test_file_and_one_slash_or_three_name_a_folder_from_the_root(tmp_path: Path, slashes: str) -> None:
    store = open_store(f"file:{slashes}{str(tmp_path)[1:]}/what%3F?durability=normal")
    await store.open("program")
    await store.close()

    assert (tmp_path / "what?" / "store.json").is_file()
    assert isinstance(store, FileStore)
    assert store.durability is Durability.NORMAL


@pytest.mark.parametrize("durability", Durability)
def test_the_durability_stands_in_the_url(durability: Durability) -> None:
    store = open_store(f"sqlite:///store.db?durability={durability.value}")

    assert isinstance(store, SQLiteStore)
    assert store.durability is durability


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "no such kind"),
        ("store.db", "no such kind"),
        ("mysql://host/db", "no such kind"),
        ("sqlite:store.db", "three slashes"),
        ("sqlite://store.db", "three slashes"),
        ("sqlite:///", "the file is missing"),
        ("sqlite:///store.db?durability=high", "no durability 'high'; there are full, normal, relaxed"),
        ("file:", "the folder is missing"),
        ("file:///", "the folder is missing"),
        ("file://server/store", "a folder of another host (server)"),
        ("file:store?mode=ro", "no option 'mode'"),
        ("sqlite:///store.db?mode=ro", "no option 'mode'"),
    ],
)
def test_an_unknown_url_is_refused_with_the_known_forms(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="Known forms: memory:; sqlite:///FILE") as refused:
        open_store(url)

    assert reason in str(refused.value)


IMPORTS = """
import asyncio, sys
import agentos.persistence
assert not {"sqlalchemy", "aiosqlite", "sqlite3"} & set(sys.modules), "by the package"

async def main():
    store = agentos.persistence.open_store(sys.argv[1])
    await store.open("program")
    store.append([])
    await store.close()

asyncio.run(main())
assert not {"sqlalchemy", "aiosqlite"} & set(sys.modules), "by opening"
"""


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/store.db"])
def test_a_store_imports_neither_sqlalchemy_nor_aiosqlite_until_it_is_read(tmp_path: Path, url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", IMPORTS, url.format(tmp_path)], check=True, env=environment)

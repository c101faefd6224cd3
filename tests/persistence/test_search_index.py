"""The index of a search: a file that may be damaged, foreign or shared, and that forgets for good."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import stat
import string
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import ConfigurationError, QueryRefused
from agentos.history.search.words import match_of
from agentos.persistence import search_file
from agentos.persistence import search_index as search_index_module
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_marks import SNIPPET_CHARS_MAX, snippets_of
from agentos.persistence.search_place import turn_at
from agentos.persistence.search_rows import Asked, IndexedText, Portion


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db.search"


@pytest.fixture
def index(path: Path) -> Iterator[SearchIndex]:
    made = SearchIndex(path)
    yield made
    made.close()


def portion(log: str, *texts: str, after: int = 0) -> Portion:
    said = [
        IndexedText(seq=after + n, i=0, role="user", part="text", tool=None, turn=0, call=0, at=n, text=text)
        for n, text in enumerate(texts, 1)
    ]
    return Portion(log=log, after=after, seq=after + len(texts), digest=b"d", texts=said, calls=[(1, "note")])


def found(index: SearchIndex, words: str) -> list[tuple[str, int]]:
    return [(hit.log, hit.seq) for hit in index.hits(Asked(match=match_of(words)), 100, 10)]


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir())).lower()


def test_the_file_is_for_its_owner_alone_and_survives(path: Path, index: SearchIndex) -> None:
    index.add([portion("a", "one red ball"), portion("b", "two red balls")])
    index.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(SearchIndex(path)) as again:
        assert found(again, "red ball") == [("a", 1)]
    assert sorted(os.listdir(path.parent)) == [path.name]


def test_what_was_forgotten_is_in_no_file_and_does_not_come_back(path: Path, index: SearchIndex) -> None:
    dice = random.Random(7)
    canaries = ["".join(dice.choices(string.ascii_lowercase, k=12)) for _ in range(1_500)]
    for n, canary in enumerate(canaries):
        index.add([portion("erased", f"{canary} and {canary}s again", after=n), portion("kept", f"kept {n}", after=n)])
    late = portion("erased", canaries[0], after=len(canaries))
    before = bytes_of(path.parent)

    index.forget(["erased"])
    index.add([late])  # which was read before the erase
    index.close()
    after = bytes_of(path.parent)

    assert sum(canary.encode() in before for canary in canaries) == len(canaries)
    assert [canary for canary in canaries if canary[-8:].encode() in after] == []
    assert found(index, "kept")[:1] == [("kept", 1)]
    assert len(found(index, "kept 1499")) == 1
    assert found(index, canaries[0]) == []
    assert index.logs()["erased"].erased


def test_what_is_forgotten_piece_by_piece_is_gone_too(path: Path, index: SearchIndex) -> None:
    dice = random.Random(8)
    logs = {f"log{n}": "".join(dice.choices(string.ascii_lowercase, k=14)) for n in range(200)}
    index.add([portion(log, *[f"{canary} {n} {'x' * n}" for n in range(20)]) for log, canary in logs.items()])
    gone = [log for n, log in enumerate(logs) if n % 3 == 0]

    for log in gone:
        index.forget([log])
    left = bytes_of(path.parent)

    assert [log for log in gone if logs[log][-8:].encode() in left] == []
    assert {log for log in logs if found(index, logs[log])} == logs.keys() - set(gone)


def test_what_is_forgotten_already_costs_no_writing(path: Path, index: SearchIndex) -> None:
    index.add([portion("gone", "canary"), portion("kept", "kept")])
    index.forget(["gone"])
    before = path.stat()

    index.forget(["gone"])

    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_an_index_that_cannot_forget_is_removed_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SearchIndex(path)) as index:
        index.add([portion("a", "canary")])
        monkeypatch.setattr(search_index_module, "_DROPS", ("DELETE FROM no_such_table WHERE n = ?",))
        index.forget(["a"])

    assert b"canary" not in bytes_of(path.parent)
    assert not path.exists()


def test_forgetting_makes_no_index_where_none_is(path: Path) -> None:
    SearchIndex(path).forget(["a"])

    assert os.listdir(path.parent) == []


def test_forgetting_goes_between_the_batches_of_another(
    path: Path, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index_module, "FORGET_WAIT_S", 0.0)
    index.add([portion("a", "canary")])

    with turn_at(path) as ours, turn_at(path) as theirs, closing(SearchIndex(path)) as other:
        other.forget(["a"])
        index.add([portion("a", "canary again", after=1), portion("b", "more")])

    assert (ours, theirs) == (True, False)
    assert b"canary" not in bytes_of(path.parent)
    assert found(index, "more") == [("b", 1)]


def test_one_turn_is_given_at_a_time_and_nothing_is_left_of_it(path: Path) -> None:
    with turn_at(path) as first:
        with turn_at(path, 0.05) as second:
            assert (first, second) == (True, False)
        with turn_at(path.with_name("other")) as other, turn_at(None) as own:
            assert other
            assert own
    with turn_at(path) as again:
        assert again

    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("how", ["text", "empty", "foreign", "older", "more", "torn"])
def test_a_file_that_is_no_such_index_is_made_anew(path: Path, how: str) -> None:
    with closing(SearchIndex(path)) as index:
        index.add([portion("a", "once here", *["filler words"] * 500)])
    spoil(path, how)

    with closing(SearchIndex(path)) as again:
        again.open()
        logs, hits = again.logs(), found(again, "once")
        again.add([portion("b", "here now")])
        assert found(again, "here") == [("b", 1)]

    assert (logs, hits) == ({}, [])


def test_without_full_text_in_sqlite_the_way_out_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_file, "SCHEMA", ("CREATE VIRTUAL TABLE texts USING fts_that_is_not_there(text)",))

    with pytest.raises(ConfigurationError, match=r"needs SQLite with FTS5.*use a Python whose SQLite has it"):
        SearchIndex(path).open()


def spoil(path: Path, how: str) -> None:
    if how == "text":
        path.write_text("notes of somebody\n" * 1_000)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "torn":
        path.write_bytes(path.read_bytes()[:5_000])
    else:
        with closing(sqlite3.connect(path)) as db, db:
            statement = {
                "foreign": "PRAGMA application_id=7",
                "older": "PRAGMA user_version=0",
                "more": "CREATE TRIGGER texts_more AFTER INSERT ON places BEGIN DELETE FROM logs; END",
            }
            db.execute(statement[how])


def test_a_portion_that_does_not_follow_is_left_out(index: SearchIndex) -> None:
    index.add([portion("a", "first", "second")])
    index.add([portion("a", "first", "second")])
    index.add([portion("a", "fifth", after=4)])

    assert found(index, "first") == [("a", 1)]
    assert found(index, "fifth") == []
    assert index.count() == 2


def test_pages_go_on_behind_a_hit_and_end(index: SearchIndex) -> None:
    index.add([portion("a", *[f"ball {'red ' * (n % 4)}" for n in range(30)])])

    for newest in (False, True):
        pages, after = [], None
        while page := index.hits(Asked(match='"ball"', newest=newest, after=after), 7, 10):
            pages.append(page)
            after = (page[-1].log, page[-1].seq, page[-1].i)
        whole = index.hits(Asked(match='"ball"', newest=newest), 100, 10)
        assert [hit for page in pages for hit in page] == whole
        assert (len(whole), len(pages)) == (30, 5)
    with pytest.raises(QueryRefused, match="no hit of these words any more"):
        index.hits(Asked(match='"ball"', after=("a", 99, 0)), 7, 10)


def test_a_search_that_takes_too_long_is_stopped(index: SearchIndex) -> None:
    index.add([portion("a", *["ball"] * 20_000)])

    with pytest.raises(QueryRefused, match=r"longer than -1 s \(query_s\)"):
        index.hits(Asked(match='"ball"'), 7, -1)
    assert len(index.hits(Asked(match='"ball"'), 7, 60)) == 7


@pytest.mark.parametrize(
    ("words", "text", "marked"),
    [
        ("cafe", "Un CAFÉ noir", ["CAFÉ"]),
        ("été", "en e\u0301te\u0301", ["été"]),
        ("本語", "日本語を話す", ["本語"]),
        ("日語", "日本語を話す", None),
        ("학교", "우리는 학교에서", ["학교"]),
        ("การ", "การทดสอบ", ["การ"]),
        ("москва", "Москва слезам", ["Москва"]),
        ("हिन्दी", "मैं हिन्दी बोलता", ["हिन्द"]),
        ("conn*", "a connection", ["connection"]),
        ("conn", "a connection", None),
        ('"red ball"', "a red, ball", ["red, ball"]),
        ('"red ball"', "ball red", None),
        ("red -ball", "red ball", None),
        ("red -ball", "red bell", ["red"]),
        ("user@host.com", "to user@host.com:", ["user@host.com"]),
        ("3.14 C++", "C++ has 3.14", ["C", "3.14"]),
        ("\U00020001", "\U00020000\U00020001", ["\U00020001"]),
        ('"a\x1fb"', "a b\x02c\x03", ["a b"]),
    ],
)
def test_what_is_found_in_which_text(words: str, text: str, marked: list[str] | None) -> None:
    found = snippets_of([text, "nothing of it"], match_of(words))

    assert {n: [snippet.text[begin:end] for begin, end in snippet.marks] for n, snippet in found.items()} == (
        {0: marked} if marked is not None else {}
    )


def test_nothing_typed_is_syntax(index: SearchIndex) -> None:
    index.add([portion("a", "near and or not text rank column x y")])
    dice = random.Random(11)
    signs = [
        '"',
        "'",
        "*",
        "-",
        "^",
        ":",
        "(",
        ")",
        "{",
        "}",
        "+",
        ",",
        "NEAR",
        "AND",
        "OR",
        "NOT",
        "text",
        "x",
        " ",
        "\x00",
    ]
    asked = 0
    for _ in range(500):
        words = "".join(dice.choices([*signs, "\ud800", "日", "é"], k=dice.randrange(1, 30)))
        with contextlib.suppress(QueryRefused):  # nothing to look for
            match = match_of(words)
            asked += 1
            index.hits(Asked(match=match), 5, 10)
            snippets_of([words], match)

    assert asked > 250
    assert found(index, "text:x OR") == []
    assert found(index, "NEAR AND") == [("a", 1)]
    assert found(index, "{text} : x^") == [("a", 1)]


@pytest.mark.parametrize("words", ["", "  ", "-red", '"', "***", "!? …", "x" * 1_001, "x " * 33])
def test_words_that_cannot_be_looked_for_are_refused(words: str) -> None:
    with pytest.raises(QueryRefused, match=r"name a word|at most"):
        match_of(words)


def test_a_snippet_of_a_word_without_end_is_cut_around_the_mark() -> None:
    text = f"{'a' * 5_000} ball {'b' * 5_000}"

    (snippet,) = snippets_of([text], match_of("ball")).values()

    assert [snippet.text[begin:end] for begin, end in snippet.marks] == ["ball"]
    assert len(snippet.text) <= SNIPPET_CHARS_MAX + 2


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("memory:", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///a%20b/x.db?durability=full", "a b/x.db.search"),
        ("sqlite:////srv/x.db", "/srv/x.db.search"),
        ("file:folder?durability=normal", "folder/search.index"),
        ("file:///srv/folder", "/srv/folder/search.index"),
    ],
)
def test_the_index_lies_beside_its_store(url: str, path: str | None) -> None:
    found = SearchIndex.beside(url)

    assert (found.resolve() if found is not None else None) == (Path(path).resolve() if path is not None else None)


def test_the_index_of_a_database_is_known_by_its_place_and_not_by_account_and_options() -> None:
    base = SearchIndex.beside("postgresql://ann:secret@db:5432/agents?schema=one")
    same = SearchIndex.beside("postgres://bob@db:5432/agents?schema=one&durability=normal&password=secret")
    others = [
        f"postgresql://ann@{place}" for place in ("db:5433/agents?schema=one", "db:5432/agents", "db:5432/x?schema=one")
    ]

    assert base is not None
    assert base == same
    assert base not in [SearchIndex.beside(url) for url in others]
    assert "secret" not in str(base)

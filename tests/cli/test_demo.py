"""demo: on a small folder, with all that it has to print."""

from __future__ import annotations

import re

from tests.cli.support import Cli


def make_folder(cli: Cli) -> None:
    """Files that are hard to name and to read."""
    cli.write("files/plain.txt", "the kernel remembers everything\nand forgets nothing\n")
    cli.write("files/a b.md", "spaces everywhere\n")
    cli.write('files/sub dir/new\nline "quoted".txt', "strange names happen\n")
    cli.write("files/sub dir/-dash.py", "print('options everywhere')\n")
    (cli.folder / "files" / "binary.dat").write_bytes(bytes(range(256)))
    (cli.folder / "files" / "loop").symlink_to(cli.folder / "files")
    (cli.folder / "files" / os_name()).write_bytes(b"no name in UTF-8")


def os_name() -> str:
    return b"\xff.txt".decode("utf-8", "surrogateescape")


def test_the_demo_shows_all_that_was_promised(cli: Cli) -> None:
    make_folder(cli)

    shown = cli("demo", "files", "--seed", "7", "--conversations", "24").out

    assert re.match(r"24 conversations on 4 text files of \S+/files \(--seed 7\)\n", shown)
    assert "all 24 have their answer: 24 completed" in shown
    assert re.search(r"agentos ps: the first 10 of \d+\nid +agent +state", shown)
    assert shown.count('\nagentos query "select') == 3
    assert shown.count("  └─ searcher conversation_") == 1
    assert shown.count("─ walker conversation_") == 2
    assert re.search(r"\nidentical: \d+ conversations, \d+ entries\n", shown)
    assert re.search(r"\nok: \d+ entries and \d+ payloads in \d+ logs\n", shown)
    assert "never more than 1 inside at once" in shown
    assert "\nequal\n" in shown


def test_what_was_held_is_the_same_before_and_after(cli: Cli) -> None:
    make_folder(cli)

    shown = cli("demo", "files", "--conversations", "4").out

    counts = re.findall(r"^(tasks|files|threads|children|temporary) +(\d+) +(\d+)$", shown, re.MULTILINE)
    assert [name for name, _, _ in counts] == ["tasks", "files", "threads", "children", "temporary"]
    assert all(before == after for _, before, after in counts)


def test_the_store_stays_and_can_be_asked(cli: Cli) -> None:
    make_folder(cli)
    store = ("--store", "sqlite:///.agentos/demo.db")
    sql = "select count(*) as n from conversations where depth = 0"

    cli("demo", "files", "--conversations", "5")
    cli("demo", "files", "--conversations", "6")

    assert cli(*store, "query", sql).out == "n\n6\n"
    assert cli(*store, "replay").out.startswith("identical")


def test_one_seed_asks_the_same_things(cli: Cli) -> None:
    make_folder(cli)
    sql = "select text from conversations join messages using (n) where role = 'user' and depth = 0 order by text"

    asked = []
    for name in ("one", "two"):
        store = f"sqlite:///{name}.db"
        cli("demo", "files", "--seed", "5", "--conversations", "8", "--store", store)
        asked.append(cli("query", sql, "--store", store).out)

    assert asked[0] == asked[1]
    assert len(asked[0].splitlines()) == 9


def test_a_store_that_somebody_named_is_never_overwritten(cli: Cli) -> None:
    mine = cli.write("mine.db", "mine")

    refused = cli("demo", ".", "--store", "sqlite:///mine.db", code=3)

    assert "mine.db exists" in refused.err
    assert mine.read_text() == "mine"


def test_an_empty_folder_is_worked_on_too(cli: Cli) -> None:
    (cli.folder / "empty").mkdir()

    shown = cli("demo", "empty", "--conversations", "4").out

    assert "4 conversations on 0 text files" in shown
    assert "4 completed" in shown


def test_what_is_no_folder_is_told(cli: Cli) -> None:
    assert "nowhere: no such folder" in cli("demo", "nowhere", code=3).err
    assert "it goes from 1 to" in cli("demo", ".", "--conversations", "0", code=2).err

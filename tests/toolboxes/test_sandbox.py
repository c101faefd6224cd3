"""File sandboxes: what their rules let through, and what the data that says them may hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ConfigurationError
from agentos.resources.folders.entries import FileKind
from agentos.resources.folders.file_sandbox import FILE_BYTES_MAX, FileRefused, FileSandbox
from agentos.resources.folders.sandbox_rules import DEPTH_MAX, RULES_MAX, matches


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A tree of files, under a path without links."""
    root = Path(os.path.realpath(tmp_path)) / "base"
    for name, text in {
        "a.md": "alpha",
        "b.key": "secret",
        "src/main.py": "print()",
        "src/deep/er/x.py": "x",
        "src-twin/y.py": "y",
        "docs/guide.md": "guide " * 100,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def sandbox(base: Path, rule: Any, **more: Any) -> FileSandbox:
    return FileSandbox.from_data({"fsbPredicate": rule, **more}, base)


def tagged(tag: str, contents: Any = None) -> dict[str, Any]:
    return {"tag": tag} if contents is None else {"tag": tag, "contents": contents}


ALL = tagged("AlwaysAllow")
PATHS = ("a.md", "b.key", "src", "src/main.py", "src/deep", "src/deep/er/x.py", "src-twin/y.py", "docs/guide.md", ".")
RULES: list[tuple[Any, set[str]]] = [
    (tagged("FileExactly", "a.md"), {"a.md"}),
    (tagged("FileExactly", "./src/../a.md"), {"a.md"}),
    (tagged("FileExactly", "src"), set()),
    (tagged("DirectoryExactly", "src"), {"src"}),
    (tagged("DirectoryExactly", "a.md"), set()),
    (tagged("DirectoryRecursive", "src"), {"src", "src/main.py", "src/deep", "src/deep/er/x.py"}),
    (tagged("DirectoryRecursive", "src/"), {"src", "src/main.py", "src/deep", "src/deep/er/x.py"}),
    (tagged("DirectoryShallow", "src"), {"src", "src/main.py"}),
    (tagged("ChildOf", "src"), {"src/main.py", "src/deep", "src/deep/er/x.py"}),
    (tagged("FilePattern", "*.md"), {"a.md", "docs/guide.md"}),
    (tagged("FilePattern", "?.*"), {"a.md", "b.key", "src/deep/er/x.py", "src-twin/y.py"}),
    (tagged("FilePattern", "[ab].md"), set()),
    (tagged("FileExtension", ["md", ".key"]), {"a.md", "b.key", "docs/guide.md"}),
    (tagged("FileSizeLessThan", 6), {"a.md", "src/deep/er/x.py", "src-twin/y.py"}),
    (tagged("FileSizeLessThan", 5), {"src/deep/er/x.py", "src-twin/y.py"}),
    (
        tagged("And", [tagged("DirectoryRecursive", "."), tagged("Not", tagged("FileExtension", ["key", "py"]))]),
        {"a.md", "src", "src/deep", "docs/guide.md", "."},
    ),
    (tagged("Or", [tagged("FileExactly", "a.md"), tagged("FileExactly", "b.key")]), {"a.md", "b.key"}),
    (tagged("Any", []), set()),
    (tagged("All", []), set(PATHS)),
    (tagged("All", [tagged("ChildOf", "src"), tagged("FileExtension", ["py"])]), {"src/main.py", "src/deep/er/x.py"}),
    (tagged("Any", [tagged("FileExactly", "a.md"), tagged("ChildOf", "docs")]), {"a.md", "docs/guide.md"}),
    (tagged("Not", ALL), set()),
    (ALL, set(PATHS)),
    (tagged("AlwaysDeny"), set()),
]


@pytest.mark.parametrize(("rule", "allowed"), RULES, ids=[f"{n}-{rule['tag']}" for n, (rule, _) in enumerate(RULES)])
def test_a_rule_lets_through_what_it_says_and_nothing_more(base: Path, rule: Any, allowed: set[str]) -> None:
    box = sandbox(base, rule)

    assert {path for path in PATHS if box.allows(path)} == allowed
    assert {path for path in PATHS if box.allows(str(base / path))} == allowed


def test_without_a_rule_nothing_is_let_through(base: Path) -> None:
    for box in (FileSandbox(base=base), FileSandbox.from_data({}, base), sandbox(base, tagged("AlwaysDeny"))):
        assert not any(box.allows(path) for path in PATHS)
        assert not box.allows("/etc/passwd")


def test_the_form_of_real_agent_files_is_read_with_its_comments(base: Path) -> None:
    box = FileSandbox.from_data(
        {
            "fsbName": "code-access",
            "--fsbPredicate": {"tag": "AlwaysAllow"},
            "fsbPredicate": {
                "tag": "Any",
                "--why": "only code",
                "contents": [
                    {"tag": "DirectoryRecursive", "contents": "./src"},
                    {"tag": "FileExactly", "contents": "./a.md"},
                ],
            },
            "fsbMaxFileSize": 6,
        },
        base,
    )

    assert (box.name, box.file_bytes_max) == ("code-access", 6)
    assert box.allows("src/main.py")
    assert not box.allows("b.key")
    with pytest.raises(FileRefused, match=r"'src/main.py' has 7 bytes, over 6 \(fsbMaxFileSize\)"):
        box.open_for_reading("src/main.py")


def test_a_size_that_is_not_given_is_still_bounded(base: Path) -> None:
    assert FileSandbox.from_data({}, base).file_bytes_max == FILE_BYTES_MAX == 50 * 1024 * 1024
    assert FileSandbox.from_data({"fsbMaxFileSize": None}, base).file_bytes_max == FILE_BYTES_MAX


BAD: list[tuple[Any, str]] = [
    ([], "file sandbox: a file sandbox is an object of fsbPredicate, fsbMaxFileSize and fsbName"),
    ({"fsbPredicat": ALL}, "fsbPredicat: unknown key; did you mean fsbPredicate"),
    ({"ref": "code"}, "ref: unknown key; write the sandbox itself in place of its name"),
    ({"fsbMaxFileSize": "5"}, "fsbMaxFileSize: a number of bytes is needed here, not '5'"),
    ({"fsbMaxFileSize": True}, "fsbMaxFileSize: a number of bytes is needed here, not True"),
    ({"fsbMaxFileSize": -1}, "fsbMaxFileSize: a number of bytes is needed here, not -1"),
    ({"fsbName": 1}, "fsbName: a text is needed here"),
    ({"fsbPredicate": "AlwaysAllow"}, "fsbPredicate: a rule is an object"),
    ({"fsbPredicate": None}, "fsbPredicate: a rule is an object"),
    ({"fsbPredicate": {"contents": 1}}, "fsbPredicate: the key 'tag' is missing"),
    (
        {"fsbPredicate": tagged("DirectoryRecursiv", "src")},
        "fsbPredicate.tag: unknown rule 'DirectoryRecursiv'; did you mean DirectoryRecursive",
    ),
    ({"fsbPredicate": {"tag": ["And"]}}, "fsbPredicate.tag: unknown rule \\['And'\\]"),
    (
        {"fsbPredicate": {"tag": "Not", "contens": ALL}},
        "fsbPredicate.contens: unknown key 'contens'; did you mean cont",
    ),
    ({"fsbPredicate": tagged("And", [ALL])}, "fsbPredicate.contents: And takes a list of 2 rules"),
    ({"fsbPredicate": tagged("Any", ALL)}, "fsbPredicate.contents: Any takes a list of any number of rules"),
    ({"fsbPredicate": tagged("Any", [ALL, 3])}, r"fsbPredicate.contents\[1\]: a rule is an object"),
    ({"fsbPredicate": tagged("FileExactly", "")}, "fsbPredicate.contents: a path is needed here"),
    ({"fsbPredicate": tagged("ChildOf", "a\0b")}, "fsbPredicate.contents: a path is needed here"),
    ({"fsbPredicate": tagged("FilePattern", "src/*.md")}, "FilePattern takes a pattern of a file's name"),
    ({"fsbPredicate": tagged("FileExtension", "md")}, "FileExtension takes a list of suffixes"),
    ({"fsbPredicate": tagged("FileSizeLessThan", True)}, "FileSizeLessThan takes a number of bytes"),
]


@pytest.mark.parametrize(("data", "why"), BAD, ids=[f"{n}-{why[:30]}" for n, (_, why) in enumerate(BAD)])
def test_a_wrong_sandbox_is_an_error_that_names_the_key(base: Path, data: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        FileSandbox.from_data(data, base)


def test_all_problems_are_told_at_once(base: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        FileSandbox.from_data({"fsbName": 1, "fsbPredicate": tagged("Or", [tagged("X"), tagged("Y")])}, base)

    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "fsbName",
        "fsbPredicate.contents[0].tag",
        "fsbPredicate.contents[1].tag",
    ]


def test_rules_nested_or_numbered_beyond_a_limit_are_refused_by_its_name(base: Path) -> None:
    deep: Any = ALL
    for _ in range(200_000):
        deep = {"tag": "Not", "contents": deep}

    with pytest.raises(ConfigurationError, match=f"nested more than {DEPTH_MAX} deep"):
        FileSandbox.from_data({"fsbPredicate": deep}, base)
    with pytest.raises(ConfigurationError, match=f"more than {RULES_MAX} rules"):
        FileSandbox.from_data({"fsbPredicate": tagged("Any", [ALL] * RULES_MAX)}, base)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "axxbyy", False),
        ("?", "", False),
        ("**?", "ab", True),
        ("*a" * 100 + "b", "a" * 250, False),
        ("[a]", "a", False),
        ("[a]", "[a]", True),
    ],
)
def test_a_pattern_knows_stars_and_question_marks_alone(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


def test_a_file_is_read_whole(base: Path) -> None:
    with sandbox(base, tagged("ChildOf", "src")).open_for_reading("src/main.py") as file:
        assert file.read() == b"print()"


def test_a_folder_lists_what_is_allowed_of_it(base: Path) -> None:
    (base / "src/in").symlink_to(base / "src/main.py")
    (base / "src/out").symlink_to(base / "a.md")
    (base / "src/gone").symlink_to(base / "none")
    os.mkfifo(base / "src/pipe")
    box = sandbox(base, tagged("DirectoryRecursive", "src"))

    entries, more = box.listed("src", 100)

    assert [(entry.name, entry.kind, entry.size_bytes) for entry in entries] == [
        ("deep", FileKind.DIRECTORY, None),
        ("in", FileKind.LINK, None),
        ("main.py", FileKind.FILE, 7),
        ("pipe", FileKind.OTHER, None),
    ]
    assert not more
    assert box.listed("src", 2)[1]
    with pytest.raises(FileRefused, match=r"'src/main.py' is no folder"):
        box.listed("src/main.py", 100)
    with pytest.raises(FileRefused, match=r"allows no such file or folder"):
        box.listed(".", 100)


def test_what_does_not_exist_is_refused_in_the_words_of_what_is_not_allowed(base: Path) -> None:
    box = sandbox(base, tagged("DirectoryRecursive", "src"))

    said = []
    for path in ("b.key", "none.key"):
        with pytest.raises(FileRefused) as caught:
            box.open_for_reading(path)
        said.append(str(caught.value).replace(path, "PATH"))

    assert said[0] == said[1]

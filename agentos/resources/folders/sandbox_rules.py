"""The rules of a file sandbox, and the one question that they answer: does a rule hold for a file or folder?

    FileExactly PATH            this file                    DirectoryExactly PATH    this folder, nothing in it
    DirectoryRecursive PATH     the folder and all below     DirectoryShallow PATH    the folder and the files in it
    ChildOf PATH                all below the folder         FilePattern "*.md"       files by name (* and ?)
    FileExtension ["md"]        files by suffix              FileSizeLessThan BYTES   files of fewer bytes
    And [A, B]  Or [A, B]  Not A  Any [A, ...]  All [A, ...]  AlwaysAllow  AlwaysDeny

In JSON a rule is `{"tag": NAME, "contents": VALUE}`. Rules about files hold for no folder. The paths of rules are resolved
once, when the rules are read: a folder that is replaced by a link afterwards is not followed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

DEPTH_MAX = 50
"""How deep rules may be nested."""
RULES_MAX = 1_000
"""How many rules a sandbox may have."""

Keys = tuple[str | int, ...]
Tell = Callable[[Keys, str], None]
"""Takes a problem: the way to it in the data, and what is wrong there."""


class Subject(msgspec.Struct, frozen=True):
    """What a rule judges: a canonical path, whether it is a folder, and the size of a file, 0 of one yet to be made."""

    path: PurePath
    is_directory: bool
    size_bytes: int = 0


Rule = Callable[[Subject], bool]


def never(subject: Subject) -> bool:
    """The rule of a sandbox that says nothing."""
    return False


def rule_of(data: object, base: Path, tell: Tell, keys: Keys) -> Rule:
    """The rule that data says; relative paths count from base. Problems are told, and their rule never holds."""
    return _Reader(base, tell).rule(data, keys, 1)


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern of `*` and `?`, in time of at most both lengths multiplied."""
    in_pattern, in_name = 0, 0
    star, resume = -1, 0  # the last `*` seen, and where in the name it stops taking characters
    while in_name < len(name):
        if in_pattern < len(pattern) and pattern[in_pattern] == "*":
            star, resume = in_pattern, in_name
            in_pattern += 1
        elif in_pattern < len(pattern) and pattern[in_pattern] in ("?", name[in_name]):
            in_pattern, in_name = in_pattern + 1, in_name + 1
        elif star >= 0:
            resume += 1
            in_pattern, in_name = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[in_pattern:])


def near(word: str, known: list[str]) -> str:
    """Words for the end of an error, or nothing."""
    found = difflib.get_close_matches(word, known, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _file_exactly(path: PurePath) -> Rule:
    return lambda subject: not subject.is_directory and subject.path == path


def _directory_exactly(path: PurePath) -> Rule:
    return lambda subject: subject.is_directory and subject.path == path


def _directory_recursive(path: PurePath) -> Rule:
    return lambda subject: subject.path == path or path in subject.path.parents


def _directory_shallow(path: PurePath) -> Rule:
    return lambda subject: subject.path == path if subject.is_directory else subject.path.parent == path


def _child_of(path: PurePath) -> Rule:
    return lambda subject: path in subject.path.parents


def _file_pattern(pattern: str) -> Rule:
    return lambda subject: not subject.is_directory and matches(pattern, subject.path.name)


def _file_extension(suffixes: frozenset[str]) -> Rule:
    return lambda subject: not subject.is_directory and subject.path.suffix[1:] in suffixes


def _file_size_less_than(size_bytes: int) -> Rule:
    return lambda subject: not subject.is_directory and subject.size_bytes < size_bytes


_PATHS: dict[str, Callable[[PurePath], Rule]] = {
    "FileExactly": _file_exactly,
    "DirectoryExactly": _directory_exactly,
    "DirectoryRecursive": _directory_recursive,
    "DirectoryShallow": _directory_shallow,
    "ChildOf": _child_of,
}
_JOINS: dict[str, tuple[Callable[[Any], bool], int | None]] = {
    "And": (all, 2),
    "Or": (any, 2),
    "All": (all, None),
    "Any": (any, None),
}
_WORDS: dict[str, Rule] = {"AlwaysAllow": lambda subject: True, "AlwaysDeny": never}
TAGS = sorted({*_PATHS, *_JOINS, *_WORDS, "Not", "FilePattern", "FileExtension", "FileSizeLessThan"})


class _Reader:
    """Reads one tree of rules."""

    def __init__(self, base: Path, tell: Tell) -> None:
        self._base, self._tell = base, tell
        self._rules = 0

    def rule(self, data: object, keys: Keys, depth: int) -> Rule:
        self._rules += 1
        if depth > DEPTH_MAX or self._rules > RULES_MAX:
            bound = f"nested more than {DEPTH_MAX} deep" if depth > DEPTH_MAX else f"more than {RULES_MAX} rules"
            return self._bad(keys, f"{bound}; write them shorter")
        if not isinstance(data, Mapping):
            return self._bad(keys, 'a rule is an object: {"tag": NAME, "contents": VALUE}')
        for key in data:
            if key not in ("tag", "contents") and not str(key).startswith("--"):
                self._tell((*keys, str(key)), f"unknown key {key!r}{near(str(key), ['tag', 'contents'])}")
        if "tag" not in data:
            return self._bad(keys, "the key 'tag' is missing")
        return self._tagged(data["tag"], data.get("contents"), keys, depth)

    def _tagged(self, tag: object, contents: object, keys: Keys, depth: int) -> Rule:
        inside: Keys = (*keys, "contents")
        if not isinstance(tag, str) or tag not in TAGS:
            said = f"unknown rule {tag!r}{near(str(tag), TAGS)}; the rules are {', '.join(TAGS)}"
            return self._bad((*keys, "tag"), said)
        if tag in _WORDS:
            return _WORDS[tag]
        if tag in _PATHS:
            path = self._path(contents, inside)
            return never if path is None else _PATHS[tag](path)
        if tag in _JOINS:
            return self._joined(tag, contents, inside, depth)
        if tag == "Not":
            inner = self.rule(contents, inside, depth + 1)
            return lambda subject: not inner(subject)
        return self._of_files(tag, contents, inside)

    def _joined(self, tag: str, contents: object, keys: Keys, depth: int) -> Rule:
        join, needed = _JOINS[tag]
        if not isinstance(contents, list) or (needed is not None and len(contents) != needed):
            return self._bad(keys, f"{tag} takes a list of {needed or 'any number of'} rules")
        rules = [self.rule(item, (*keys, n), depth + 1) for n, item in enumerate(contents)]
        return lambda subject: join(rule(subject) for rule in rules)

    def _of_files(self, tag: str, contents: object, keys: Keys) -> Rule:
        if tag == "FilePattern":
            if isinstance(contents, str) and contents and "/" not in contents:
                return _file_pattern(contents)
            return self._bad(keys, 'FilePattern takes a pattern of a file\'s name, such as "*.md", without a folder')
        if tag == "FileExtension":
            if isinstance(contents, list) and all(isinstance(item, str) and item for item in contents):
                return _file_extension(frozenset(item.removeprefix(".") for item in contents))
            return self._bad(keys, 'FileExtension takes a list of suffixes, such as ["md", "txt"]')
        if type(contents) is int and contents >= 0:
            return _file_size_less_than(contents)
        return self._bad(keys, "FileSizeLessThan takes a number of bytes")

    def _path(self, contents: object, keys: Keys) -> PurePath | None:
        if isinstance(contents, str) and contents and "\0" not in contents:
            return PurePath(os.path.realpath(self._base / contents))
        self._tell(keys, "a path is needed here")
        return None

    def _bad(self, keys: Keys, what: str) -> Rule:
        self._tell(keys, what)
        return never

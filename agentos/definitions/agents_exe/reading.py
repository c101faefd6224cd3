"""Reads the mappings of agents-exe files by the names of their keys, whatever the spelling, and gathers what is wrong.

That project has written its keys in four ways: `BasenameFilter` (what its program reads), `basenameFilter` (its
documentation), `basename-filter` (older pages of it) and, for what runs as a server, `name`. All of them are one key here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentos.definitions.checking import did_you_mean
from agentos.definitions.limits import LIMITS
from agentos.definitions.problem import Problem
from agentos.definitions.source import Keys, Source, cut

COMMENT_MARKS = ("--", "//", "#", "_")
"""A key that begins so is what these files have for a comment: agents-exe reads past all keys that it does not know."""


class Notes:
    """The problems of one file, in the order in which they are found."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def error(self, keys: Keys, text: str) -> None:
        self.problems.append(self.source.problem(keys, text))

    def warn(self, keys: Keys, text: str) -> None:
        self.problems.append(self.source.problem(keys, text, "warning"))

    @property
    def errors(self) -> int:
        return sum(problem.is_error for problem in self.problems)

    def told(self) -> list[Problem]:
        """Each of them once, or as many as are told of one file: errors rather than warnings."""
        problems = list(dict.fromkeys(self.problems))
        if len(problems) <= LIMITS.file_problems_max:
            return problems
        by_weight = sorted(problems, key=lambda problem: not problem.is_error)
        kept, left = by_weight[: LIMITS.file_problems_max], by_weight[LIMITS.file_problems_max :]
        said = f"and {len(left):,} more problems of this file (file_problems_max)"
        return [*kept, self.source.problem((), said, left[0].severity)]


class Part:
    """One mapping of the file. known are the names of its keys in camelCase; other keys are reported, and read past."""

    def __init__(self, notes: Notes, keys: Keys, value: Mapping[str, Any], known: Sequence[str]) -> None:
        self.notes, self.keys = notes, keys
        self._given: dict[str, tuple[str, Any]] = {}
        names = {folded(name): name for name in known}
        for spelled, item in value.items():
            name = names.get(folded(spelled))
            if spelled.startswith(COMMENT_MARKS):
                notes.warn((*keys, spelled), f"the key {quoted(spelled)} is read past, as a comment")
            elif name is None:
                near = did_you_mean(spelled, [alike(known_name, spelled) for known_name in known])
                notes.warn((*keys, spelled), f"the key {quoted(spelled)} is unknown and read past{near}")
            elif name in self._given:
                first = self._given[name][0]
                notes.warn((*keys, spelled), f"{quoted(spelled)} is {first!r} once more; the first one is taken")
            else:
                self._given[name] = (spelled, item)

    def at(self, name: str) -> Keys:
        """Where a key stands, or the mapping that lacks it."""
        return (*self.keys, self._given[name][0]) if name in self._given else self.keys

    def spelled(self, name: str) -> str:
        return self._given[name][0] if name in self._given else name

    def value(self, name: str) -> Any:
        """What stands there; None for nothing."""
        return self._given[name][1] if name in self._given else None

    def given(self) -> Iterator[str]:
        """The names of the keys that say something."""
        return (name for name, (_, value) in self._given.items() if value is not None)

    def lacks(self, name: str) -> bool:
        """Whether a key that has to be there is not; says so."""
        if self.value(name) is not None:
            return False
        spellings = [spelled for spelled, _ in self._given.values()]
        self.notes.error(self.at(name), f"the key {alike(name, *spellings)!r} is missing")
        return True

    def needed(self, name: str) -> str | None:
        """A text that has to be there."""
        return None if self.lacks(name) else self.text(name)

    def path(self, name: str) -> str | None:
        """The name of a file or directory, which has to be there."""
        path = self.needed(name)
        if path is not None and not path.strip():
            self.error(name, "the name of a file or directory is needed here")
            return None
        return path

    def choice(self, name: str, words: Sequence[str]) -> str | None:
        """A text that has to be there, and one of these."""
        text = self.needed(name)
        if text is None or text in words:
            return text
        near = did_you_mean(text, list(words))
        self.error(name, f"{quoted(text)} is none of {', '.join(words)}{near}")
        return None

    def error(self, name: str, text: str) -> None:
        """Says what is wrong with a key that stands here."""
        self.notes.error(self.at(name), f"{self.spelled(name)}: {text}")

    def warn(self, name: str, text: str) -> None:
        self.notes.warn(self.at(name), f"{self.spelled(name)}: {text}")

    def text(self, name: str) -> str | None:
        found: str | None = self._of_type(name, str, "a text")
        return found

    def texts(self, name: str) -> list[tuple[Keys, str]]:
        """The texts of a list, each with its place."""
        found = []
        for keys, item in self.items(name):
            if isinstance(item, str):
                found.append((keys, item))
            else:
                self.notes.error(keys, f"{self.spelled(name)}: a text is needed here, not {kind_of(item)}")
        return found

    def items(self, name: str) -> list[tuple[Keys, Any]]:
        """The items of a list, each with its place."""
        items = self._of_type(name, list, "a list") or []
        return [((*self.at(name), number), item) for number, item in enumerate(items)]

    def mapping(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._of_type(name, dict, "a mapping of keys")
        return found

    def number(self, name: str) -> int | float | None:
        found: int | float | None = self._of_type(name, (int, float), "a number")
        return found

    def _of_type(self, name: str, wanted: type | tuple[type, ...], words: str) -> Any:
        value = self.value(name)
        if value is None or (isinstance(value, wanted) and not isinstance(value, bool)):
            return value
        self.error(name, f"{words} is needed here, not {kind_of(value)}")
        return None


class Tagged(NamedTuple):
    """What stands in `{"tag": TAG, "contents": CONTENTS}`, and where the contents stand."""

    tag: str
    keys: Keys
    contents: Any


def tagged(notes: Notes, keys: Keys, value: Any, tags: Sequence[str]) -> Tagged | None:
    """Reads one of a list of such things; None when it is none of them, which is then said."""
    if not isinstance(value, dict):
        notes.error(keys, f"""{{"tag": ..., "contents": ...}} is needed here, not {kind_of(value)}""")
        return None
    part = Part(notes, keys, value, ("tag", "contents"))
    tag = part.choice("tag", tags)
    return None if tag is None else Tagged(tag, part.at("contents"), part.value("contents"))


def part_of(notes: Notes, found: Tagged, known: Sequence[str]) -> Part | None:
    """The mapping that stands in a tagged thing."""
    if isinstance(found.contents, dict):
        return Part(notes, found.keys, found.contents, known)
    notes.error(found.keys, f"{found.tag}: its contents have to be a mapping of keys, not {kind_of(found.contents)}")
    return None


def alike(name: str, *others: str) -> str:
    """A name in camelCase, spelled as the first of these keys is: the file goes on as it began."""
    first = next(iter(others), "")
    if first[:1].isupper():
        return name[:1].upper() + name[1:]
    if "-" in first:
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return name


def quoted(text: str) -> str:
    """A text of the file for a message, cut where it is long."""
    return repr(cut(text))


def folded(key: str) -> str:
    return key.replace("-", "").replace("_", "").lower()


def kind_of(value: Any) -> str:
    """What it is, in the words of JSON, without its text: that may be a secret."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    words = {str: "a text", list: "a list", dict: "a mapping of keys", int: "a number", float: "a number"}
    return words.get(type(value), "that")

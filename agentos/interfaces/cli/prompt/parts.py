"""The parts of a prompt, in the order in which they stand on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple


class PartKind(Enum):
    """What the value of a part is."""

    TEXT = "text"
    FILE = "file"
    SHELL = "shell"
    ALIAS = "alias"
    SEP4 = "sep4"
    SEP40 = "sep40"


class Part(NamedTuple):
    """One part; value is the text, the path, the command, NAME or NAME=FILE, or what is repeated."""

    kind: PartKind
    value: str


OPTIONS: Mapping[str, PartKind] = {
    "--prompt": PartKind.TEXT,
    "-p": PartKind.TEXT,
    "--file": PartKind.FILE,
    "-f": PartKind.FILE,
    "--shell": PartKind.SHELL,
    "--alias": PartKind.ALIAS,
    "--sep4": PartKind.SEP4,
    "-s": PartKind.SEP4,
    "--sep40": PartKind.SEP40,
    "-S": PartKind.SEP40,
}
REPEATED = {PartKind.SEP4: 4, PartKind.SEP40: 40}
"""How often the text of a separator stands in the prompt."""
END_OF_OPTIONS = "--"


def parts_in_order(tokens: Sequence[str]) -> list[Part]:
    """The parts among the words of a command line.

    Spellings: --prompt TEXT, --prompt=TEXT, -p TEXT, -p=TEXT, -pTEXT. The word behind a bare option is its value, whatever
    it looks like. An option whose value is lacking is left out: the parser of the command line refuses it.
    """
    return list(_parts(iter(tokens)))


def _parts(tokens: Iterator[str]) -> Iterator[Part]:
    for token in tokens:
        if token == END_OF_OPTIONS:
            return
        name, attached = _split(token)
        kind = OPTIONS.get(name)
        if kind is None:
            continue
        value = attached if attached is not None else next(tokens, None)
        if value is not None:
            yield Part(kind, value)


def _split(token: str) -> tuple[str, str | None]:
    """An option and the value that is attached to it, None when the next word is its value."""
    name, equals, value = token.partition("=")
    if equals and name in OPTIONS:
        return name, value
    if token[:2] in OPTIONS and len(token) > 2:
        return token[:2], token[2:]
    return token, None

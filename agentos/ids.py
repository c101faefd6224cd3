"""Names of things: typed ids, addresses of private values, and the source of new ids.

An id is a TypeID: the kind, an underscore, and a UUID in 26 letters of Crockford's base 32, which sorts by time of birth.
A turn or a call has no id of its own making: it is named by its log and the seq of the entry that introduces it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, NewType, Protocol

import uuid_utils

LogId = NewType("LogId", str)
ProgramId = NewType("ProgramId", str)
AgentId = NewType("AgentId", str)
ToolboxId = NewType("ToolboxId", str)
ConversationId = NewType("ConversationId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)
ResourceId = NewType("ResourceId", str)

Name = NewType("Name", str)
"""A word that is no secret and nobody's text: a slug, a tool's name, a key. See `name_of`."""
Digest = NewType("Digest", str)
"""A sha256 in hexadecimal."""
Seq = NewType("Seq", int)
"""A position in a log, from 1. Inside its log it also names the turn or call that the entry there introduces."""
Micros = NewType("Micros", int)
"""Microseconds since 1970 in UTC."""

CONVERSATION = Seq(0)
"""The entity of a log that is the conversation itself; its turns and calls are named by their seqs."""


class Kind(Enum):
    """Kinds of entities."""

    PROGRAM = "program"
    AGENT = "agent"
    TOOLBOX = "toolbox"
    CONVERSATION = "conversation"
    TURN = "turn"
    CALL = "call"
    RESOURCE = "resource"


class Address(NamedTuple):
    """Where a private value stands: value number `i` of the entry at `seq`, in the log that holds the address."""

    seq: Seq
    i: int


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SUFFIX = r"[0-7][0-9a-hjkmnp-tv-z]{25}"
_ID = re.compile(rf"(program|agent|toolbox|conversation|resource)_({_SUFFIX})")
_PART_ID = re.compile(rf"(turn|call)_({_SUFFIX})_([1-9][0-9]{{0,17}})")
_NAME = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")


class IdSource(Protocol):
    """Where new ids come from; passes of the tick never ask it."""

    def new(self, kind: Kind) -> str: ...


class RandomIds:
    """Ids from UUIDv7: 48 bits of milliseconds, then random bits."""

    def new(self, kind: Kind) -> str:
        return f"{kind.value}_{base32(uuid_utils.uuid7().int)}"


class SaltSource(Protocol):
    """Where the salts of commitments come from."""

    def salt(self) -> bytes: ...


SALT_BYTES = 16


class RandomSalts:
    """Salts of 16 bytes from the operating system, drawn many at a time: one by one is a system call each."""

    def __init__(self) -> None:
        self._drawn: Iterator[bytes] = iter(())

    def salt(self) -> bytes:
        for salt in self._drawn:
            return salt
        block = os.urandom(SALT_BYTES * 256)
        self._drawn = iter([block[n : n + SALT_BYTES] for n in range(0, len(block), SALT_BYTES)])
        return next(self._drawn)


def hashed_id(kind: Kind, *parts: str) -> str:
    """The id that these parts always give, so that who asks twice attaches to the same thing."""
    joined = "\0".join(part.replace("\\", "\\\\").replace("\0", "\\0") for part in parts)
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()
    return f"{kind.value}_{base32(int.from_bytes(digest[:16], 'big'))}"


def agent_id(slug: str) -> AgentId:
    """An agent is named by its slug, in every process and store."""
    return AgentId(hashed_id(Kind.AGENT, slug))


def turn_id(log: str, seq: int) -> TurnId:
    return TurnId(f"turn_{log.partition('_')[2]}_{seq}")


def call_id(log: str, seq: int) -> CallId:
    return CallId(f"call_{log.partition('_')[2]}_{seq}")


def log_and_seq(part: str) -> tuple[LogId, Seq]:
    """The log and seq that a turn's or call's id names. Raises ValueError."""
    found = _PART_ID.fullmatch(part)
    if not found:
        raise ValueError(f"{part[:80]!r} is not the id of a turn or a call")
    return LogId(f"conversation_{found[2]}"), Seq(int(found[3]))


def is_id(text: str, kind: Kind) -> bool:
    """Whether the text has the form of an id of this kind."""
    found = _ID.fullmatch(text) or _PART_ID.fullmatch(text)
    return bool(found) and found[1] == kind.value  # type: ignore[index]


def conversation_id(text: str) -> ConversationId:
    """Checks an id that came from outside. Raises ValueError."""
    if not is_id(text, Kind.CONVERSATION):
        raise ValueError(f"{text[:80]!r} is not the id of a conversation (conversation_ and 26 letters or digits)")
    return ConversationId(text)


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text))


def name_of(text: str) -> Name:
    """The text itself if it is a name, otherwise a cleaned form with a digest that keeps it apart from others."""
    if _NAME.fullmatch(text):
        return Name(text)
    clean = re.sub(r"[^A-Za-z0-9_.:/@+-]", "_", text[:64]) or "_"
    return Name(f"{clean}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}")


def base32(number: int) -> str:
    """A UUID's 128 bits as the 26 letters of a TypeID."""
    letters = []
    for _ in range(26):
        letters.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(letters))

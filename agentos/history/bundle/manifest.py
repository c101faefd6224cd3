"""The manifest of a bundle: what is in it, where it came from, and the digest of every other member.

It is written in one form alone, as lines are: what was read has to come out byte for byte when it is written anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from agentos.history.bundle.container import MANIFEST
from agentos.history.heads import digest_of_heads
from agentos.ids import LogId
from agentos.persistence.base import LogRow

FORMAT = 1
NOBODY = 0

_Digits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
"""Every owner counts one on, so that the last number a store can hold would leave none for the next."""
_Word = Annotated[str, msgspec.Meta(max_length=200)]
_Id = Annotated[str, msgspec.Meta(pattern="^(program|agent|toolbox|conversation)_[0-7][0-9a-hjkmnp-tv-z]{25}\\Z")]
_CallId = Annotated[str, msgspec.Meta(pattern="^call_[0-7][0-9a-hjkmnp-tv-z]{25}_[1-9][0-9]{0,17}\\Z")]
_Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:/@+-]{1,128}\\Z")]
_File = Annotated[str, msgspec.Meta(max_length=96)]


class LogPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One log: the row that it has in the store, and the member with its entries.

    Its own entries stand in the member, those from 1 or, in a fork, from upto + 1, up to seq, whose digest is digest.
    prefix: the log went on in the store, and only what a fork in the bundle shares is here; seq and digest are then those
    of the last entry that is. erased_at is in microseconds, UTC, None while its texts stand; epoch counts its owners.
    entries counts the lines, bytes and sha256 are those of the member.
    """

    id: _Id
    kind: _Word
    epoch: _Epoch
    seq: _Count
    digest: _Digits
    file: _File
    entries: _Count
    bytes: _Count
    sha256: _Digits
    root: _Id | None = None
    parent_call: _CallId | None = None
    tenant: _Name | None = None
    forked_from: _Id | None = None
    upto: _Count = 0
    erased_at: _Count | None = None
    prefix: bool = False

    @property
    def shared(self) -> int:
        """The seq of the last entry that a fork shares with another log, 0 in others."""
        return self.upto if self.forked_from is not None else 0

    def row(self) -> LogRow:
        """The row of the log, of nobody."""
        return LogRow(
            id=LogId(self.id),
            kind=self.kind,
            owner=NOBODY,
            epoch=self.epoch,
            seq=self.seq,
            digest=bytes.fromhex(self.digest),
            root=self.root,
            parent_call=self.parent_call,
            tenant=self.tenant,
            forked_from=self.forked_from,
            upto=self.upto,
            erased_at=self.erased_at,
        )


class DefinitionPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What a turn pinned, an agent is, or a toolbox offers; digest is the sha256 of the body, and so of the member.

    file is None in a redacted bundle: bodies hold prompts.
    """

    digest: _Digits
    kind: _Word
    bytes: _Count
    file: _File | None = None


class FilePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A member for people and their tools, which verify and import do not look into."""

    file: _File
    bytes: _Count
    sha256: _Digits


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """made_at is in microseconds, UTC; agentos the version that wrote the bundle, schema that of the tables it read,
    rules the digest of the systems and policies of that program.

    asked is the conversation that was asked for, None for a whole store. redacted: salts and bodies were left out. heads is
    `digest_of_heads` over the logs here: for a whole store what `agentos verify` prints of it. logs stand parents first.
    """

    format: int
    made_at: _Count
    agentos: _Word
    schema: _Count
    rules: _Word
    redacted: bool
    asked: _Id | None
    heads: _Digits
    logs: tuple[LogPart, ...]
    definitions: tuple[DefinitionPart, ...]
    files: tuple[FilePart, ...]

    def parts(self) -> Iterator[tuple[str, int, str]]:
        """Name, bytes and sha256 of every other member."""
        for log in self.logs:
            yield log.file, log.bytes, log.sha256
        for definition in self.definitions:
            if definition.file is not None:
                yield definition.file, definition.bytes, definition.digest
        for file in self.files:
            yield file.file, file.bytes, file.sha256


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(_encode(manifest), indent=1) + b"\n"


def decode_manifest(raw: bytes) -> Manifest:
    """Raises ValueError, which says what is wrong."""
    try:
        version = _decode_format(raw).format
        if version != FORMAT:
            raise ValueError(f"it has format {version}; this program reads format {FORMAT}")
        found = _decode(raw)
        same = encode_manifest(found) == raw
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"{MANIFEST} is not that of a bundle: {str(error)[:200]}") from None
    if not same:
        raise ValueError(f"{MANIFEST} is not written as a bundle writes it: a key stands twice, or the like")
    _check_names(found)
    return found


def heads_of(logs: tuple[LogPart, ...]) -> str:
    return digest_of_heads(log.row() for log in logs)


def _check_names(found: Manifest) -> None:
    """Each log, definition and file stands once, and in a member of its own."""
    for what, names in (
        ("log", [log.id for log in found.logs]),
        ("definition", [definition.digest for definition in found.definitions]),
        ("member", [name for name, _, _ in found.parts()]),
    ):
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            raise ValueError(f"{MANIFEST} names the {what} {name!a} twice")
    for definition in found.definitions:
        if (definition.file is None) != found.redacted:
            raise ValueError(
                f"{MANIFEST}: definition {definition.digest} {'has' if found.redacted else 'lacks'} a file"
            )
        if definition.file not in (None, f"definitions/{definition.digest}.json"):
            raise ValueError(f"{MANIFEST}: definition {definition.digest} stands in {definition.file}")
    for log in found.logs:
        if not log.file.startswith("logs/"):
            raise ValueError(f"{MANIFEST}: {log.id} stands in {log.file}")


class _Format(msgspec.Struct):
    """What every format has."""

    format: int


_encode = msgspec.json.Encoder(order="sorted").encode
_decode_format = msgspec.json.Decoder(_Format).decode
_decode = msgspec.json.Decoder(Manifest).decode

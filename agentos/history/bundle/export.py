"""Export: a conversation with all below it, or a whole store, as one file that can be verified without the store.

It is of one moment: the heads are read at once, and every log goes up to its head of then, however much is written
meanwhile. Entries are read in pages, each in a read of its own, so that a long export holds up no writer and no checkpoint.
Every log is checked on its way: what was edited does not go out as if it were the record.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentos import codec
from agentos.clock import Clock, SystemClock
from agentos.components import AgentConfig, TurnConfig
from agentos.errors import CodecError, ExportRefused, StoreDamaged
from agentos.events.entry import Head, digest_of_body, seed_digest
from agentos.history.bundle.choosing import Chosen, choose_from
from agentos.history.bundle.limits import BundleLimits
from agentos.history.bundle.lines import encode_line
from agentos.history.bundle.manifest import (
    FORMAT,
    DefinitionPart,
    FilePart,
    LogPart,
    Manifest,
    encode_manifest,
    heads_of,
)
from agentos.history.bundle.page import page_html
from agentos.history.bundle.readme import README
from agentos.history.bundle.showing import facts_of, trees_of
from agentos.history.bundle.spans import spans_json
from agentos.history.bundle.writing import BundleWriter, Packing, bundle_file
from agentos.history.reading import stored_pages
from agentos.history.report import Finder
from agentos.history.verify.chain import Chain
from agentos.persistence.base import LogRow, Store
from agentos.systems import SCHEDULE

TRIES = 3
"""How often an export begins anew when a log was erased under it."""
PAGE_DEFINITIONS = 100


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: bytes is the size of the file, payloads how many values stand in it, erased how many logs of it
    have none left; cut tells that spans.json and index.html show not all of it."""

    manifest: Manifest
    bytes: int
    entries: int
    payloads: int
    erased: int
    cut: bool


async def export_bundle(
    store: Store,
    path: Path,
    *,
    conversation: str | None = None,
    redact: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    limits: BundleLimits | None = None,
) -> Exported:
    """Writes a bundle of a conversation, or of everything. The store is only read, and may be at work.

    redact leaves salts and bodies out, and of definitions all but digest and kind: what is left proves what was done when,
    and that a text which somebody has is the one.

    Errors: ExportRefused when something is at path and force is not given, and over a limit; UnknownConversation;
    StoreDamaged, which names log and seq; StoreUnavailable; OSError. No file is left then.
    """
    limits = limits or BundleLimits()
    for n in range(TRIES):
        rows: dict[str, LogRow] = {row.id: row for row in await store.logs()}
        chosen = await choose_from(store, rows, conversation)
        try:
            with bundle_file(path, limits, force=force) as writer:
                export = _Export(store, writer, path, limits, redact=redact)
                return await export.run(chosen, conversation, (clock or SystemClock()).now())
        except StoreDamaged:
            if n + 1 == TRIES or not await _erased_since(store, rows):
                raise
    raise AssertionError("the last try returns or raises")


async def _erased_since(store: Store, rows: Mapping[str, LogRow]) -> bool:
    """Whether values went while they were read."""
    now = await store.logs()
    return any(row.id in rows and rows[row.id].erased_at != row.erased_at for row in now)


class _Export:
    """One run of an export."""

    def __init__(self, store: Store, writer: BundleWriter, path: Path, limits: BundleLimits, *, redact: bool) -> None:
        self._store, self._writer, self._path, self._limits, self._redact = store, writer, path, limits, redact
        self._pinned: dict[str, str] = {}
        self._entries = self._payloads = 0

    async def run(self, chosen: list[Chosen], conversation: str | None, now: int) -> Exported:
        logs = tuple([await self._log(n, one) for n, one in enumerate(chosen, 1)])
        definitions = tuple([part async for part in self._definitions(whole=conversation is None)])
        manifest = self._manifest(logs, definitions, conversation, now)
        trees, cut = await trees_of(self._store, logs, conversation, self._limits.bundle_nodes_max)
        files = (
            self._file("README.txt", README),
            self._file("index.html", page_html(trees, facts_of(manifest), cut=cut)),
            self._file("spans.json", spans_json(trees)),
        )
        manifest = msgspec.structs.replace(manifest, files=files)
        return Exported(
            manifest=manifest,
            bytes=self._writer.finish(encode_manifest(manifest)),
            entries=self._entries,
            payloads=self._payloads,
            erased=sum(log.erased_at is not None for log in logs),
            cut=cut,
        )

    async def _log(self, n: int, chosen: Chosen) -> LogPart:
        """Writes one log. Raises StoreDamaged as soon as something in it is not as it was written."""
        row, name = chosen.row, f"logs/{n:05}.jsonl"
        chain = Chain(chosen.shared, await self._digest_before(chosen), finder := Finder(row.id))
        packing, before = self._writer.begin(name), self._entries
        async for units in stored_pages(self._store, row.id, chosen.shared, chosen.upto):
            for unit in units:
                heads = chain.add(unit, {})
                chain.messages.clear()
                self._check(finder)
                self._note(heads, row.id)
                for entry in unit:
                    packing.write(self._line(entry, row.id))
                    self._payloads += 0 if self._redact else sum(salt is not None for _, _, salt, _ in entry.payloads)
                self._entries += len(unit)
                self._check_entries(row.id, self._entries - before)
            await asyncio.sleep(0)
        digest = chain.digest if chosen.prefix else row.digest
        chain.end(chosen.upto, digest)
        self._check(finder)
        return self._log_part(chosen, digest, self._entries - before, packing)

    def _check_entries(self, log: str, entries: int) -> None:
        if entries > self._limits.bundle_log_entries_max:
            most = f"{self._limits.bundle_log_entries_max:,} (bundle_log_entries_max)"
            raise ExportRefused(f"{self._path}: {log} has more than {most} entries; 'agentos copy' moves the store")

    def _log_part(self, chosen: Chosen, digest: bytes, entries: int, packing: Packing) -> LogPart:
        row, written = chosen.row, self._writer.end(packing)
        return LogPart(
            id=row.id,
            kind=row.kind,
            epoch=row.epoch,
            seq=chosen.upto,
            digest=digest.hex(),
            file=written.name,
            entries=entries,
            bytes=written.bytes,
            sha256=written.sha256,
            root=row.root,
            parent_call=row.parent_call,
            tenant=row.tenant,
            forked_from=row.forked_from,
            upto=row.upto,
            erased_at=row.erased_at,
            prefix=chosen.prefix,
        )

    def _line(self, entry: Any, log: str) -> bytes:
        try:
            line = encode_line(entry, redacted=self._redact)
        except UnicodeEncodeError:
            raise StoreDamaged(self._store.url, f"{log} seq {entry.seq}: a text in it has no bytes") from None
        if len(line) > self._limits.bundle_line_bytes_max:
            most = f"{self._limits.bundle_line_bytes_max:,} (bundle_line_bytes_max)"
            raise ExportRefused(
                f"{self._path}: {log} seq {entry.seq} has {len(line):,} bytes, of {most}; --redact leaves its texts out"
            )
        return line

    async def _digest_before(self, chosen: Chosen) -> bytes:
        """What the chain of a log starts from."""
        if not chosen.shared:
            return seed_digest(chosen.row.id)
        for entry in await self._store.entries(chosen.row.id, chosen.shared - 1, chosen.shared):
            return entry.digest
        raise StoreDamaged(
            self._store.url, f"{chosen.row.id} seq {chosen.shared}: the entry that it forks from is missing"
        )

    def _check(self, finder: Finder) -> None:
        for difference in finder.found:
            raise StoreDamaged(self._store.url, str(difference))

    def _note(self, heads: list[Head], log: str) -> None:
        """The definitions that entries pin, with the first place of each."""
        for head in heads:
            for name, value in ((name, value) for _, name, value in head.changes if name in PINS):
                self._pinned.setdefault(value[PINS[name]], f"{log} seq {head.seq}")

    async def _definitions(self, *, whole: bool) -> AsyncIterator[DefinitionPart]:
        """Those that are pinned, and what these name; of a whole store all."""
        done: set[str] = set()
        for digest, place in self._pinned.items():
            body = await self._body(digest)
            if body is None:
                raise StoreDamaged(self._store.url, f"{place}: the definition {digest} is missing")
            for name in (digest, *named_in(body)):
                if name not in done and (found := await self._store.definition(name)) is not None:
                    done.add(name)
                    yield self._definition(name, found[0], found[1])
        after = "" if whole else None
        while after is not None:
            page = await self._store.definitions(after, PAGE_DEFINITIONS)
            for digest, kind, body in page:
                if digest not in done:
                    yield self._definition(digest, kind, body)
            after = page[-1][0] if len(page) == PAGE_DEFINITIONS else None

    async def _body(self, digest: str) -> str | None:
        found = await self._store.definition(digest)
        return found[1] if found is not None else None

    def _definition(self, digest: str, kind: str, body: str) -> DefinitionPart:
        if digest_of_body(body) != digest:
            raise StoreDamaged(self._store.url, f"the body of definition {digest} has another digest")
        if self._redact:
            return DefinitionPart(digest=digest, kind=kind, bytes=0)
        written = self._writer.add(f"definitions/{digest}.json", body.encode())
        return DefinitionPart(digest=digest, kind=kind, bytes=written.bytes, file=written.name)

    def _file(self, name: str, text: str) -> FilePart:
        written = self._writer.add(name, text.encode())
        return FilePart(file=name, bytes=written.bytes, sha256=written.sha256)

    def _manifest(
        self, logs: tuple[LogPart, ...], definitions: tuple[DefinitionPart, ...], conversation: str | None, now: int
    ) -> Manifest:
        from agentos.persistence.sqlite.file import SCHEMA_VERSION  # all adapters have the same

        return Manifest(
            format=FORMAT,
            made_at=now,
            agentos=importlib.metadata.version("agentos-kernel"),
            schema=SCHEMA_VERSION,
            rules=SCHEDULE.digest(),
            redacted=self._redact,
            asked=conversation,
            heads=heads_of(logs),
            logs=logs,
            definitions=tuple(sorted(definitions, key=lambda one: one.digest)),
            files=(),
        )


PINS = {TurnConfig.component: "context", AgentConfig.component: "definition"}
"""The components that pin a definition, and where they name it."""


def named_in(body: str) -> list[str]:
    """The digests that the body of a context names: of its agent's definition, and of the toolsets that it uses."""
    try:
        value = codec.decode_json(body)
    except CodecError:
        return []
    if not isinstance(value, dict) or "agent" not in value:
        return []
    boxes = [box.get("toolset") for box in value.get("toolboxes", ()) if isinstance(box, dict)]
    return [digest for digest in (value.get("definition"), *boxes) if isinstance(digest, str) and digest]

"""export: conversations as one file, that verify knows without the store, and that people can open in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.history.bundle import Exported, export_bundle
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.kernel.reading import reading


async def export(
    id_: Annotated[str, Parameter(name="ID")],
    file: Path | None = None,
    /,
    *,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    redact: Flag = False,
    force: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Write a conversation with all below it, or with --all the whole store, to one file: a bundle.

    'agentos verify FILE' checks it on any machine, without the store; 'agentos import FILE' takes it into another one. It is
    a ZIP with the entries, what agents were told and could use, a README, an HTML page and OTLP spans. Of a fork, the entries
    that it shares go with it. The store is only read, and may be at work: the bundle is of one moment.

    Parameters
    ----------
    id_
        a conversation by its id or a part of it; with --all, only the file is named
    file
        the file to write
    all_
        every log of the store, those of agents and toolboxes too
    redact
        leave all texts out: digests stay, and prove a text that somebody has
    force
        replace a file that is there already
    json
        print one JSON object
    """
    if all_ == (file is not None):
        raise UsageError(
            "name the file alone with --all" if all_ else "name a conversation and a file, or --all and a file"
        )
    path = file if file is not None else Path(id_)
    async with reading(here.store_url()) as store:
        asked = await find_conversation(store, id_) if not all_ else None
        exported = await export_bundle(store.store, path, conversation=asked, redact=redact, force=force)
    if json:
        put_json(_object(exported, path))
    else:
        _put(exported, path)
    return Exit.OK


def _put(exported: Exported, path: Path) -> None:
    manifest = exported.manifest
    what = manifest.asked or "the whole store"
    values = "no texts" if manifest.redacted else counted(exported.payloads, "text")
    size = f"{exported.entries:,} entries and {values} in {counted(len(manifest.logs), 'log')}"
    put(f"{path}: {what}: {size}, {exported.bytes:,} bytes, heads {manifest.heads}")
    for log in manifest.logs:
        if log.prefix:
            put(f"  of {log.id} the entries up to {log.seq}, which a fork shares")
    if exported.erased:
        put(f"  {counted(exported.erased, 'log')} of it erased: heads and receipts alone are left")
    if exported.cut:
        say("index.html and spans.json show a part of it (bundle_nodes_max); the logs are whole")
    if not manifest.redacted:
        say("it holds texts, prompts and results as they are; an erase in the store does not reach it")


def _object(exported: Exported, path: Path) -> dict[str, Any]:
    manifest = exported.manifest
    return {
        "file": str(path),
        "asked": manifest.asked,
        "redacted": manifest.redacted,
        "made_at_us": manifest.made_at,
        "bytes": exported.bytes,
        "logs": len(manifest.logs),
        "prefixes": {log.id: log.seq for log in manifest.logs if log.prefix},
        "entries": exported.entries,
        "payloads": exported.payloads,
        "definitions": len(manifest.definitions),
        "erased": exported.erased,
        "heads": manifest.heads,
        "cut": exported.cut,
    }

"""verify: is what is stored still what was written? Of a whole store or one log, by itself or against anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from cyclopts import Parameter

from agentos.errors import BundleRefused
from agentos.history import Anchors, Proof, Report, heads_digest, iso_time, read_anchors, verify_store
from agentos.history.bundle import BundleReader, Manifest, check_bundle, is_bundle
from agentos.interfaces.cli.anchor import anchor_key
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_log
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say
from agentos.kernel.reading import Reading, reading

UNANCHORED = (
    "unkeyed check only: it finds what was edited, not a store that was put back or made anew as a whole;"
    " 'agentos anchor FILE' and 'verify --anchor FILE' do"
)
UNANCHORED_BUNDLE = (
    "unkeyed check only: it finds what was edited, not a bundle that was made anew as a whole; compare the digest of its"
    " heads with one that was noted elsewhere, or give --anchor"
)


async def verify(
    log: str | None = None,
    /,
    *,
    anchor: Path | None = None,
    key: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    json: Flag = False,
    here: Here,
) -> int:
    """Recompute digests, commitments and tables from the log; differences name log, seq and table. Exit code 0 or 1.

    Of a bundle, a file that 'agentos export' wrote, all that is in it, without the store.

    The digest of all heads is that of every store that holds the same entries, whatever kind it is of. With anchors, it also
    finds logs that were cut off, deleted or made anew, and a store that was put back to an earlier day.

    Parameters
    ----------
    log
        the id of a conversation, or a part of it that no other has, or the whole id of another log; it is looked at with
        those that it forks from. Or a file that is a bundle. Without one, the whole store is
    anchor
        a file that 'agentos anchor' wrote, kept apart from the store
    key
        the key that the anchors were proven with, as env:NAME, file:PATH, command:PROGRAM or key:ID; once for each key
    json
        print one JSON object
    """
    if key and anchor is None:
        raise UsageError("--key goes with --anchor: keys prove anchors")
    anchors = read_anchors(anchor) if anchor is not None else None
    keys = [anchor_key(reference) for reference in key]
    if log is not None and is_bundle(path := Path(log)):
        with BundleReader(path) as bundle:
            report = check_bundle(bundle, anchors=anchors, keys=keys)
            _tell(report, None, bundle.manifest.heads, bundle.manifest, json=json)
        return Exit.OK if report.ok else Exit.FAILURE
    if log is not None and _is_path(log):
        _refuse(log)
    async with reading(here.store_url()) as store:
        one = await _log(store, log, anchors) if log is not None else None
        report = await verify_store(store.store, log=one, anchors=anchors, keys=keys)
        heads = await heads_digest(store.store) if one is None else None
    _tell(report, one, heads, None, json=json)
    return Exit.OK if report.ok else Exit.FAILURE


def _is_path(text: str) -> bool:
    """Whether it is a file that is meant: no id has a dot or a slash."""
    return ("." in text or "/" in text) and "\0" not in text


def _refuse(path: str) -> NoReturn:
    """Raises BundleRefused; OSError when there is no such file."""
    Path(path).lstat()
    raise BundleRefused(path, "it is no bundle, neither at its beginning nor at its end, or cannot be read")


async def _log(store: Reading, text: str, anchors: Anchors | None) -> str:
    """The log that a person means; one that is gone is known by its whole id from the anchors."""
    return text if anchors is not None and text in anchors.heads else await find_log(store, text)


def _tell(report: Report, log: str | None, heads: str | None, bundle: Manifest | None, *, json: bool) -> None:
    if json:
        put_json({**_object(report, log, heads), **({"bundle": _bundle(bundle)} if bundle is not None else {})})
        return
    if bundle is not None:
        texts = "; its texts were left out" if bundle.redacted else ""
        put(f"bundle of {bundle.asked or 'a whole store'}, made at {iso_time(bundle.made_at)}{texts}")
    _put(report, heads, UNANCHORED if bundle is None else UNANCHORED_BUNDLE)


def _put(report: Report, heads: str | None, unanchored: str) -> None:
    put(str(report))
    for difference in report.differences:
        put(f"  {difference}")
    if report.more:
        say(f"and {report.more} more")
    if heads is not None:
        put(f"heads: {heads}")
    put(str(report.proof) if report.proof is not None else unanchored)


def _bundle(manifest: Manifest) -> dict[str, Any]:
    return {
        "asked": manifest.asked,
        "made_at_us": manifest.made_at,
        "redacted": manifest.redacted,
        "prefixes": {log.id: log.seq for log in manifest.logs if log.prefix},
        "erased": [log.id for log in manifest.logs if log.erased_at is not None],
    }


def _object(report: Report, log: str | None, heads: str | None) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "log": log,
        "logs": report.logs,
        "entries": report.entries,
        "payloads": report.payloads,
        "heads": heads,
        "keyed": report.proof is not None and report.proof.keyed,
        "anchor": _anchor(report.proof) if report.proof is not None else None,
        "differences": msgspec.to_builtins(report.differences),
        "more": report.more,
    }


def _anchor(proof: Proof) -> dict[str, Any]:
    return {
        "n": proof.anchor,
        "at_us": proof.at,
        "digest": proof.digest,
        "logs": proof.logs,
        "entries": proof.entries,
        "proven": proof.proven,
        "key_ids": list(proof.key_ids),
    }

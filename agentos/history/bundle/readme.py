"""README.txt of a bundle: for whoever finds the file without the program."""

from __future__ import annotations

README = """\
This is a bundle of agentos: the record of one or more conversations of agents, as a program wrote it while they ran.
It is one ZIP file, complete in itself. Nothing in it has to be run to be read.

What each file holds
  manifest.json         what is in the bundle: each log with the digest of its last entry, each definition, the digest
                        of every other file, when it was made, and whether texts were left out ("redacted")
  logs/NNNNN.jsonl      one log, one entry a line, in the order in which they were written: its head as it was stored
                        (a text that is JSON itself), the digest up to there, and its private values (texts, arguments,
                        results) each with its salt. A value that is null was erased, or left out
  definitions/*.json    what agents were told and could use: the name of the file is the sha256 of its content
  index.html            the conversations as a tree and on a time axis, for a browser; it loads nothing from elsewhere
  spans.json            the same as OTLP/JSON traces, for programs that show those
  README.txt            this text

How to verify it
  agentos verify FILE                     recomputes every digest; no store is needed
  agentos verify FILE --anchor ANCHORS    also compares with anchors that were kept apart ('agentos anchor')

How to verify it without the program
  The comment of the ZIP holds the sha256 of all bytes of the file that stand before the comment.
  The first digest of a log is sha256("agentos log " + the id of the log). The digest of each entry is
  sha256(the digest before, as 32 bytes + the head, as UTF-8). A log that is a fork goes on from the digest of the entry
  "upto" of the log in "forked_from".
  A head names, in "commitments", for each private value sha256(salt + value), in base64.
  "heads" in manifest.json is the sha256 over a line "id seq digest" for each log, sorted by id.

A digest proves that nothing was edited, not who wrote it: whoever can make a whole bundle anew can make all digests
anew. Anchors that were kept apart, or the digest of the heads as somebody wrote it down, tell that too.
"""

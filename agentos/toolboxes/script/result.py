"""What a script that has ended gives as the result of its call.

exit code 0, text         the text; text/*, JSON, XML, YAML and what says no media type are text
exit code 0, other media  the bytes (results.Media): the model reads one line about them, the call keeps them
exit code 0, no text      the same, also when text was announced; application/octet-stream when nothing was
nothing printed           what empty-result says
another exit code         a failure with the code, the end of stderr, and the end of stdout
"""

from __future__ import annotations

from pathlib import Path

from agentos.ids import Name
from agentos.resources.process.output import Output
from agentos.resources.process.process import Ended
from agentos.resources.process.reasons import code_text
from agentos.toolboxes.base import Failed
from agentos.toolboxes.results import Media
from agentos.toolboxes.script.form import ScriptForm

FAILURE_CHARS = 4_000
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")


def result_of(path: Path, form: ScriptForm, ended: Ended) -> object:
    """A text, Media or Failed."""
    if ended.code != 0:
        return Failed(Name("exit"), _failure(path, ended))
    if ended.out.total == 0:
        empty = form.empty_result
        return empty.contents if empty is not None and empty.tag == "AddMessage" else ""
    total = ended.out.total
    if form.media_type is not None and not _is_text(form.media_type):
        return Media(form.media_type, ended.out.take_bytes(), total)
    taken = ended.out.take()
    return taken if isinstance(taken, str) else Media(form.media_type or "application/octet-stream", taken, total)


def _is_text(media_type: str) -> bool:
    return media_type.startswith(_TEXT_TYPES) or media_type.endswith(_TEXT_SUFFIXES)


def _failure(path: Path, ended: Ended) -> str:
    lines = [f"{path} ended with {code_text(ended.code)}"]
    for title, output in (("stderr", ended.err), ("stdout", ended.out)):
        if output.total:
            lines.append(f"{title}:\n{_end(output)}")
    return "\n".join(lines)


def _end(output: Output) -> str:
    return output.end(FAILURE_CHARS).rstrip()

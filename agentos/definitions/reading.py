"""Reads the files of configuration within bounds: YAML, TOML, JSON, and Markdown with front matter, by their suffix."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from agentos.definitions.json_source import Read, read_json_text
from agentos.definitions.limits import LIMITS, FileLimits
from agentos.definitions.markdown_source import has_front_matter, read_markdown_text
from agentos.definitions.problem import Problem, and_more, raise_errors
from agentos.definitions.source import Keys, Place, Refused, Source, dotted
from agentos.definitions.text import read_text
from agentos.definitions.toml_source import read_toml_text
from agentos.definitions.yaml_source import read_yaml_text

INTEGER_MAX = 2**63 - 1
_READERS: dict[str, Callable[[str, FileLimits], Read]] = {
    ".yaml": read_yaml_text,
    ".yml": read_yaml_text,
    ".toml": read_toml_text,
    ".json": read_json_text,
    ".md": read_markdown_text,
}
SUFFIXES = tuple(_READERS)


def read_source(path: Path, limits: FileLimits = LIMITS) -> Source:
    """What a file says, with places. Never raises for what is in the file, or for a file that cannot be read.

    A file that is no good has the value None and its problems; one that is odd, as with a key that stands twice, has both.
    """
    reader = _READERS.get(path.suffix)
    if reader is None and os.path.isfile(path):
        return _nothing(path, Refused(Place(0, 0), f"its name ends in none of {', '.join(SUFFIXES)}"))
    return _read(path, reader or read_yaml_text, limits)


def read_yaml(path: Path) -> Source:
    """A YAML file of any name. Raises ConfigurationError naming file, line and column of each problem."""
    return _checked(_read(path, read_yaml_text, LIMITS))


def is_agent_like(path: Path) -> bool:
    """Whether a file of a directory is meant to be read: of a known suffix, and Markdown only with front matter."""
    if path.suffix != ".md":
        return path.suffix in SUFFIXES
    try:
        with path.open("rb") as file:
            beginning = file.read(64)
    except OSError:
        return True  # read_source tells why it cannot be read
    return has_front_matter(beginning.decode("utf-8-sig", "replace").replace("\r\n", "\n"))


def _checked(source: Source) -> Source:
    raise_errors(source.problems)
    return source


def _read(path: Path, reader: Callable[[str, FileLimits], Read], limits: FileLimits) -> Source:
    try:
        text, marked = read_text(path, limits)
        value, places, found = reader(text, limits)
    except Refused as refused:
        return _nothing(path, refused)
    told = found[: limits.file_problems_max]
    problems = [Problem(path, *place, said) for place, said in told]
    if len(found) > len(told):
        problems.append(and_more(problems[-1], len(found) - len(told)))
    if marked:
        problems.append(Problem(path, 1, 1, "a byte order mark stands before the text; UTF-8 needs none", "warning"))
    source = Source(path, value, places)
    problems.extend(source.problem(keys, dotted(keys) + said) for keys, said in _unfit(value, limits))
    return source._replace(problems=tuple(problems))


def _nothing(path: Path, refused: Refused) -> Source:
    return Source(path, None, {}, (Problem(path, *refused.place, refused.text),))


def _unfit(value: Any, limits: FileLimits) -> list[tuple[Keys, str]]:
    """What a value holds that no configuration may hold, and no store could keep."""
    found: list[tuple[Keys, str]] = []
    rest: list[tuple[Keys, Any]] = [((), value)]
    while rest and len(found) < limits.file_problems_max:
        keys, one = rest.pop()
        if isinstance(one, dict):
            rest.extend(((*keys, key), item) for key, item in one.items())
            found.extend(((*keys, key), said) for key in one for said in _unfit_text(key))
        elif isinstance(one, list):
            rest.extend(((*keys, n), item) for n, item in enumerate(one))
        else:
            found.extend((keys, said) for said in _unfit_scalar(one))
    return found


def _unfit_scalar(value: Any) -> list[str]:
    if isinstance(value, str):
        return _unfit_text(value)
    if isinstance(value, int) and not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
        return ["an integer has to fit into 64 bits"]
    if isinstance(value, float) and not math.isfinite(value):
        return [f"{value} is no finite number"]
    if isinstance(value, (date, datetime, time)):
        return ["a date has no meaning here; in quotes it is text"]
    if value is None or isinstance(value, (bool, int, float)):
        return []
    return [f"a value of type {type(value).__name__} has no meaning here; in quotes it is text"]


def _unfit_text(text: str) -> list[str]:
    if "\0" in text:
        return ["a text may not hold U+0000"]
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return ["a text may not hold half of a pair (U+D800 to U+DFFF)"]
    return []

"""What is varied in a fork, as people write it: options of `fork`, and the variants of `what-if`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from agentos.errors import ConfigurationError
from agentos.interfaces.cli.errors import UsageError, hint

KEYS = ("model", "prompt", "agent", "result")


class Variant(msgspec.Struct, kw_only=True):
    """model is a name, prompt the text of a system prompt, agent a slug or a file; results are texts by the id of the call
    that each is given to."""

    name: str = ""
    model: str | None = None
    prompt: str | None = None
    agent: str | None = None
    results: dict[str, str] = {}

    @property
    def is_plain(self) -> bool:
        """Whether the fork goes on with the same agent."""
        return self.model is None and self.prompt is None and self.agent is None


def read_variants(given: Sequence[str]) -> list[Variant]:
    """Each is NAME, which varies nothing, or NAME:KEY=VALUE,KEY=VALUE; what is said of one name counts together.

    Errors: UsageError; ConfigurationError naming a file that cannot be read.
    """
    found: dict[str, Variant] = {}
    for text in given:
        name, _, said = text.partition(":")
        if not name:
            raise UsageError(f"{text!r}: a variant begins with its name, as in terse:prompt=terse.md")
        variant = found.setdefault(name, Variant(name=name))
        for part in said.split(",") if said else ():
            _take(variant, part)
    if not found:
        raise UsageError("say what is varied: --variant NAME:model=MODEL, prompt=FILE, agent=FILE or result=CALL=FILE")
    return list(found.values())


def variant_of(*, model: str | None, prompt: Path | None, agent: str | None, results: Sequence[str]) -> Variant:
    """From the options of `fork`. Errors: as for `read_variants`."""
    variant = Variant(model=model, prompt=_read(str(prompt)) if prompt is not None else None, agent=agent)
    for result in results:
        _take_result(variant, result)
    return variant


def _take(variant: Variant, part: str) -> None:
    key, is_, value = part.partition("=")
    if not is_ or not value or key not in KEYS:
        raise UsageError(
            f"{variant.name}: {part!r} is none of {', '.join(f'{key}=...' for key in KEYS)}{hint(key, KEYS)}"
        )
    if key == "result":
        _take_result(variant, value)
    elif key == "prompt":
        variant.prompt = _read(value)
    else:
        setattr(variant, key, value)


def _take_result(variant: Variant, text: str) -> None:
    call, is_, file = text.partition("=")
    if not (call and is_ and file):
        raise UsageError(f"{text!r}: a result is given as CALL=FILE")
    variant.results = {**variant.results, call: _read(file)}


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: byte {error.start} is no UTF-8") from error

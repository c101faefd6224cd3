"""Models: adapters from the neutral request to whatever answers it, and the table of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agentos.clock import Clock
from agentos.components import ModelRef
from agentos.errors import ConfigurationError
from agentos.models.base import ModelClient, OnDelta
from agentos.models.direct import DirectModel
from agentos.models.options import GenerationOptions, options_of
from agentos.models.scripted import ScriptedModel, ScriptExhausted
from agentos.secrets import KeyFiles

__all__ = [
    "DirectModel",
    "GenerationOptions",
    "ModelClient",
    "OnDelta",
    "ScriptExhausted",
    "ScriptedModel",
    "check_secrets",
    "make_model",
    "model_kinds",
]


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is made with beside its reference; see `make_model`."""

    clock: Clock
    base: Path | None
    keys: KeyFiles
    base_url: str | None


Factory = Callable[[ModelRef, Around], ModelClient]


def make_model(
    ref: ModelRef,
    clock: Clock,
    base: Path | None,
    *,
    keys: KeyFiles | Sequence[Path] = (),
    base_url: str | None = None,
) -> ModelClient:
    """The client that a reference names; relative paths in it count from base, else from the current folder.

    keys are key files, asked before those of this user. base_url replaces the address of a model that is reached over a
    network. Nothing is sent or resolved yet.
    Errors: ConfigurationError for an unknown kind or option, or a script that cannot be read.
    """
    factory = _FACTORIES.get(ref.kind)
    if factory is None:
        raise ConfigurationError(f"no model is of kind {ref.kind!r}; there are {', '.join(model_kinds())}")
    files = keys if isinstance(keys, KeyFiles) else KeyFiles(keys)
    return factory(ref, Around(clock=clock, base=base, keys=files, base_url=base_url))


def check_secrets(ref: ModelRef) -> None:
    """Refuses a reference whose options hold a secret itself, before they are stored. Raises ConfigurationError."""
    if ref.kind in NETWORK_KINDS:
        options_of(ref)


def model_kinds() -> list[str]:
    return sorted(_FACTORIES)


def _direct(ref: ModelRef, around: Around) -> ModelClient:
    _check_options(ref, ())
    return DirectModel()


def _openai(ref: ModelRef, around: Around) -> ModelClient:
    from agentos.models.openai_chat import OpenAIChat  # it loads an HTTP client

    return OpenAIChat(
        ref, base=around.base, keys=around.keys.with_defaults(), base_url=around.base_url, clock=around.clock
    )


def _scripted(ref: ModelRef, around: Around) -> ModelClient:
    """Its name, or the option `file`, is the path of the script; the option `steps` is the script itself."""
    _check_options(ref, ("file", "steps"))
    if "steps" in ref.options:
        return ScriptedModel(ref.options["steps"], around.clock)
    file = ref.options.get("file", ref.name)
    if not isinstance(file, str) or not file:
        raise ConfigurationError("a scripted model needs the option 'file' or 'steps'")
    return ScriptedModel((around.base or Path()) / file, around.clock)


def _check_options(ref: ModelRef, known: tuple[str, ...]) -> None:
    for option in ref.options:
        if option not in known:
            options = ", ".join(known) or "none"
            raise ConfigurationError(f"a model of kind {ref.kind!r} has no option {option!r}; options: {options}")


_FACTORIES: dict[str, Factory] = {"direct": _direct, "openai": _openai, "scripted": _scripted}
NETWORK_KINDS = frozenset({"openai"})
"""Kinds whose options are those of `GenerationOptions`."""

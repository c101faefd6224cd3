"""Models: adapters from the neutral request to whatever answers it, and the table of their kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentos.clock import Clock
from agentos.components import ModelRef
from agentos.errors import ConfigurationError
from agentos.models.base import ModelClient, OnDelta
from agentos.models.direct import DirectModel
from agentos.models.scripted import ScriptedModel, ScriptExhausted

__all__ = ["DirectModel", "ModelClient", "OnDelta", "ScriptExhausted", "ScriptedModel", "make_model", "model_kinds"]

Factory = Callable[[ModelRef, Clock, Path | None], ModelClient]


def make_model(ref: ModelRef, clock: Clock, base: Path | None) -> ModelClient:
    """The client that a reference names; relative paths in it count from base, else from the current folder.

    Errors: ConfigurationError for an unknown kind or option, or a script that cannot be read.
    """
    factory = _FACTORIES.get(ref.kind)
    if factory is None:
        raise ConfigurationError(f"no model is of kind {ref.kind!r}; there are {', '.join(model_kinds())}")
    return factory(ref, clock, base)


def model_kinds() -> list[str]:
    return sorted(_FACTORIES)


def _direct(ref: ModelRef, clock: Clock, base: Path | None) -> ModelClient:
    _check_options(ref, ())
    return DirectModel()


def _scripted(ref: ModelRef, clock: Clock, base: Path | None) -> ModelClient:
    """Its name, or the option `file`, is the path of the script; the option `steps` is the script itself."""
    _check_options(ref, ("file", "steps"))
    if "steps" in ref.options:
        return ScriptedModel(ref.options["steps"], clock)
    file = ref.options.get("file", ref.name)
    if not isinstance(file, str) or not file:
        raise ConfigurationError("a scripted model needs the option 'file' or 'steps'")
    return ScriptedModel((base or Path()) / file, clock)


def _check_options(ref: ModelRef, known: tuple[str, ...]) -> None:
    for option in ref.options:
        if option not in known:
            options = ", ".join(known) or "none"
            raise ConfigurationError(f"a model of kind {ref.kind!r} has no option {option!r}; options: {options}")


_FACTORIES: dict[str, Factory] = {"direct": _direct, "scripted": _scripted}

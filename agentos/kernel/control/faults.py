"""Errors over a control socket: those of `agentos.errors` come back as what they are, with their words and attributes.

The registry is closed: the classes of that module, by name. Nothing is imported because a line says so. An error of another
class comes as the nearest of these that it is; one that is none of ours comes as a refusal that names its type alone.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import msgspec

from agentos import errors
from agentos.errors import AgentosError, CodecError, ControlRefused

_log = logging.getLogger(__name__)

REGISTRY: dict[str, type[AgentosError]] = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, AgentosError)
}


class Fault(msgspec.Struct, frozen=True):
    """An error as it goes over the socket; attributes are those that have a plain form."""

    name: str
    words: str
    attributes: dict[str, Any] = {}


def fault_of(error: Exception) -> Fault:
    if not isinstance(error, AgentosError):
        _log.error("a request of the control socket failed: %s", type(error).__name__, exc_info=error)
        return Fault("ControlRefused", f"a fault of the kernel ({type(error).__name__}); its log says more")
    name = next(type_.__name__ for type_ in type(error).__mro__ if REGISTRY.get(type_.__name__) is type_)
    attributes = {key: value for key, value in vars(error).items() if _is_plain(value) and not key.startswith("_")}
    return Fault(name, str(error), attributes)


def error_of(fault: Fault) -> AgentosError:
    """The same error on the other side. A class that this program does not know, of a newer one, is a ControlRefused."""
    type_ = REGISTRY.get(fault.name, ControlRefused)
    error = type_.__new__(type_)
    error.args = (fault.words,)
    for key, value in fault.attributes.items():
        if key.isidentifier() and not key.startswith("_"):
            vars(error)[key] = value
    return error


def fault_from(plain: Any) -> Fault:
    """Raises CodecError."""
    try:
        return msgspec.convert(plain, Fault)
    except msgspec.ValidationError as error:
        raise CodecError(f"an error of the kernel cannot be read: {error}") from error


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(inner, str) for inner in value)
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))

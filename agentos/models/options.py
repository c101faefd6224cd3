"""What may be said of a model beside its name: one set of options for all providers.

An adapter turns an option into its provider's words; one that its provider cannot take is refused when the model is made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from agentos.components import ModelRef
from agentos.errors import ConfigurationError
from agentos.resources.kinds.http_pool import HttpLimits
from agentos.secrets import check_reference, is_reference

Positive = Annotated[int, msgspec.Meta(ge=1)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whether the model thinks before it answers, and how much: in tokens or in a word, whichever the provider takes."""

    enabled: bool = True
    budget_tokens: Positive | None = None
    effort: Effort | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The form of an answer: any text, some JSON object, or JSON that fits a schema."""

    type: Literal["text", "json_object", "json_schema"]
    name: str = "answer"
    schema: dict[str, Any] | None = None
    strict: bool = True


class GenerationOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `model: {kind, name, options}` of an agent may hold, for a model that is reached over HTTP.

    api_key is a reference to a secret. Values of headers may be references too, and those of the names in SECRET_HEADERS
    have to be. tool_choice is auto, none, required, or the name of a tool. extra_body is sent as it is, beside what the
    adapter says. timeouts changes single limits of HttpLimits.
    """

    base_url: str | None = None
    api_key: str | None = None
    flavor: str | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    max_tokens: Positive | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] = ()
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    thinking: Thinking | None = None
    stream: bool = True
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    timeouts: HttpLimits = HttpLimits()

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else self.stop


SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
RESERVED_HEADERS = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
RESERVED_BODY = frozenset({"model", "messages", "tools", "stream"})
"""What extra_body may not replace: the adapter relies on its own."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_SHORT: dict[str, Callable[[Any], Any]] = {
    "thinking": lambda value: {"enabled": value} if isinstance(value, bool) else value,
    "response_format": lambda value: {"type": value} if isinstance(value, str) else value,
}
"""Options that may be said in one word."""


def options_of(ref: ModelRef) -> GenerationOptions:
    """Decodes and checks the options of a model reference.

    Errors: ConfigurationError naming the option, with near names for an unknown one; it never shows a value that may be
    a secret.
    """
    given = dict(ref.options)
    place = f"model {ref.kind}:{ref.name}" if ref.name else f"a model of kind {ref.kind!r}"
    _check_names(place, given)
    _check_secrets(place, given)
    for name, whole in _SHORT.items():
        if name in given:
            given[name] = whole(given[name])
    try:
        options = msgspec.convert(given, GenerationOptions)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {_in_words(error)}") from error
    _check_body(place, options)
    return options


def _check_names(place: str, given: Mapping[str, Any]) -> None:
    known = GenerationOptions.__struct_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 2, 0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else f"options: {', '.join(known)}"
            raise ConfigurationError(f"{place} has no option {name!r}; {hint}")


def _check_secrets(place: str, given: Mapping[str, Any]) -> None:
    """Before anything that could show a value: a secret that stands in the file itself is refused."""
    if given.get("api_key") is not None:
        check_reference(given["api_key"], f"{place}: option 'api_key'")
    headers = given.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if not _HEADER_NAME.fullmatch(str(name)) or str(name).lower() in RESERVED_HEADERS:
            raise ConfigurationError(f"{place}: header {name!r} cannot be set")
        if str(name).lower() in SECRET_HEADERS:
            check_reference(value, f"{place}: header {name!r}")
        elif not isinstance(value, str) or not (is_reference(value) or _fits_header(value)):
            raise ConfigurationError(f"{place}: the value of header {name!r} is no text that a header may carry")


def _fits_header(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _check_body(place: str, options: GenerationOptions) -> None:
    for name in options.extra_body:
        if name in RESERVED_BODY:
            raise ConfigurationError(f"{place}: extra_body may not hold {name!r}, which agentos says itself")
    form = options.response_format
    if form is not None and (form.type == "json_schema") != (form.schema is not None):
        raise ConfigurationError(f"{place}: response_format needs a 'schema' for json_schema, and for nothing else")
    budget = options.thinking.budget_tokens if options.thinking is not None else None
    if budget is not None and options.max_tokens is not None and budget >= options.max_tokens:
        raise ConfigurationError(
            f"{place}: thinking.budget_tokens ({budget}) has to be less than max_tokens ({options.max_tokens}), "
            "which counts the answer too"
        )


def _in_words(error: msgspec.ValidationError) -> str:
    """msgspec names the place as `$.top_p`; here it is the option's name."""
    what, _, where = str(error).partition(" - at `$.")
    return f"option {where.rstrip('`')!r}: {what}" if where else what

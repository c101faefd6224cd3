"""An independent judge of Chat Completions requests, written from the rules of the API and not from our adapter.

    assert problems_of_request(body) == []

It refuses what the API refuses, in like words, and a little more: empty text, which other providers refuse, and the
same id for two calls. Servers of the same API that know more are met with `extra_keys`, those that want less with
`system_first`. Nothing here is shared with agentos.models.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agentos.testing.chat_message_rules import message_refusals
from agentos.testing.chat_refusal import Refusal, Refusals, bad_number, invalid, missing, wrong_type
from agentos.testing.chat_tool_rules import tool_refusals

CHOICES_MAX = 128
STOPS_MAX = 4
METADATA_PAIRS_MAX, METADATA_KEY_CHARS_MAX, METADATA_VALUE_CHARS_MAX = 16, 64, 512

_KEYS = """
    messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
    metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options
"""
KEYS = frozenset(_KEYS.split())

_NUMBERS: dict[str, tuple[float | None, float | None, bool]] = {
    "temperature": (0, 2, False),
    "top_p": (0, 1, False),
    "frequency_penalty": (-2, 2, False),
    "presence_penalty": (-2, 2, False),
    "n": (1, CHOICES_MAX, True),
    "max_tokens": (1, None, True),
    "max_completion_tokens": (1, None, True),
    "top_logprobs": (0, 20, True),
    "seed": (-(2**63), 2**63 - 1, True),
}
_BOOLEANS = ("stream", "logprobs", "store")
_STRINGS = ("user", "prompt_cache_key", "safety_identifier")
_WORDS = {
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "service_tier": ("auto", "default", "flex", "scale", "priority", "fast"),
    "verbosity": ("low", "medium", "high"),
}


def problems_of_request(body: object, *, extra_keys: Collection[str] = (), system_first: bool = False) -> list[str]:
    """What is wrong with the decoded body of a request, as sentences that begin with the place; empty when nothing is."""
    return [str(refusal) for refusal in refusals_of_request(body, extra_keys=extra_keys, system_first=system_first)]


def refusals_of_request(body: object, *, extra_keys: Collection[str] = (), system_first: bool = False) -> list[Refusal]:
    """All that is wrong with a request; the API itself would tell the first.

    extra_keys: names that are allowed beyond those of the API, in the body and in messages (`reasoning_content`).
    system_first: refuse a system message that stands after others, as many servers of open models do.
    """
    if not isinstance(body, dict):
        return [Refusal(None, "The body of the request must be a JSON object.", "invalid_type")]
    return [
        *_keys(body, extra_keys),
        *_model(body),
        *_values(body),
        *_together(body),
        *_stop(body),
        *_metadata(body),
        *_response_format(body),
        *(message_refusals(body["messages"], extra_keys, system_first) if "messages" in body else ()),
        *tool_refusals(body),
    ]


def _keys(body: dict[str, Any], extra_keys: Collection[str]) -> Refusals:
    for key in body:
        if key not in KEYS and key not in extra_keys:
            yield Refusal(key, f"Unrecognized request argument supplied: {key}", "unknown_parameter")
    if "messages" not in body:
        yield missing("messages")


def _model(body: dict[str, Any]) -> Refusals:
    if "model" not in body:
        yield missing("model")
    elif not isinstance(body["model"], str):
        yield wrong_type("model", "a string", body["model"])
    elif not body["model"]:
        yield invalid("model", "empty string; you must provide a model parameter", "empty_string")


def _values(body: dict[str, Any]) -> Refusals:
    """Each value by itself; null is as good as left out."""
    given = {key: value for key, value in body.items() if value is not None}
    for key in given.keys() & _NUMBERS.keys():
        low, high, whole = _NUMBERS[key]
        yield from bad_number(given[key], key, low, high, whole=whole)
    for key in _BOOLEANS:
        if not isinstance(given.get(key, False), bool):
            yield wrong_type(key, "a boolean", given[key])
    for key in _STRINGS:
        if not isinstance(given.get(key, ""), str):
            yield wrong_type(key, "a string", given[key])
    for key, words in _WORDS.items():
        if key in given and given[key] not in words:
            yield invalid(key, f"{given[key]!r}; supported values are: {', '.join(map(repr, words))}")
    bias = given.get("logit_bias", {})
    if not isinstance(bias, dict):
        yield wrong_type("logit_bias", "an object", bias)
    else:
        for token, value in bias.items():
            yield from bad_number(value, f"logit_bias.{token}", -100, 100)


def _together(body: dict[str, Any]) -> Refusals:
    """Values that need or exclude one another."""
    options = body.get("stream_options")
    if options is not None:
        if body.get("stream") is not True:
            yield invalid("stream_options", "it is only allowed when 'stream' is enabled")
        if not isinstance(options, dict):
            yield wrong_type("stream_options", "an object", options)
        else:
            for key, value in options.items():
                if key not in ("include_usage", "include_obfuscation"):
                    where = f"stream_options.{key}"
                    yield Refusal(where, f"Unknown parameter: '{where}'.", "unknown_parameter")
                elif not isinstance(value, bool):
                    yield wrong_type(f"stream_options.{key}", "a boolean", value)
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        yield invalid(
            "max_tokens", "setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported"
        )
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        yield invalid("top_logprobs", "it is only allowed when 'logprobs' is enabled")


def _stop(body: dict[str, Any]) -> Refusals:
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if stops is None:
        return
    if not isinstance(stops, list):
        yield wrong_type("stop", "a string or an array of strings", stop)
        return
    if len(stops) > STOPS_MAX:
        yield invalid("stop", f"array too long; {STOPS_MAX} sequences at most", "array_above_max_length")
    for n, one in enumerate(stops):
        where = f"stop[{n}]" if isinstance(stop, list) else "stop"
        if not isinstance(one, str):
            yield wrong_type(where, "a string", one)
        elif not one:
            yield invalid(where, "empty string; a sequence has 1 character or more", "empty_string")


def _metadata(body: dict[str, Any]) -> Refusals:
    metadata = body.get("metadata")
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        yield wrong_type("metadata", "an object", metadata)
        return
    if len(metadata) > METADATA_PAIRS_MAX:
        yield invalid("metadata", f"{METADATA_PAIRS_MAX} pairs at most", "object_above_max_properties")
    for key, value in metadata.items():
        where = f"metadata.{key}"
        if not isinstance(value, str):
            yield wrong_type(where, "a string", value)
        elif len(value) > METADATA_VALUE_CHARS_MAX or len(key) > METADATA_KEY_CHARS_MAX:
            why = f"a key has {METADATA_KEY_CHARS_MAX} characters at most, a value {METADATA_VALUE_CHARS_MAX}"
            yield invalid(where, why, "string_above_max_length")


def _response_format(body: dict[str, Any]) -> Refusals:
    form = body.get("response_format")
    if form is None:
        return
    kind = form.get("type") if isinstance(form, dict) else None
    if not isinstance(form, dict):
        yield wrong_type("response_format", "an object", form)
    elif kind not in ("text", "json_object", "json_schema"):
        known = "'text', 'json_object', 'json_schema'"
        yield invalid("response_format.type", f"{kind!r}; supported values are: {known}")
    elif kind == "json_schema" and not isinstance(form.get("json_schema"), dict):
        yield missing("response_format.json_schema")

"""Chat Completions of OpenAI, and of every server that speaks it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.components import ModelRef
from agentos.errors import ConfigurationError, ModelError
from agentos.events.model import ModelReply, ModelRequest
from agentos.models.base import OnDelta
from agentos.models.base_url import BaseUrl, base_url_of
from agentos.models.credentials import Credentials, KeyUse
from agentos.models.openai_chat.errors import status_error, stream_error
from agentos.models.openai_chat.flavors import Flavor, flavor_of
from agentos.models.openai_chat.request import chat_request, encoded, thinking_budget
from agentos.models.openai_chat.stream import ChatAssembler
from agentos.models.options import GenerationOptions, options_of
from agentos.resources.kinds.http_pool.client import Answer, HttpFailed, HttpPool, Transport
from agentos.secrets import KeyFiles

BASE_URL = "https://api.openai.com/v1"
PATH = "/chat/completions"
URL_VARIABLE, KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"
DONE = "[DONE]"

_KINDS = {"too_large": "invalid_request", "not_utf8": "cut", "invalid": "invalid_request"}


class OpenAIChat:
    """One model at one address. It serves many requests at once, retries nothing, and keeps nothing between them.

    ref names the model and its options (`GenerationOptions`). base_url replaces that of the options; without either, the
    environment's OPENAI_BASE_URL counts, else OpenAI's own. A key that no option names is taken from OPENAI_API_KEY, but
    never sent to an address that the options alone name, unless that is this machine.
    Errors: ConfigurationError for an unknown option or flavor, or for options that do not go together.
    """

    def __init__(
        self,
        ref: ModelRef,
        *,
        base: Path | None = None,
        keys: KeyFiles | None = None,
        base_url: str | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        transport: Transport | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.model = ref.name
        self._place = f"model {ref.kind}:{ref.name}"
        if not ref.name:
            raise ConfigurationError(f"a model of kind {ref.kind!r} needs a name, as in {ref.kind}:gpt-4.1-mini")
        self._options = options_of(ref)
        self._url, key = _address(self._options, base_url, environ, self._place)
        self._flavor = _suited(flavor_of(self._options.flavor), self._options, self._url, self._place)
        self._clock = clock or SystemClock()
        keys = keys if keys is not None else KeyFiles().with_defaults()
        self._credentials = Credentials(key, self._options.headers, self._url, keys, base, environ)
        self._http = HttpPool(self._options.timeouts, transport)

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """A whole reply; pieces of its text go to on_delta as they come. Raises ModelError."""
        chat = chat_request(request, self.model, self._options, self._flavor)
        headers = {"content-type": "application/json", **await self._credentials.headers()}
        assembler = ChatAssembler(chat.names, self._flavor, on_delta)
        try:
            await self._ask(encoded(chat.body), headers, assembler)
            return assembler.reply()
        except ModelError as error:
            words = self._credentials.hidden_in(f"{self._url.host}: {error}")
            raise ModelError(error.kind, words, retry_after_s=error.retry_after_s, text=error.text) from error

    async def close(self) -> None:
        await self._http.close()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r} at {self._url.host})"

    async def _ask(self, body: bytes, headers: Mapping[str, str], assembler: ChatAssembler) -> None:
        """Sends a request, and feeds the answer to the assembler; what fails after its finish takes nothing from it."""
        limits = self._options.timeouts
        idle_s = limits.idle_s if self._options.stream else limits.whole_s
        try:
            async with self._http.request("POST", self._url.joined(PATH), body, headers, idle_s=idle_s) as answer:
                await self._read(answer, assembler)
        except HttpFailed as error:
            if not assembler.finished:
                kind = _KINDS.get(error.kind, error.kind)
                raise ModelError(kind, str(error), text=assembler.text_so_far) from error

    async def _read(self, answer: Answer, assembler: ChatAssembler) -> None:
        """Feeds what came to the assembler. Raises ModelError for an error, HttpFailed for what is cut."""
        if not 200 <= answer.status < 300:
            if answer.status == 401:
                self._credentials.forget()
            body = await answer.error_body()
            raise status_error(answer.status, answer.headers, body, self._clock.now())
        if answer.content_type == "text/event-stream" or (self._options.stream and answer.content_type not in _WHOLE):
            await self._read_events(answer, assembler)
        else:
            self._add_whole(await answer.text(), answer.content_type, assembler)

    async def _read_events(self, answer: Answer, assembler: ChatAssembler) -> None:
        """To the end of the stream, so that the connection can be used again; after the finish for tail_s at most."""
        done = False
        loop, tail_s = asyncio.get_running_loop(), self._options.timeouts.tail_s
        try:
            async with asyncio.timeout(None) as limit, aclosing(answer.events()) as events:
                async for data in events:
                    done = done or data.strip() == DONE or not self._add_event(data, assembler)
                    if limit.when() is None and (done or assembler.finished):
                        limit.reschedule(loop.time() + tail_s)
        except TimeoutError:
            return  # the answer is whole; only the connection is lost for the next request

    def _add_event(self, data: str, assembler: ChatAssembler) -> bool:
        """False for what is no event any more after a finish; before it, that is a cut."""
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            if assembler.finished:
                return False
            raise ModelError("cut", "an event of the answer is no JSON", text=assembler.text_so_far) from error
        if isinstance(chunk, dict):
            self._add(chunk, assembler)
        return True

    def _add_whole(self, text: str, content_type: str, assembler: ChatAssembler) -> None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            if content_type == "application/json":
                raise ModelError("cut", "the answer is no JSON") from error
            what = content_type or "no content type"
            raise ModelError(
                "invalid_request", f"this is no answer of a chat API ({what}); is base_url right?"
            ) from error
        if not isinstance(value, dict):
            raise ModelError("unavailable", "the answer is no JSON object")
        self._add(value, assembler)
        if not value.get("choices"):
            raise ModelError("unavailable", "the answer has no choices")

    def _add(self, chunk: dict[str, Any], assembler: ChatAssembler) -> None:
        error = stream_error(chunk, self._clock.now())
        if error is not None and not assembler.finished:
            error.text = assembler.text_so_far
            raise error
        assembler.add(chunk)


_WHOLE = frozenset({"application/json", "text/html"})


def _address(
    options: GenerationOptions, base_url: str | None, environ: Mapping[str, str], place: str
) -> tuple[BaseUrl, KeyUse]:
    """Where requests go, and which key may go there."""
    from_user = base_url or (None if options.base_url else environ.get(URL_VARIABLE, "").strip() or None)
    url = base_url_of(from_user or options.base_url or BASE_URL, place)
    is_openai = url.secure and f".{url.host}".endswith(".api.openai.com")
    trusted = from_user is not None or is_openai or url.loopback
    key = KeyUse(reference=options.api_key, variable=KEY_VARIABLE if trusted else None, needed=is_openai)
    return url, key


def _suited(flavor: Flavor, options: GenerationOptions, url: BaseUrl, place: str) -> Flavor:
    """The flavor at this address. Raises ConfigurationError for an option that it does not take."""
    if options.thinking is not None and flavor.thinking == "none":
        raise ConfigurationError(f"{place}: flavor {flavor.name} takes no option 'thinking'; extra_body may say it")
    budget, most = thinking_budget(options.thinking, flavor), options.max_tokens
    if budget is not None and most is not None and budget >= most:
        raise ConfigurationError(
            f"{place}: flavor {flavor.name} thinks with {budget} tokens, which has to be less than max_tokens ({most}); "
            "say thinking: {budget_tokens: N} or thinking: false"
        )
    if url.host.endswith(".openai.com"):  # its newer models refuse the older name, which all other servers know
        return msgspec.structs.replace(flavor, limit_name="max_completion_tokens")
    return flavor

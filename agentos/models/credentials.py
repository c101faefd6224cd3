"""What proves to a provider who asks: headers made from references, held for as long as they work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentos.errors import ConfigurationError, ModelError
from agentos.models.base_url import BaseUrl
from agentos.secrets import KeyFiles, KeyUnknown, Secret, is_reference, resolve_secret


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Where a key comes from: the reference of the agent, or else a variable of the environment.

    variable is None where the environment's key has nothing to do: a foreign address that the agent's file alone names
    does not get it. needed: without a key nothing is sent.
    """

    reference: str | None
    variable: str | None
    needed: bool


class Credentials:
    """Resolved at the first request, since a reference may have to run a program; resolved anew after `forget`."""

    def __init__(
        self,
        key: KeyUse,
        headers: Mapping[str, str],
        url: BaseUrl,
        keys: KeyFiles,
        base: Path | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._key, self._given, self._url, self._keys, self._base = key, headers, url, keys, base
        self._environ = os.environ if environ is None else environ
        self._headers: dict[str, Secret] | None = None
        self._told: list[Secret] = []
        self._lock = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """The headers that go with a request. Raises ModelError(auth) naming the reference that cannot be resolved."""
        async with self._lock:
            if self._headers is None:
                try:
                    self._headers = await asyncio.to_thread(self._resolved)
                except ConfigurationError as error:
                    raise ModelError("auth", f"{self._url.host}: nothing was sent: {error}") from error
        return {name: value.reveal() for name, value in self._headers.items()}

    def forget(self) -> None:
        """The provider refused them: the next request looks for new ones."""
        self._headers = None

    def hidden_in(self, text: str) -> str:
        """The text with every secret covered that was ever sent from here."""
        for secret in self._told:
            text = secret.hidden_in(text)
        return text

    def _resolved(self) -> dict[str, Secret]:
        key = self._resolved_key()
        headers = {"authorization": Secret(f"Bearer {key.reveal()}")} if key is not None else {}
        for name, value in self._given.items():
            headers[name.lower()] = self._secret(value) if is_reference(value) else Secret(value)
        return headers

    def _resolved_key(self) -> Secret | None:
        key = self._key
        if key.reference is not None:
            return self._secret_or_none(key.reference)
        value = (self._environ.get(key.variable) or "").strip() if key.variable is not None else ""
        if value:
            return self._secret(f"env:{key.variable}")
        if key.needed:
            raise ConfigurationError(
                f"no key: set {key.variable}, or give the model an api_key such as key:ID or env:NAME"
            )
        return None

    def _secret_or_none(self, reference: str) -> Secret | None:
        """A server on this machine mostly asks for no key, and agent files name one all the same."""
        try:
            return self._secret(reference)
        except KeyUnknown:
            if self._url.loopback:
                return None
            raise

    def _secret(self, reference: str) -> Secret:
        secret = resolve_secret(reference, base=self._base, keys=self._keys, environ=self._environ)
        if secret not in self._told:
            self._told.append(secret)
        return secret

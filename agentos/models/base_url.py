"""The address of a provider: checked, and told in parts."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit, urlunsplit

import msgspec

from agentos.errors import ConfigurationError


class BaseUrl(msgspec.Struct, frozen=True):
    """url as it is joined to paths; host with its port if one is written; secure when it is https; loopback when it is
    this machine."""

    url: str
    host: str
    secure: bool
    loopback: bool

    def joined(self, path: str) -> str:
        """The address of something under it; its query stays, and a path that is there already is not doubled."""
        parts = urlsplit(self.url)
        whole = parts.path.rstrip("/")
        whole = whole if whole.endswith(path) else whole + path
        return urlunsplit(parts._replace(path=whole))


def base_url_of(text: str, place: str) -> BaseUrl:
    """Raises ConfigurationError naming the place; a password in the address is refused without being shown."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"{place}: base_url is no address") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{place}: base_url holds a user or a password; give them as api_key or in headers")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"{place}: base_url {text!r} is no http:// or https:// address")
    named = host if port is None else f"{host}:{port}"
    plain = urlunsplit(parts._replace(fragment=""))
    return BaseUrl(plain, named, parts.scheme == "https", is_loopback(host))


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

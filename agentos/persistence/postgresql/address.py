"""Where a store lies in PostgreSQL: what its URL says, and what of that may be shown."""

from __future__ import annotations

import re
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from agentos.errors import ConfigurationError
from agentos.persistence.base import Durability

FORM = "postgresql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?schema=NAME&durability=full|normal|relaxed]"
SCHEMES = ("postgresql", "postgres")
HIDDEN = "postgresql://..."
"""Shown in place of a URL that cannot be taken apart."""
PORT_MAX = 65_535
APPLICATION = "agentos"
"""The application_name of a URL that names none: what the server calls these sessions."""
SCHEMA = "agentos"
"""The schema (namespace) of a URL that names none."""

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_SECRETS = frozenset({"password", "sslpassword"})
_PASSED_ON = frozenset(
    {
        "application_name",
        "database",
        "dbname",
        "gsslib",
        "host",
        "krbsrvname",
        "passfile",
        "port",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "target_session_attrs",
        "user",
    }
)
"""Options of libpq that the driver knows."""


class Address:
    """A parsed URL. `url` is for people: it never holds a password. `dsn` does, and is for the driver alone."""

    __slots__ = ("application", "database", "dsn", "durability", "schema", "url")

    def __init__(self, url: str) -> None:
        """Raises ConfigurationError, which does not repeat a password either."""
        self.url = HIDDEN
        scheme, _, rest = url.partition(":")
        if scheme not in SCHEMES:
            self._refuse("no such kind of store")
        if not rest.startswith("//"):
            self._refuse("two slashes come before the user and the host")
        if set("/?#") & set(rest[2:].rpartition("@")[0]):
            self._refuse("a '/', '?', '#' or '@' in a name, password or option is written %2F, %3F, %23 or %40")
        parts = self._split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._check(parts, options)
        self.url = _shown(parts, options)
        own = {name: options.pop(name) for name in ("schema", "durability") if name in options}
        self._check_options(options)
        self.database = unquote(parts.path.lstrip("/")) or options.get("dbname") or options.get("database") or ""
        if not self.database:
            self._refuse("the database is missing")
        self.application = options.get("application_name", APPLICATION)
        self.schema = own.get("schema", SCHEMA)
        if not _SCHEMA_NAME.fullmatch(self.schema):
            self._refuse(f"{self.schema!r} is no name of a schema: lower-case letters, digits and _, at most 48")
        self.durability = self._durability(own.get("durability", Durability.FULL.value))
        self.dsn = _joined(parts.netloc, parts.path, urlencode(options))

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    def _split(self, url: str) -> SplitResult:
        try:
            return urlsplit(url)
        except ValueError:
            self._refuse("an address in brackets is not closed, or none of IPv6")

    def _check(self, parts: SplitResult, options: dict[str, str]) -> None:
        """Whether it can be taken apart, so that it is known what of it is secret."""
        ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
        ports += options.get("port", "").split(",")
        if not all(port.isdecimal() and 0 < int(port) <= PORT_MAX for port in ports if port) or parts.fragment:
            self._refuse(f"a port is a number up to {PORT_MAX}, and nothing follows a '#'")

    def _check_options(self, options: dict[str, str]) -> None:
        if unknown := sorted(options.keys() - _PASSED_ON - _SECRETS):
            known = ", ".join(("schema", "durability", *sorted(_PASSED_ON)))
            self._refuse(f"no option {', '.join(map(repr, unknown))}; there are {known}")

    def _durability(self, name: str) -> Durability:
        try:
            return Durability(name)
        except ValueError:
            self._refuse(f"no durability {name!r}; there are {', '.join(known.value for known in Durability)}")

    def _refuse(self, reason: str) -> NoReturn:
        raise ConfigurationError(f"store {self.url!r}: {reason}. Known form: {FORM}")


def _shown(parts: SplitResult, options: dict[str, str]) -> str:
    """The URL without what is secret, wherever it stands."""
    account, at, hosts = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    shown = {name: value for name, value in options.items() if name.lower() not in _SECRETS}
    return _joined(f"{user}{at}{hosts}", parts.path, urlencode(shown, safe="/", quote_via=quote))


def _joined(place: str, path: str, options: str) -> str:
    return f"postgresql://{place}{path}" + (f"?{options}" if options else "")

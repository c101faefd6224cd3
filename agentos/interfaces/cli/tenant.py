"""The option that says on whose account a conversation is begun."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from agentos.interfaces.cli.errors import UsageError

Tenant = Annotated[str | None, Parameter(name="--tenant")]


def check_tenant(tenant: str | None, *, begins: bool) -> None:
    """Raises UsageError for one that is given where no conversation is begun."""
    if tenant is not None and not begins:
        raise UsageError("a conversation keeps the tenant that it began with; leave out --tenant")

"""renice: how much of what many wait for falls to an agent, or to a tenant."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from agentos.codec import convert, decode_json
from agentos.components import Shares
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say
from agentos.interfaces.cli.running import all_running, answers
from agentos.kernel import Kernel
from agentos.kernel.client import Operator
from agentos.kernel.reading import reading


async def renice(
    name: str | None = None,
    weight: float | None = None,
    /,
    *,
    tenant: Annotated[bool, Parameter(name="--tenant", negative="")] = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Give an agent or a tenant another weight where many wait; without one, list the weights.

    Everybody has 1. It counts at once in every process that runs on the store, and in those that come after.

    Parameters
    ----------
    name
        the slug of an agent, or with --tenant the name of a tenant
    weight
        between 0.001 and 1000; one with 2 comes in twice as often as one with 1
    tenant
        the name is that of a tenant
    json
        print one JSON object: all weights that somebody has given
    """
    if name is not None and weight is None:
        raise UsageError(f"say a weight after {name}")
    url = here.store_url()
    async with all_running(url) as kernels:
        said = [pair async for pair in answers(kernels, lambda kernel: _given(kernel, name, weight, tenant=tenant))]
        seen = [shares async for _, shares in answers([kernel for kernel, _ in said], lambda kernel: kernel.shares())]
    stored, shares = [is_stored for _, is_stored in said], seen[0] if seen else None
    if name is None and shares is None:
        shares = await _stored(url)
    elif not any(stored):
        async with Kernel(url) as kernel:
            stored.append(await _given(kernel, name, weight, tenant=tenant))
            shares = await kernel.shares()
    _tell(shares or Shares(), json=json)
    if not any(stored) and name is not None:
        say("warning: another process keeps the weights of this store and does not answer; it has the old ones")
        return Exit.FAILURE
    return Exit.OK


async def _given(kernel: Operator, name: str | None, weight: float | None, *, tenant: bool) -> bool:
    """Whether it is stored, or there is nothing to store."""
    return name is None or weight is None or await kernel.renice(name, weight, tenant=tenant)


async def _stored(url: str) -> Shares | None:
    """Those that the next kernel has, by the store alone."""
    async with reading(url) as store:
        found = (await store.query("select body from components where type = 'shares'")).rows
    return convert(decode_json(str(found[0][0])), Shares) if found else None


def _tell(shares: Shares, *, json: bool) -> None:
    agents, tenants = ({share.name: share.weight for share in some} for some in (shares.agents, shares.tenants))
    if json:
        put_json({"agents": agents, "tenants": tenants})
        return
    for what, weights in (("agent", agents), ("tenant", tenants)):
        for name, weight in weights.items():
            put(f"{what:<7} {name:<40} {weight:g}")
    if not agents and not tenants:
        say("nobody has another weight than 1")

"""lineage: the tree of calls below a conversation, turn or call, through all subagents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from agentos.history import lineage_of, render_tree
from agentos.interfaces.cli.finding import find_place
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json
from agentos.kernel.reading import reading


async def lineage(
    id_: Annotated[str, Parameter(name="ID")],
    /,
    *,
    json: Flag = False,
    here: Here,
) -> None:
    """Print the tree of turns, steps, calls and child conversations with status, milliseconds and tokens.

    Parameters
    ----------
    id_
        a conversation by its id or a part of it, or the id of a turn or call
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        place = await find_place(store, id_)
        tree = await lineage_of(store.store, id_ if place.seq else place.conversation)
    if json:
        put_json(msgspec.to_builtins(tree))
    else:
        put(render_tree(tree))

"""diff: two conversations side by side, from the first thing on that they do not have in common."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from agentos.history import Act, Parting, Side, parting_of
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation, short
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import cell, clipped, put, put_json, put_table
from agentos.kernel.reading import reading

ACT_SHOWN = 56
FACTS = ("outcome", "steps", "calls", "input_tokens", "output_tokens", "ms")


async def diff(
    a: Annotated[str, Parameter(name="A")],
    b: Annotated[str, Parameter(name="B")],
    /,
    *,
    json: Flag = False,
    here: Here,
) -> int:
    """Show two conversations side by side, from the first thing on that they do not have in common.

    Entries that both share, as forks do, are told by their number; what was said and done alike behind them, too. Then come
    inputs, replies, calls, results and ends of both, what each took, and how their components differ. Exit code 0 when
    both said and did the same, 1 when they part.

    Parameters
    ----------
    a
        a conversation by its id, or a part of it that no other has
    b
        another one
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        logs = [await find_conversation(store, text) for text in (a, b)]
        parting = await parting_of(store.store, *logs)
    if json:
        put_json(as_object(parting))
    else:
        put_parting(parting)
    return Exit.OK if parting.same else Exit.FAILURE


def as_object(parting: Parting) -> dict[str, Any]:
    return {
        "same": parting.same,
        "shared": parting.shared,
        "common": parting.common,
        "a": side_object(parting.a),
        "b": side_object(parting.b),
        "pairs": [{"a": _act_object(left), "b": _act_object(right)} for left, right in parting.pairs],
        "components": {path: {"a": left, "b": right} for path, (left, right) in parting.components.items()},
    }


def side_object(side: Side) -> dict[str, Any]:
    facts = {name: getattr(side, name) for name in FACTS}
    return {"conversation": side.conversation, **facts, "answer": side.answer}


def act_line(act: Act | None) -> str:
    """An input, reply, call, result or end in a few words."""
    if act is None:
        return "-"
    words = [f"{act.seq}", act.what, act.name, cell(act.text)]
    return clipped(" ".join(word for word in words if word), ACT_SHOWN)


def _act_object(act: Act | None) -> dict[str, Any] | None:
    return None if act is None else {"seq": act.seq, "what": act.what, "name": act.name, "text": act.text}


def put_parting(parting: Parting) -> None:
    if parting.a.conversation == parting.b.conversation:
        put(f"both are {parting.a.conversation}")
        return
    shared = f"entries 1 to {parting.shared} are shared" if parting.shared else "no entry is shared"
    put(f"{shared}; behind that {parting.common} acts are alike")
    names = [str(short(side.conversation)) for side in (parting.a, parting.b)]
    if parting.pairs:
        put()
        put_table(names, [[act_line(left), act_line(right)] for left, right in parting.pairs])
    put()
    put_table(("behind that", *names), [[fact, *_facts(parting, fact)] for fact in FACTS])
    if parting.components:
        put()
        rows = [[path, *(clipped(body_text(value), ACT_SHOWN) for value in pair)] for path, pair in _paths(parting)]
        put_table(("component", *names), rows)


def _facts(parting: Parting, name: str) -> list[str]:
    values = [getattr(side, name) for side in (parting.a, parting.b)]
    return [f"{value:.0f}" if isinstance(value, float) else str(value) for value in values]


def _paths(parting: Parting) -> list[tuple[str, tuple[Any, Any]]]:
    return sorted(parting.components.items())

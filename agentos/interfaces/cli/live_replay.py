"""replay --with-model: a conversation run anew in a fork, with a gate before its calls, and compared with the original."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.history import Parting, parting_of
from agentos.history.live.gate import RecordGate, Ruled, Tools
from agentos.history.live.record import Begin, Record, begin_of, record_of
from agentos.history.live.running import Live, run_live
from agentos.history.reading import conversation_row
from agentos.interfaces.cli.diff import as_object, put_parting
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.interrupts import Interrupts
from agentos.interfaces.cli.invocation import Flag, Invocation
from agentos.interfaces.cli.output import counted, is_terminal, put, put_json, put_table, say
from agentos.interfaces.cli.run import as_object as outcome_object
from agentos.interfaces.cli.run import line_of
from agentos.interfaces.cli.terminal_approval import TerminalApproval
from agentos.interfaces.cli.waiting import wait_for
from agentos.interfaces.cli.workplace import Network, Selection, Workplace, opened
from agentos.kernel import Fork, Kernel, RunOutcome
from agentos.kernel.reading import reading

Turn = Coroutine[Any, Any, RunOutcome | None]
WORDS = {
    "recorded": "given from the record",
    "denied": "denied: not in the record",
    "run": "run: not in the record",
    "asked": "asked about: not in the record",
}


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How a conversation is run anew."""

    with_model: Annotated[
        tuple[str, ...] | None,
        Parameter(
            negative="",
            consume_multiple=(0, 1),
            metavar="[MODEL]",
            help="run it anew in a fork, asking the model: that of its agent as it is now, or the one named here",
        ),
    ] = None
    with_tools: Annotated[Flag, Parameter(help="run calls that the record does not have")] = False
    at: Annotated[int | None, Parameter(help="from the last model request by the entry of this seq on")] = None
    turn: Annotated[int | None, Parameter(validator=Number(gte=1), help="from this turn on, counted from 1")] = None
    yes: Annotated[Flag, Parameter(help="allow what --with-tools would ask about")] = False

    @property
    def asked(self) -> bool:
        return self.with_model is not None

    @property
    def model(self) -> str | None:
        return self.with_model[0] if self.with_model else None

    @property
    def tools(self) -> Tools:
        """Whoever is asked sits at the terminal that stdin and stderr are."""
        if not self.with_tools:
            return Tools.NONE
        if self.yes:
            return Tools.ALL
        return Tools.ASK if is_terminal(sys.stdin) and is_terminal(sys.stderr) else Tools.PURE


def check_live(options: LiveOptions, network: Network | None, conversation: str | None, *, others: bool) -> None:
    """Raises UsageError for options that do not go together."""
    needs_model = {
        "--with-tools": options.with_tools,
        "--at": options.at is not None,
        "--turn": options.turn is not None,
        "--yes": options.yes,
        "--base-url or --api-keys": network is not None,
    }
    given = next((name for name, is_given in needs_model.items() if is_given), None)
    if not options.asked:
        if given is not None:
            raise UsageError(f"{given} is for --with-model; nothing is called without it")
        return
    if conversation is None:
        raise UsageError("--with-model is for one conversation; say which: agentos replay ID --with-model [MODEL]")
    if others:
        raise UsageError("--with-model runs one conversation anew; leave out --children and --against")
    if options.at is not None and options.turn is not None:
        raise UsageError("--at and --turn both say where to begin; leave out one of them")
    if options.yes and not options.with_tools:
        raise UsageError("--yes is for --with-tools; without it no tool runs")


async def replay_live(
    conversation: str, options: LiveOptions, network: Network | None, *, json: bool, here: Invocation
) -> int:
    """Errors: ReplayRefused, UnknownConversation, UnknownAgent, ConfigurationError, StoreError."""
    work = Workplace.of(here, Selection.on(network))
    log, begin, record = await _read(work.url, conversation, options)
    gate = RecordGate(record, options.tools)
    attended = _Attended(stay=options.tools is Tools.ASK)
    async with opened(work, hooks=[gate], approval=gate.approval(TerminalApproval())) as kernel:
        attended.kernel = kernel
        live = await run_live(kernel, log, begin, record, gate, model=options.model, waited=attended.wait)
        parting = await parting_of(kernel.store, log, live.fork.id)
    if json:
        put_json(_object(log, live, gate, record, parting))
    else:
        _put(live, gate, record, parting)
    if attended.interrupted:
        return Exit.INTERRUPTED
    return Exit.OK if parting.same and not live.open else Exit.FAILURE


async def _read(url: str, text: str, options: LiveOptions) -> tuple[str, Begin, Record]:
    async with reading(url) as store:
        log = await find_conversation(store, text)
        row = await conversation_row(store.store, log)
        begin = await begin_of(store.store, row, at=options.at, turn=options.turn)
        return log, begin, await record_of(store.store, row, begin)


class _Attended:
    """Waits for the ends of turns with Ctrl-C, and tells how each ended. stay: somebody answers requests for approval."""

    kernel: Kernel

    def __init__(self, *, stay: bool) -> None:
        self._stay = stay
        self._told = False
        self.interrupted = False

    async def wait(self, fork: Fork, turn: Turn) -> RunOutcome | None:
        if not self._told:
            say(f"{fork.id} begins with {fork.forked_from} up to seq {fork.upto}; agent {fork.agent}")
            self._told = True
        with Interrupts([fork]) as interrupts:
            waited = await wait_for(self.kernel, {fork.id: turn}, stay=self._stay)
        for outcome in waited.outcomes:
            say(line_of(outcome))
        self.interrupted = bool(interrupts.count)
        return None if self.interrupted or not waited.outcomes else waited.outcomes[0]


def _put(live: Live, gate: RecordGate, record: Record, parting: Parting) -> None:
    if gate.ruled:
        put_table(("call", "tool", "what"), [[ruled.call, ruled.tool, _word(ruled)] for ruled in gate.ruled])
        put()
    put_parting(parting)
    put()
    put(_summary(live, gate, record))


def _word(ruled: Ruled) -> str:
    word = WORDS[ruled.word]
    return f"{word}, as {ruled.recorded} ended" if ruled.recorded is not None else word


def _summary(live: Live, gate: RecordGate, record: Record) -> str:
    """What was run, what it was made of, and what it cost."""
    turns = counted(live.turns, "turn")
    ran = f"{turns} run anew" if not live.open else f"{len(live.outcomes)} of {turns} run anew to an end"
    counts = {name: sum(ruled.word == name for ruled in gate.ruled) for name in WORDS}
    said = [f"{count} {WORDS[name].partition(':')[0]}" for name, count in counts.items() if count]
    left = f"; {counted(record.left, 'recorded result')} not asked for" if record.left else ""
    asked, answered = _tokens(live)
    return f"{ran}; calls: {', '.join(said) or 'none'}{left}; it cost {asked}+{answered} tokens"


def _tokens(live: Live) -> tuple[int, int]:
    return sum(one.input_tokens for one in live.outcomes), sum(one.output_tokens for one in live.outcomes)


def _object(log: str, live: Live, gate: RecordGate, record: Record, parting: Parting) -> dict[str, Any]:
    calls = [
        {"call": ruled.call, "tool": ruled.tool, "what": ruled.word, "recorded": ruled.recorded} for ruled in gate.ruled
    ]
    return {
        "conversation": log,
        "fork": live.fork.id,
        "upto": live.fork.upto,
        "turn": live.begin.number,
        "open": live.open,
        "outcomes": [outcome_object(outcome) for outcome in live.outcomes],
        "calls": calls,
        "recorded_left": record.left,
        "diff": as_object(parting),
    }

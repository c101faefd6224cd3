"""run: asks an agent and prints its answer, or takes up what was left open."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from agentos.definitions import load_project
from agentos.errors import UnknownAgent, UnknownConversation
from agentos.ids import LogId
from agentos.interfaces.cli.errors import Exit, code_of_outcome
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.interrupts import Interrupts
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.live import live_line
from agentos.interfaces.cli.output import counted, put_answer, put_json, say
from agentos.interfaces.cli.prompt.options import PromptOptions, prompt_text
from agentos.interfaces.cli.tenant import Tenant, check_tenant
from agentos.interfaces.cli.waiting import Waited, end_of_turn, wait_for
from agentos.interfaces.cli.workplace import Selection, Workplace, opened
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.kernel.reading import Reading, reading


async def run(
    conversation: str | None = None,
    /,
    *,
    options: PromptOptions | None = None,
    selection: Selection | None = None,
    resume: Flag = False,
    wait: Flag = False,
    tenant: Tenant = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Ask an agent, and print its answer on stdout; what became of the turn is told on stderr.

    The prompt is made of -p, -f, --shell, --alias, -s and -S in their order, each on lines of its own; without any, stdin is
    read. An alias that wants a file takes NAME=FILE, or the -f behind it; the others read stdin.

    Agents and toolboxes come from agentos.toml, found from this folder upward, and from --agent-file. A turn that waits
    for approval is left parked in the store, with exit code 7. Ctrl-C ends the turn and keeps what was said.

    Parameters
    ----------
    conversation
        go on with this one, by its id or a part of it
    resume
        take up turns that were left open: all, or those of CONVERSATION
    wait
        stay until somebody answers a request for approval
    tenant
        on whose account the new conversation runs, with all that it begins: a name
    json
        print the outcome as one JSON object
    """
    options, selection = options or PromptOptions(), selection or Selection()
    check_tenant(tenant, begins=conversation is None and not resume)
    if options.echo_prompt:
        put_answer(await prompt_text(options, here, load_project(Path.cwd())))
        return Exit.OK
    work = Workplace.of(here, selection)
    if resume:
        return await _resume(work, conversation, wait=wait, json=json)
    slug = work.pick() if conversation is None else await _agent_of(work, conversation)
    text = await prompt_text(options, here, work.project)
    async with opened(work, slug) as kernel:
        talk = await (kernel.start(slug, tenant=tenant) if conversation is None else _known(kernel, conversation))
        return await driven(kernel, {talk: talk.ask(text)}, wait=wait, json=json)


async def _resume(work: Workplace, conversation: str | None, *, wait: bool, json: bool) -> int:
    """Recovers all conversations, or the tree of one, and waits for their ends."""
    async with reading(work.url) as store:
        tree = await _tree(store, conversation) if conversation is not None else None
    async with opened(work) as kernel:
        talks = await kernel.recover(tree)
        if not talks:
            say("no open turn was left behind")
            return Exit.OK
        say(f"taking up {counted(len(talks), 'open turn')}")
        return await driven(kernel, {talk: end_of_turn(kernel, talk) for talk in talks}, wait=wait, json=json)


async def driven(
    kernel: Kernel, turns: Mapping[Conversation, Coroutine[Any, Any, RunOutcome | None]], *, wait: bool, json: bool
) -> int:
    """To the ends of the turns, with a live line and Ctrl-C; shows what became of them, and gives the exit code."""
    talks = list(turns)
    async with live_line(kernel, talks) as live:
        with Interrupts(talks, live.say) as interrupts:
            waited = await wait_for(kernel, {talk.id: turn for talk, turn in turns.items()}, stay=wait)
    _show(waited, json=json)
    return _code(waited, interrupts)


async def _tree(store: Reading, text: str) -> set[str]:
    """The conversation and all others of its tree: a child that stays behind would keep its parent waiting."""
    log = await find_conversation(store, text)
    sql = "select id from conversations where root = (select root from conversations where id = ?)"
    return {str(id_) for (id_,) in (await store.query(sql, (log,))).rows}


async def _agent_of(work: Workplace, text: str) -> str:
    """The agent of a conversation: with it come all that its turns may come to. That of a fork may stand in the store."""
    async with reading(work.url) as store:
        log = await _found(store, text)
        ((slug,),) = (await store.query("select agent from conversations where id = ?", (log,))).rows
        row = await store.store.log(log)
    is_fork = row is not None and row.forked_from is not None
    if slug not in work.agents and not is_fork:  # before anything is said to a conversation that nobody can answer
        raise UnknownAgent(str(slug), list(work.agents))
    return str(slug)


async def _known(kernel: Kernel, text: str) -> Conversation:
    talk = await kernel.get(await _found(Reading(kernel.store), text))
    await kernel.take_agent(talk.id)
    return talk


async def _found(store: Reading, text: str) -> LogId:
    try:
        return await find_conversation(store, text)
    except UnknownConversation as error:
        error.args = (f"{error}; to say something to an agent, use -p",)
        raise


def _show(waited: Waited, *, json: bool) -> None:
    """Answers on stdout, in order; what became of each turn on stderr."""
    if json and len(waited.outcomes) == 1 and not (waited.requests or waited.doubts):
        put_json(as_object(waited.outcomes[0]))
    elif json:
        outcomes = [as_object(outcome) for outcome in waited.outcomes]
        put_json({"outcomes": outcomes, "requests": waited.requests, "doubts": waited.doubts})
    for outcome in waited.outcomes:
        if outcome.text and not json and not waited.is_child(outcome.conversation):
            put_answer(outcome.text)
        say(line_of(outcome))
    for call in waited.requests:
        how = f"agentos answer {call} allow|deny, then agentos run --resume"
        say(f"waiting for approval of {waited.tools[call]}: {how}")
    for call in waited.doubts:
        how = f"agentos resolve {call} done|failed|retry, then agentos run --resume"
        say(f"nobody knows whether {waited.tools[call]} took effect: {how}")


def line_of(outcome: RunOutcome) -> str:
    """One line for people: which conversation, how its turn ended, and what it took."""
    error = f": {' '.join(outcome.error.split())}" if outcome.error else ""
    took = f"{counted(outcome.steps, 'step')}, {counted(outcome.calls, 'call')}"
    tokens = f"{outcome.input_tokens}+{outcome.output_tokens} tokens"
    return f"{outcome.conversation} ({outcome.agent}): {outcome}{error}; {took}, {tokens}"


def as_object(outcome: RunOutcome) -> dict[str, object]:
    return {
        "conversation": outcome.conversation,
        "turn": outcome.turn,
        "agent": outcome.agent,
        "outcome": outcome.outcome.value,
        "name": outcome.name,
        "text": outcome.text,
        "error": outcome.error,
        "steps": outcome.steps,
        "calls": outcome.calls,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
    }


def _code(waited: Waited, interrupts: Interrupts) -> int:
    """That of the first turn that did not end well; a turn still parked counts as refused for now."""
    if interrupts.count:
        return Exit.INTERRUPTED
    codes = [code_of_outcome(outcome.outcome, outcome.name) for outcome in waited.roots()]
    worst = next((code for code in codes if code is not Exit.OK), Exit.OK)
    return worst if worst is not Exit.OK or not (waited.requests or waited.doubts) else Exit.REFUSED

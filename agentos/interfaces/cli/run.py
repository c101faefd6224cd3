"""run: asks an agent and prints its answer, or takes up what was left open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentos.errors import UnknownConversation
from agentos.interfaces.cli.errors import Exit, UsageError, code_of_outcome
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.interrupts import Interrupts
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, is_terminal, put_answer, put_json, say
from agentos.interfaces.cli.waiting import Waited, wait_for
from agentos.interfaces.cli.workplace import Workplace, opened
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.kernel.reading import Reading, reading


async def run(
    conversation: str | None = None,
    /,
    *,
    agent_file: Annotated[list[Path] | None, Parameter(name="--agent-file", negative="")] = None,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    prompt: Annotated[
        list[str] | None, Parameter(name=["--prompt", "-p"], allow_leading_hyphen=True, negative="")
    ] = None,
    resume: Flag = False,
    wait: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Ask an agent, and print its answer on stdout; what became of the turn is told on stderr.

    Agents and toolboxes come from agentos.toml, found from this folder upward, and from --agent-file. A turn that waits
    for approval is left parked in the store, with exit code 7. Ctrl-C ends the turn and keeps what was said.

    Parameters
    ----------
    conversation
        go on with this one, by its id or a part of it
    agent_file
        a file with an agent; the first one is asked
    agent
        the slug of the agent to ask
    prompt
        what to say, each a line; without any, stdin is read
    resume
        take up turns that were left open: all, or those of CONVERSATION
    wait
        stay until somebody answers a request for approval
    json
        print the outcome as one JSON object
    """
    work = Workplace.of(here, agent_file or [])
    if resume:
        return await _resume(work, conversation, wait=wait, json=json)
    slug = work.pick(agent) if conversation is None else None
    text = "\n".join(prompt) if prompt else _from_stdin()
    async with opened(work) as kernel:
        talk = await (kernel.start(slug) if slug is not None else _known(kernel, str(conversation)))
        with Interrupts([talk]) as interrupts:
            waited = await wait_for(kernel, {talk.id: talk.ask(text)}, stay=wait)
        _show(waited, json=json)
        return _code(waited, interrupts)


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
        with Interrupts(talks) as interrupts:
            waited = await wait_for(kernel, {talk.id: _end(kernel, talk) for talk in talks}, stay=wait)
        _show(waited, json=json)
        return _code(waited, interrupts)


async def _end(kernel: Kernel, talk: Conversation) -> RunOutcome | None:
    """The outcome of the open turn, or of the last one when it has ended meanwhile."""
    return await kernel.outcome(talk.id) or await Reading(kernel.store).last_outcome(talk.id)


async def _tree(store: Reading, text: str) -> set[str]:
    """The conversation and all others of its tree: a child that stays behind would keep its parent waiting."""
    log = await find_conversation(store, text)
    sql = "select id from conversations where root = (select root from conversations where id = ?)"
    return {str(id_) for (id_,) in (await store.query(sql, (log,))).rows}


async def _known(kernel: Kernel, text: str) -> Conversation:
    try:
        return await kernel.get(await find_conversation(Reading(kernel.store), text))
    except UnknownConversation as error:
        error.args = (f"{error}; to say something to an agent, use -p",)
        raise


def _from_stdin() -> str:
    if is_terminal(sys.stdin):
        raise UsageError("nothing to ask: give the text with -p TEXT, or on stdin")
    return sys.stdin.read().removesuffix("\n")


def _show(waited: Waited, *, json: bool) -> None:
    """Answers on stdout, in order; what became of each turn on stderr."""
    if json and len(waited.outcomes) == 1 and not waited.requests:
        put_json(as_object(waited.outcomes[0]))
    elif json:
        put_json({"outcomes": [as_object(outcome) for outcome in waited.outcomes], "requests": waited.requests})
    for outcome in waited.outcomes:
        if outcome.text and not json and not waited.is_child(outcome.conversation):
            put_answer(outcome.text)
        say(line_of(outcome))
    for call in waited.requests:
        how = f"agentos answer {call} allow|deny, then agentos run --resume"
        say(f"waiting for approval of {waited.tools[call]}: {how}")


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
    return worst if worst is not Exit.OK or not waited.requests else Exit.REFUSED

"""The steps of a scenario by their words: what each does to a running kernel, and what there is to see of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agentos.components import CallConfig, Verdict
from agentos.errors import AgentosError
from agentos.ids import CallId
from agentos.kernel.rest import open_requests
from agentos.testing.scenario_command import run_command
from agentos.testing.scenario_expect import expect, wait_for
from agentos.testing.scenario_file import ENDS
from agentos.testing.scenario_life import Life, StepFailed
from agentos.testing.scenario_result import StepResult
from agentos.testing.scenario_words import (
    Advance,
    Answer,
    Ask,
    Cancel,
    Crowd,
    DeclareDead,
    Plain,
    Release,
    Resolve,
    Send,
    Start,
    Step,
)

_SHOWN_MAX = 5

Tell = Callable[[StepResult], None]


async def live(life: Life, number: int, steps: Iterable[int], tell: Tell, *, child: bool = False) -> bool:
    """Does these steps of the scenario, up to the one that ends the life; False when one failed, which is the last."""
    for n in steps:
        step = life.scenario.steps[n]
        if step.word in ENDS:
            break
        saw, wrong = await done(life, step)
        line = life.scenario.line(n)
        tell(StepResult(life=number, line=line, word=step.word, saw=saw, wrong=wrong, child=child))
        if wrong:
            return False
    return True


async def done(life: Life, step: Step) -> tuple[list[str], list[str]]:
    """What was seen and what is wrong; whatever an agent or a person may run into is a finding, not an error."""
    try:
        saw = await _STEPS[step.word](life, step.said)
        await life.settle()
    except StepFailed as failed:
        return failed.saw, failed.wrong
    except AgentosError as error:
        said = life.told(error)
        if step.refusal and all(part in said for part in step.refusal):
            return [f"refused: {said}"], []
        return [], [said]
    return saw, [f"it was not refused: {part}" for part in step.refusal]


async def _start(life: Life, said: Start) -> list[str]:
    conversation = await life.kernel.start(said.agent)
    name = said.as_ or said.agent
    if name in life.names:
        raise StepFailed([f"a conversation {name!r} was started before; say `as: another-name`"])
    life.names[name] = conversation.id
    return [f"{name}: {conversation.id}"]


async def _ask(life: Life, said: Ask) -> list[str]:
    conversation = await life.conversation(said.to)
    asked = life.ask(conversation, said.text)
    shown = f"{life.name_of(conversation.id)} is asked {said.text!r}"
    if said.background:
        return [f"{shown}, in the background"]
    await life.until(lambda: [] if asked.done() else ["the turn has ended"])
    outcome = asked.result()
    return [f"{shown}: {outcome}, {outcome.text!r}" if outcome.text else f"{shown}: {outcome}"]


async def _crowd(life: Life, said: Crowd) -> list[str]:
    """Every answer is compared; the wrong ones are told, the first few of them in full."""
    slugs = [agent.slug for agent in life.scenario.everybody if agent.slug.rpartition("-")[0] == said.agent]
    crowd = [await life.kernel.start(slug) for slug in slugs]
    wrong: list[str] = []
    for number in range(1, said.rounds + 1):
        texts = [_filled(said.text, slug, number) for slug in slugs]
        asked = [life.ask(one, text) for one, text in zip(crowd, texts, strict=True)]
        await life.until(lambda asked=asked: [] if all(one.done() for one in asked) else ["all turns have ended"])  # type: ignore[misc]
        for slug, one in zip(slugs, asked, strict=True):
            outcome, expected = one.result(), _filled(said.says, slug, number)
            if str(outcome) != "completed" or outcome.text != expected:
                wrong.append(f"{slug}, round {number}: {outcome}, {outcome.text!r}, expected {expected!r}")
    if wrong:
        raise StepFailed([f"{len(wrong)} of {len(slugs) * said.rounds} answers are wrong", *wrong[:_SHOWN_MAX]])
    return [f"{len(slugs)} agents, all at the same time: each of {len(slugs) * said.rounds} answers is the right one"]


def _filled(text: str, slug: str, number: int) -> str:
    return text.replace("{agent}", slug).replace("{round}", str(number))


async def _send(life: Life, said: Send) -> list[str]:
    conversation = await life.conversation(said.to)
    seq = await conversation.send(said.text)
    return [f"{said.text!r} is entry {seq} of {life.name_of(conversation.id)}"]


async def _release(life: Life, said: Release) -> list[str]:
    going = life.outside.gate(said.tool).open(said.calls)
    if said.calls is not None and going < said.calls:
        raise StepFailed([f"{going} calls of {said.tool} were held, not {said.calls}"])
    return [f"{said.tool}: {going} of the held calls let go"]


async def _cancel(life: Life, said: Cancel) -> list[str]:
    conversation = await life.conversation(said.of)
    await conversation.interrupt()
    return [life.name_of(conversation.id)]


async def _answer(life: Life, said: Answer) -> list[str]:
    """By the call's id, as any client would."""
    waiting = [call for call in open_requests(life.kernel) if said.tool in (None, _tool(life, call))]
    if not waiting:
        raise StepFailed([f"no approval request is open{f' for {said.tool}' if said.tool else ''}"])
    await life.kernel.answer(waiting[0], Verdict(said.verdict), reason=said.reason)
    return [f"{said.verdict} for {_tool(life, waiting[0])} ({waiting[0]})"]


async def _resolve(life: Life, said: Resolve) -> list[str]:
    """By the call's id, as any client would."""
    doubts = [doubt for doubt in await life.kernel.doubts() if said.tool in (None, doubt.tool)]
    if not doubts:
        raise StepFailed([f"no call{f' of {said.tool}' if said.tool else ''} is in doubt"])
    call = doubts[0].call
    await life.kernel.resolve(call, said.as_, result=said.result, reason=said.reason, by=said.by)
    return [f"{said.by} says {said.as_.value} of {doubts[0].tool} ({call}), which was {doubts[0].state}"]


def _tool(life: Life, call: CallId) -> str:
    config = life.kernel.world.get(call, CallConfig)
    return config.tool if config is not None else ""


async def _advance(life: Life, said: Advance) -> list[str]:
    await life.settle()
    life.clock.advance(said.seconds)
    return [f"{said.seconds:g} s"]


async def _reopen(life: Life, _said: Plain) -> list[str]:
    return [await life.world_as_before()]


async def _recover(life: Life, _said: Plain) -> list[str]:
    taken = await life.kernel.recover()
    names = [life.name_of(conversation.id) for conversation in taken]
    return [f"taken up: {', '.join(names)}" if names else "nothing was left behind"]


async def _declare_dead(life: Life, said: DeclareDead) -> list[str]:
    if not await life.kernel.declare_dead(life.writers[said.process]):
        raise StepFailed([f"{said.process} has ended already"])
    return [f"{said.process} counts as dead from now on"]


_STEPS: dict[str, Callable[[Life, Any], Awaitable[list[str]]]] = {
    "start": _start,
    "ask": _ask,
    "crowd": _crowd,
    "command": run_command,
    "send": _send,
    "wait_for": wait_for,
    "release": _release,
    "cancel": _cancel,
    "answer": _answer,
    "resolve": _resolve,
    "advance": _advance,
    "reopen": _reopen,
    "recover": _recover,
    "declare_dead": _declare_dead,
    "expect": expect,
}

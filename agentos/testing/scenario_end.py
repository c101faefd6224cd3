"""What must hold at the end of every scenario, whatever it was about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentos.history import Divergence, Identical, replay_all, verify_store
from agentos.testing.scenario_life import Carried, Life, StepFailed
from agentos.testing.scenario_result import StepResult


async def check_end(life: Life, carried: Carried) -> list[StepResult]:
    """All checks, over the store as a new kernel finds it."""
    checks: dict[str, Callable[[Life, Carried], Awaitable[str]]] = {
        "invariants": _invariants,
        "world": _world,
        "replay": _replay,
        "verify": _verify,
        "once": _once,
    }
    return [await _checked(name, check, life, carried) for name, check in checks.items()]


async def _checked(
    name: str, check: Callable[[Life, Carried], Awaitable[str]], life: Life, carried: Carried
) -> StepResult:
    try:
        return StepResult(life=0, line=0, word=name, saw=[await check(life, carried)])
    except StepFailed as failed:
        return StepResult(life=0, line=0, word=name, saw=failed.saw, wrong=failed.wrong)


async def _invariants(_life: Life, carried: Carried) -> str:
    if carried.broken:
        raise StepFailed(carried.broken)
    return f"all held after each of {carried.checks} ticks"


async def _world(life: Life, _carried: Carried) -> str:
    return await life.world_as_before()


async def _replay(life: Life, _carried: Carried) -> str:
    kernel = life.kernel
    replayed = replay_all(
        kernel.store, schedule=kernel.schedule, registry=kernel.registry, settings=kernel.settings
    )
    results = [result async for result in replayed]
    diverged = [f"{result.log} diverges: {result}" for result in results if isinstance(result, Divergence)]
    if diverged:
        raise StepFailed(diverged)
    identical = [result for result in results if isinstance(result, Identical)]
    return f"identical: {len(identical)} conversations, {sum(result.entries for result in identical)} entries"


async def _verify(life: Life, _carried: Carried) -> str:
    report = await verify_store(life.kernel.store, registry=life.kernel.registry)
    if not report.ok:
        raise StepFailed([str(difference) for difference in report.differences])
    return str(report)


async def _once(life: Life, _carried: Carried) -> str:
    if broken := life.outside.ran_twice():
        raise StepFailed(broken)
    return f"no call ran more often than it may: {len(life.outside.runs())} runs of tools"

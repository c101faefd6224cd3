"""What must hold at the end of every scenario, whatever it was about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentos.history import Divergence, Identical, replay_all, verify_store
from agentos.testing.scenario_life import Carried, Life, StepFailed
from agentos.testing.scenario_result import StepResult, counted

_BROKEN_LINES = """
select child.id from conversations child
left join conversations parent on parent.id = child.parent
left join calls on calls.n = parent.n and calls.child = child.id
where child.parent is not null and (calls.child is null or parent.root <> child.root or parent.depth + 1 <> child.depth)
or child.parent is null and (child.root <> child.id or child.depth <> 0)
"""


async def check_end(life: Life, carried: Carried) -> list[StepResult]:
    """All checks, over the store as a new kernel finds it."""
    checks: dict[str, Callable[[Life, Carried], Awaitable[str]]] = {
        "invariants": _invariants,
        "lineage": _lineage,
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
    if not carried.checks:
        return "not asked: that needs a store which can be read in the middle of a tick"
    return f"all held after each of {carried.checks} ticks"


async def _lineage(life: Life, _carried: Carried) -> str:
    if broken := (await life.kernel.query(_BROKEN_LINES)).rows:
        raise StepFailed([f"{log} does not hang below the call that began it" for (log,) in broken])
    ((logs, roots),) = (await life.kernel.query("select count(*), count(distinct root) from conversations")).rows
    return f"unbroken from {counted(logs, 'conversation')} up to {counted(roots, 'root')}"


async def _world(life: Life, _carried: Carried) -> str:
    return await life.world_as_before()


async def _replay(life: Life, _carried: Carried) -> str:
    kernel = life.kernel
    replayed = replay_all(kernel.store, schedule=kernel.schedule, registry=kernel.registry, settings=kernel.settings)
    results = [result async for result in replayed]
    diverged = [f"{result.log} diverges: {result}" for result in results if isinstance(result, Divergence)]
    if diverged:
        raise StepFailed(diverged)
    identical = [result for result in results if isinstance(result, Identical)]
    entries = sum(result.entries for result in identical)
    return f"decided again, identical: {counted(len(identical), 'conversation')}, {entries} entries"


async def _verify(life: Life, _carried: Carried) -> str:
    report = await verify_store(life.kernel.store, registry=life.kernel.registry)
    if not report.ok:
        raise StepFailed([str(difference) for difference in report.differences])
    return str(report)


async def _once(life: Life, _carried: Carried) -> str:
    if broken := life.outside.ran_twice():
        raise StepFailed(broken)
    return f"no call ran more often than it may: {counted(len(life.outside.runs()), 'run')} of tools"

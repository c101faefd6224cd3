"""Asks user code at a hook point."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from agentos.codec import encode_json
from agentos.components import GivenEnd, Verdict
from agentos.effects.base import Running, Services, arguments_of, owned
from agentos.events.effects import AskHook
from agentos.events.intake import HookReport, Item
from agentos.ids import Name, call_id

_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


async def ask_hooks(services: Services, effect: AskHook, running: Running) -> Item:
    """A HookReport: deny beats ask beats allow beats nothing; a change is seen by the hooks after it.

    A hook that raises, takes too long, or is pinned by the turn and not here denies: who guards must not be talked out of
    it by failing. A result counts that the hook gives whose verdict counts, for arguments that no hook has changed.
    """
    arguments: dict[str, Any] = arguments_of(services, effect)
    context = services.turn_context(effect.log, effect.turn)
    running.limit(context.limits.tool_s)
    verdict, by, reason, changed = Verdict.HOOK, Name("hooks"), "", False
    given: GivenEnd | None = None
    hooks = services.hooks()
    for name in context.hooks:
        if all(hook.name != name for hook in hooks):
            return _denied(effect, name, f"hook {name} guards this turn, and is not here")
    for hook in hooks:
        try:
            said = await hook.before_call(call_id(effect.log, effect.call), effect.tool, owned(arguments))
            if said is not None:
                encode_json([said.arguments, said.reason, msgspec.to_builtins(said.given)])  # no answer if not storable
        except asyncio.CancelledError:
            if not running.was_cancelled():
                raise
            return _denied(effect, hook.name, "the hook was interrupted")
        except (Exception, SystemExit) as error:
            return _denied(effect, hook.name, f"hook {hook.name} raised {type(error).__name__}")
        if said is None:
            continue
        if said.arguments is not None:
            arguments, changed = owned(said.arguments), True
        if _STRICTNESS.get(said.verdict, -1) > _STRICTNESS.get(verdict, -1):
            verdict, by, reason, given = said.verdict, hook.name, said.reason, said.given
    return HookReport(
        call=effect.call,
        point=effect.point,
        verdict=verdict,
        by=by,
        arguments=arguments if changed else None,
        reason=reason,
        given=given if verdict is Verdict.ALLOW and not changed else None,
    )


def _denied(effect: AskHook, by: Name, reason: str) -> HookReport:
    return HookReport(call=effect.call, point=effect.point, verdict=Verdict.DENY, by=by, reason=reason)

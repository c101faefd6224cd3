"""Rules over tool names. Pure: the same context, tool and arguments give the same verdict."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from agentos.components import AgentContext, Rule, ToolSpec, Verdict
from agentos.governance.cache import IdentityCache

POLICIES_MAX = 4_096
NAME_CHARS_MAX = 128
_STRICTEST_FIRST = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)


class ToolPolicy:
    """Compiled rules. A pattern is a tool's name with `*` and `?`; case counts.

    Any deny wins, then any ask, then allow; a tool that no rule names is allowed.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(_pattern(rule.tool), rule.verdict) for rule in rules]
        self._known: dict[str, Verdict] = {}

    def evaluate(self, tool: str) -> Verdict:
        verdict = self._known.get(tool)
        if verdict is None:
            found = {verdict for pattern, verdict in self._rules if pattern.fullmatch(tool)}
            verdict = next((strict for strict in _STRICTEST_FIRST if strict in found), Verdict.ALLOW)
            if len(self._known) < POLICIES_MAX:
                self._known[tool] = verdict
        return verdict


def judge(context: AgentContext, tool: ToolSpec | str, arguments: object) -> Verdict:
    """What the agent's policy says of a call. The rules look at the tool alone."""
    if not context.policy:
        return Verdict.ALLOW
    return _policies.get(context.policy).evaluate(tool if isinstance(tool, str) else tool.name)


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Up to three known names that look like this one, nearest first."""
    known = {known.lower(): known for known in reversed(names)}
    asked = name[:NAME_CHARS_MAX].lower()
    return [known[near] for near in difflib.get_close_matches(asked, list(known), n=3, cutoff=0.6)]


def _pattern(glob: str) -> re.Pattern[str]:
    """`*` is any text, also none; `?` is any one character; all else is itself."""
    meant = {"*": ".*", "?": "."}
    return re.compile("".join(meant.get(letter, re.escape(letter)) for letter in glob), re.DOTALL)


_policies: IdentityCache[tuple[Rule, ...], ToolPolicy] = IdentityCache(ToolPolicy, POLICIES_MAX)

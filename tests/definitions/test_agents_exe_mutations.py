"""No change of an agent file is answered with a traceback: it loads, or there is an error with its place."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.definitions import read_source
from agentos.definitions.agents_exe import is_agents_exe, native
from agentos.definitions.checking import check
from agentos.definitions.source import Source
from agentos.definitions.spec import AgentSpec
from tests.definitions.agents_exe_support import FILES, source_of, ways

OTHERS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63 - 1,
    0.5,
    "",
    " ",
    "\n",
    "x" * 2_000,
    "~",
    "..",
    "/",
    "é💥",
    "always",
    [],
    [[]],
    [None],
    {},
    {"tag": "SqliteVersioned"},
    {"tag": "decorate", "inner": {"tag": "decorate"}},
    {"ref": {}},
    {"": ""},
)
KEYS = ("", "tag", "Contents", "--x", "slug", "Slug", "Path", "bindings", "toolCallPolicyConfig", "skillSources", "env")
VALUES = {path: read_source(path).value for path in FILES}


@given(path=st.sampled_from(FILES), seed=st.integers(0, 2**32), changes=st.integers(1, 6))
def test_a_file_with_values_changed_at_random_loads_or_is_explained(path: Path, seed: int, changes: int) -> None:
    value = copy.deepcopy(VALUES[path])
    dice = random.Random(seed)
    for _ in range(changes):
        value = _changed(value, dice)

    _loads_or_is_explained(source_of(path, value))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_without_any_one_of_its_values_loads_or_is_explained(path: Path) -> None:
    for keys in ways(VALUES[path]):
        if "systemPrompt" not in keys:
            value = copy.deepcopy(VALUES[path])
            del _at(value, keys[:-1])[keys[-1]]

            _loads_or_is_explained(source_of(path, value))


def _changed(value: Any, dice: random.Random) -> Any:
    """One value of it taken out, put in place of another, doubled or added under a key."""
    found = list(ways(value))
    if not found:
        return copy.deepcopy(dice.choice(OTHERS))
    *above, key = dice.choice(found)
    owner: Any = _at(value, above)
    change = dice.choice(("without", "another", "one more"))
    if change == "without":
        del owner[key]
    elif change == "another":
        owner[key] = copy.deepcopy(dice.choice(OTHERS))
    elif isinstance(owner, list):
        owner.append(copy.deepcopy(_at(owner, [key])))
    else:
        owner[dice.choice(KEYS)] = copy.deepcopy(dice.choice((*OTHERS, owner[key])))
    return value


def _at(value: Any, keys: Sequence[str | int]) -> Any:
    for key in keys:
        value = value[key]
    return value


def _loads_or_is_explained(source: Source) -> None:
    if not is_agents_exe(source.value):
        return
    found = native(source)
    assert all(problem.path == source.path and problem.line > 0 and problem.text for problem in found.problems)
    assert all(len(problem.text) < 1_000 for problem in found.problems)
    if any(problem.is_error for problem in found.problems):
        return
    spec, problems = check(AgentSpec, Source(source.path, found.value, found.places), {})
    assert spec is not None, problems

"""The Lua toolbox keeps the contract of toolboxes, and declares itself as files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.components import EffectClass, ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.definitions.boxes import make_toolbox, own_toolboxes
from agentos.definitions.toolbox_spec import LuaSpec
from agentos.toolboxes.base import Failed
from agentos.toolboxes.lua import LuaToolbox
from tests.lua.support import limits

for part in ("contract", "calls"):
    pytest.register_assert_rewrite(f"agentos.testing.toolbox_{part}")

from agentos.testing.toolbox_calls import ContractContext  # noqa: E402
from agentos.testing.toolbox_contract import Sample, ToolboxCase, ToolboxContract  # noqa: E402


class TestLuaToolbox(ToolboxContract):
    @pytest.fixture
    def toolbox_case(self) -> ToolboxCase:
        return ToolboxCase(
            lambda: LuaToolbox("calc", limits=limits(), prepared=0),
            Sample("calc_run", {"script": "return 6 * 7"}, "42"),
            Sample("calc_run", {"script": "while true do end"}),
        )


def own(**more: Any) -> LuaToolbox:
    """The toolbox that an agent file makes."""
    box: Any = {"kind": "lua", "name": "calc", **more}
    [made] = own_toolboxes(AgentSpec(slug="a", toolboxes=[box]), Path("/"))
    assert isinstance(made, LuaToolbox)
    return made


def test_an_agent_file_says_what_scripts_may() -> None:
    made = own(tools=["read_*"], memory_mb=8, time_s=2, state="call", description="Sums.", sharing="exclusive")
    [spec] = made.tools()

    assert (made.name, made.sharing, spec.name) == ("a/calc", ToolboxSharing.EXCLUSIVE, "calc_run")
    assert (made._limits.memory_bytes, made._limits.time_s) == (8 * 1024 * 1024, 2)
    assert spec.description.startswith("Sums.\nRuns a script in Lua")
    assert "Tools that may be called: read_*." in spec.description
    assert set(spec.schema["properties"]) == {"script", "timeout"}
    assert spec.effect is EffectClass.ONCE


def test_without_a_word_scripts_call_no_tools_and_keep_their_state() -> None:
    made = make_toolbox("calc", LuaSpec(), Path("/"))
    [spec] = made.tools()

    assert made.sharing is ToolboxSharing.PER_CONVERSATION
    assert spec.description.endswith(
        "Global variables stay for the next script of the conversation. It can call no tools."
    )
    assert set(spec.schema["properties"]) == {"script", "timeout", "fresh"}
    assert spec.effect is EffectClass.IDEMPOTENT


@pytest.mark.parametrize("wrong", [{"memory_mb": 0}, {"time_s": 0}, {"state": "turn"}, {"hosts": ["x"]}])
def test_what_is_none_of_its_keys_or_values_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LuaSpec.model_validate({"kind": "lua", **wrong})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "script is the text of a script in Lua"),
        ({"script": "x" * 300_000}, "script is over 262,144 bytes (script_bytes)"),
        ({"script": "return 1", "timeout": -1}, "timeout is a number of seconds above 0"),
        ({"script": "return 1", "timeout": float("nan")}, "timeout is a number of seconds above 0"),
    ],
)
async def test_arguments_that_say_nothing_are_refused_without_a_process(arguments: dict[str, Any], words: str) -> None:
    toolbox = LuaToolbox("calc")
    await toolbox.open()

    refused = await toolbox.call(toolbox.tools()[0].name, arguments, ContractContext())

    assert refused == Failed("invalid", words)  # type: ignore[arg-type]
    assert toolbox._workers is not None
    assert toolbox._workers.taken == []
    await toolbox.close()


async def test_half_a_surrogate_in_a_script_is_no_way_to_break_the_line() -> None:
    toolbox, context = LuaToolbox("calc", limits=limits()), ContractContext()
    await toolbox.open()
    try:
        result: Any = await toolbox.call(toolbox.tools()[0].name, {"script": "return '\ud800', 1"}, context)
    finally:
        await context.close()
        await toolbox.close()

    assert result["values"] == ["?", 1]

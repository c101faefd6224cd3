"""The contract of toolboxes as a test class: a toolbox that passes it can be installed in a kernel.

Bind it in a test module of yours; every test of the class then runs against your toolbox:

    for part in ("contract", "calls"):
        pytest.register_assert_rewrite(f"agentos.testing.toolbox_{part}")
    from agentos.testing.toolbox_contract import Sample, ToolboxCase, ToolboxContract

    class TestMyToolbox(ToolboxContract):
        @pytest.fixture
        def toolbox_case(self, tmp_path: Path) -> ToolboxCase:
            return ToolboxCase(
                make=lambda: MyToolbox("mine", tmp_path),
                good=Sample("mine_add", {"a": 1, "b": 2}, "3"),
                endless=Sample("mine_wait", {}),
            )

The tests are async and run under anyio's pytest plugin, which comes with anyio.
"""

from __future__ import annotations

import asyncio
import copy

import jsonschema_rs
import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.ids import Name, is_name
from agentos.testing.toolbox_calls import (
    HANG_S,
    Held,
    Sample,
    ToolboxCase,
    assert_good,
    at_once,
    called,
    cancelled,
    children_of_this_process,
    opened,
)
from agentos.toolboxes.base import Doubt, Failed, problems_of

__all__ = ["Sample", "ToolboxCase", "ToolboxContract"]


class ToolboxContract:
    """What every toolbox promises. The fixture `toolbox_case` is the toolbox's part."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_it_has_a_name_a_kind_and_a_way_to_be_shared(self, toolbox_case: ToolboxCase) -> None:
        toolbox = toolbox_case.make()

        assert is_name(toolbox.name)
        assert is_name(toolbox.kind)
        assert isinstance(toolbox.sharing, ToolboxSharing)
        assert toolbox.size >= (1 if toolbox.sharing is ToolboxSharing.POOL else 0)

    async def test_its_tools_are_sorted_and_each_names_the_toolbox(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            specs = list(toolbox.tools())
            names = [spec.name for spec in specs]

            assert names == sorted(set(names))
            assert toolbox_case.good.tool in names
            assert all(is_name(name) for name in names)
            assert {spec.toolbox for spec in specs} == {toolbox.name}
            assert not any(spec.subagent for spec in specs)

    async def test_each_tool_says_what_it_takes_and_what_it_does(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            for spec in toolbox.tools():
                assert spec.schema["type"] == "object"
                jsonschema_rs.validator_for(spec.schema)
                assert isinstance(spec.description, str)
                assert isinstance(spec.effect, EffectClass)
                assert isinstance(spec.access, Access)
                assert spec.timeout_s is None or spec.timeout_s > 0

    async def test_the_arguments_of_a_good_call_fit_the_schema(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            schemas = {spec.name: spec.schema for spec in toolbox.tools()}
            for sample in (toolbox_case.good, toolbox_case.endless):
                if sample is not None:
                    assert jsonschema_rs.validator_for(schemas[Name(sample.tool)]).is_valid(sample.arguments)

    async def test_a_call_changes_neither_the_tools_nor_its_arguments(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            before = copy.deepcopy(list(toolbox.tools()))
            arguments = copy.deepcopy(toolbox_case.good.arguments)
            await called(toolbox, Sample(toolbox_case.good.tool, arguments))

            assert arguments == toolbox_case.good.arguments
            assert list(toolbox.tools()) == before

    async def test_a_good_call_gives_a_result_that_has_a_text_each_time(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            for _ in range(3):
                assert_good(await called(toolbox, toolbox_case.good), toolbox_case.good)

    async def test_calls_side_by_side_each_get_their_own_result(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            calls = (called(toolbox, toolbox_case.good, number) for number in range(at_once(toolbox)))
            for result in await asyncio.gather(*calls):
                assert_good(result, toolbox_case.good)

    async def test_a_tool_that_it_lacks_is_a_failed_call_that_names_both(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            failed = await called(toolbox, Sample("no_such_tool", {}))

            assert isinstance(failed, Failed)
            assert failed.kind == "unknown_tool"
            assert toolbox.name in failed.text
            assert "no_such_tool" in failed.text

    @pytest.mark.parametrize("wait_s", [0.0, 0.1])
    async def test_a_cancelled_call_lets_go_and_the_next_one_works(
        self, toolbox_case: ToolboxCase, wait_s: float
    ) -> None:
        async with opened(toolbox_case) as toolbox:
            children = children_of_this_process()
            for number in range(3):
                await cancelled(toolbox, toolbox_case.endless, number, wait_s)

            assert_good(await called(toolbox, toolbox_case.good), toolbox_case.good)
            assert children_of_this_process() <= children

    async def test_a_call_that_is_cancelled_twice_still_lets_go(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            children = children_of_this_process()
            await cancelled(toolbox, toolbox_case.endless, 1, 0.1, times=2)

            assert_good(await called(toolbox, toolbox_case.good), toolbox_case.good)
            assert children_of_this_process() <= children

    async def test_the_loop_goes_on_while_a_call_runs(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            if toolbox_case.endless is None:
                return
            task = asyncio.create_task(called(toolbox, toolbox_case.endless))
            for _ in range(20):
                await asyncio.sleep(0.005)
            still_runs = not task.done()
            task.cancel()
            await asyncio.wait([task], timeout=HANG_S)

            assert still_runs
            assert task.cancelled()

    async def test_a_probe_tells_what_became_of_a_call_or_nothing(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            good = toolbox_case.good
            doubt = await toolbox.probe(Name(good.tool), good.arguments, "call_of_an_earlier_life_5")

            assert doubt is None or isinstance(doubt, Doubt)

    async def test_opening_a_good_toolbox_leaves_no_problem(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as toolbox:
            assert list(problems_of(toolbox)) == []

    async def test_nothing_is_left_of_a_closed_toolbox(self, toolbox_case: ToolboxCase) -> None:
        await asyncio.sleep(0)
        before = Held.now()
        async with opened(toolbox_case) as toolbox:
            await called(toolbox, toolbox_case.good)
            await cancelled(toolbox, toolbox_case.endless, 2, 0.05)

        assert not Held.now().beyond(before)

    async def test_closing_twice_is_closing_once(self, toolbox_case: ToolboxCase) -> None:
        before = Held.now()
        toolbox = toolbox_case.make()
        await toolbox.open()
        await called(toolbox, toolbox_case.good)
        await toolbox.close()
        await toolbox.close()

        assert not Held.now().beyond(before)

    async def test_a_toolbox_that_was_never_opened_can_be_closed(self, toolbox_case: ToolboxCase) -> None:
        before = Held.now()
        await toolbox_case.make().close()

        assert not Held.now().beyond(before)

    async def test_two_of_them_work_beside_each_other(self, toolbox_case: ToolboxCase) -> None:
        async with opened(toolbox_case) as one:
            async with opened(toolbox_case) as two:
                assert_good(await called(two, toolbox_case.good), toolbox_case.good)
            assert_good(await called(one, toolbox_case.good), toolbox_case.good)

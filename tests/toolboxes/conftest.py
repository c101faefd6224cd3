"""A call context that keeps what it is told, and scripts made on the spot."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.clock import Clock, SystemClock
from agentos.ids import CallId, ConversationId, Name, TurnId
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources.process.descendants import Keeper


class CallOf:
    """The context of one attempt of one call."""

    def __init__(self, key: str = "call_of_a_test_7", timeout_s: float = 30.0) -> None:
        self.call_id = CallId(key)
        self.turn = TurnId("turn_of_a_test_3")
        self.conversation = ConversationId("conversation_of_a_test")
        self.agent = Name("tester")
        self.attempt = 1
        self.key = key
        self.timeout_s = timeout_s
        self.clock: Clock = SystemClock()
        self.lineage = Lineage()

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        raise AssertionError("no inner call is expected")

    def call_from_thread(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        raise AssertionError("no inner call is expected")

    def borrow(self, *_name: Any, **_how: Any) -> Any:
        raise AssertionError("nothing to borrow is expected")

    def borrow_from_thread(self, *_name: Any, **_how: Any) -> Any:
        raise AssertionError("nothing to borrow is expected")

    def resource(self, *_kind: Any, **_how: Any) -> Any:
        raise AssertionError("nothing to borrow is expected")

    def progress(self, data: Any) -> None:
        raise AssertionError("no progress is expected")

    def defer(self, release: Callable[[], Any]) -> None:
        raise AssertionError("nothing to release is expected")


@pytest.fixture(autouse=True)
def _nothing_is_adopted_any_more() -> Iterator[None]:
    """A script toolbox that stays open would make this process the parent of what other tests leave behind."""
    yield
    assert not Keeper._open


@pytest.fixture
def context() -> CallOf:
    return CallOf()


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a shell script that describes itself with args and runs body; gives its path."""

    def write(name: str, body: str, args: list[dict[str, str]] | None = None, **more: Any) -> Path:
        description = {"slug": name, "description": f"Runs {name}.", "args": args or [], **more}
        path = tmp_path / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        described = f"cat <<'END'\n{json.dumps(description)}\nEND"
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = describe ]; then\n{described}\nexit 0\nfi\nshift\n{textwrap.dedent(body)}\n'
        )
        path.chmod(0o755)
        return path

    return write

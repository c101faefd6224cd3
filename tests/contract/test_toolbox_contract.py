"""Every kind of toolbox keeps the contract."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.resources.folders.file_sandbox import FileSandbox
from agentos.resources.kinds.jsonrpc import ExchangeLimits, JsonRpcLimits
from agentos.resources.kinds.process import KeptLimits
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from agentos.toolboxes.python import PythonToolbox, tool
from agentos.toolboxes.script import ScriptToolbox
from agentos.toolboxes.sqlite import SqliteToolbox
from agentos.toolboxes.system import CAPABILITIES, SystemLimits, SystemToolbox
from agentos.toolboxes.system.command import CommandLimits

for part in ("contract", "calls"):
    pytest.register_assert_rewrite(f"agentos.testing.toolbox_{part}")

from agentos.testing.toolbox_contract import Sample, ToolboxCase, ToolboxContract  # noqa: E402

ENDLESS_SQL = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
QUICK = ProcessLimits(grace_s=0.1, drain_s=0.2)


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


class TestPythonToolbox(ToolboxContract):
    @pytest.fixture
    def toolbox_case(self) -> ToolboxCase:
        @tool(effect="pure", access="read")
        async def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        @tool
        async def wait() -> None:
            """Waits for nothing."""
            await asyncio.Event().wait()

        return ToolboxCase(
            lambda: PythonToolbox("sums", [wait, add]), Sample("add", {"a": 1, "b": 2}, "3"), Sample("wait", {})
        )


class TestPythonToolboxOfSyncFunctions(ToolboxContract):
    @pytest.fixture
    def toolbox_case(self) -> ToolboxCase:
        def add(a: int, b: int) -> int:
            """Adds, in a thread."""
            return a + b

        return ToolboxCase(lambda: PythonToolbox("sums", [add]), Sample("add", {"a": 1, "b": 2}, "3"), None)


class TestScriptToolbox(ToolboxContract):
    @pytest.fixture
    def toolbox_case(self, tmp_path: Path) -> ToolboxCase:
        argument = {
            "name": "text",
            "description": "what to say",
            "type": "string",
            "backing_type": "string",
            "arity": "single",
            "mode": "positional",
        }
        bodies = {"say": 'printf %s "$1"', "wait": "sleep 1000 & sleep 1000"}
        for slug, body in bodies.items():
            described = json.dumps({"slug": slug, "description": "Says.", "args": [argument] if slug == "say" else []})
            executable(
                tmp_path / slug,
                f"#!/bin/sh\nif [ \"$1\" = describe ]; then cat <<'END'\n{described}\nEND\nexit; fi\nshift\n{body}\n",
            )
        return ToolboxCase(
            lambda: ScriptToolbox("scripts", directories=[tmp_path], cwd=tmp_path, limits=QUICK),
            Sample("say", {"text": "hello"}, "hello"),
            Sample("wait", {}),
        )


class TestJsonRpcToolbox(ToolboxContract):
    @pytest.fixture(params=["", "stubborn"])
    def toolbox_case(self, request: pytest.FixtureRequest) -> ToolboxCase:
        server = Path(__file__).parents[1] / "toolboxes" / "rpc_server.py"
        kept = KeptLimits(close_s=0.1 if request.param else 5.0, process=QUICK)
        limits = JsonRpcLimits(process=kept, exchange=ExchangeLimits(cancel_s=0.1))
        command = [sys.executable, str(server), *filter(None, [request.param])]
        return ToolboxCase(
            lambda: JsonRpcToolbox("desk", command=command, cwd=server.parent, limits=limits),
            Sample("add", {"a": 1, "b": 2}, "3"),
            Sample("wait", {}),
        )


class TestSqliteToolbox(ToolboxContract):
    @pytest.fixture(params=["read-only", "read-write"])
    def toolbox_case(self, request: pytest.FixtureRequest, tmp_path: Path) -> ToolboxCase:
        path = tmp_path / "notes.db"
        with closing(sqlite3.connect(path)) as db:
            db.executescript("CREATE TABLE notes (text); INSERT INTO notes VALUES ('hello');")
        return ToolboxCase(
            lambda: SqliteToolbox("notes", path=path, access=request.param),
            Sample("notes_query", {"sql": "SELECT text FROM notes"}, "hello"),
            Sample("notes_query", {"sql": ENDLESS_SQL}),
        )


class TestSystemToolbox(ToolboxContract):
    @pytest.fixture(params=["date", "working-directory", "list-directory", "attach-file", "execute-command"])
    def toolbox_case(self, request: pytest.FixtureRequest, tmp_path: Path) -> ToolboxCase:
        root = Path(os.path.realpath(tmp_path))
        (root / "hello.txt").write_text("hello")
        allow = executable(root / "allow", """#!/bin/sh\ncat > /dev/null\nprintf '{"acceptance": "allowed"}'\n""")
        sandbox = FileSandbox.from_data({"fsbPredicate": {"tag": "DirectoryRecursive", "contents": "."}}, root)
        good: dict[str, tuple[dict[str, Any], str]] = {
            "date": ({}, "utc"),
            "working-directory": ({}, str(root)),
            "list-directory": ({"path": "."}, "hello.txt"),
            "attach-file": ({"path": "hello.txt"}, "hello"),
            "execute-command": ({"command": ["cat", "hello.txt"]}, "hello"),
        }
        return ToolboxCase(
            lambda: SystemToolbox(
                "sys",
                capabilities=CAPABILITIES,
                cwd=root,
                sandbox=sandbox,
                command_filter=allow,
                limits=SystemLimits(command=CommandLimits(process=QUICK)),
            ),
            Sample(f"sys_{request.param.replace('-', '_')}", *good[request.param]),
            Sample("sys_execute_command", {"command": "sleep 1000 & sleep 1000"}),
        )

"""The system toolbox: its tools, and the facts that they tell of the machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.testing import ManualClock
from agentos.toolboxes.base import Failed
from agentos.toolboxes.system import CAPABILITIES, SESSION_CAPABILITIES, SystemToolbox
from agentos.toolboxes.system.facts import MASK, environment
from tests.toolboxes.system_support import ask, everything, opened

FACTS = [name for name in CAPABILITIES if name not in ("attach-file", "list-directory", "execute-command")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def test_each_capability_is_one_tool_named_after_it(root: Path) -> None:
    box = SystemToolbox("sys", capabilities=["uptime", "env-vars", "uptime"], cwd=root, description="The machine.")
    prefixed = SystemToolbox("sys", capabilities=["env-vars"], cwd=root, prefix="system_sys_")

    assert [spec.name for spec in box.tools()] == ["sys_env_vars", "sys_uptime"]
    assert box.tools()[1].description == "The machine.\nTells for how long the machine runs."
    assert [spec.name for spec in prefixed.tools()] == ["system_sys_env_vars"]
    assert box.sharing is ToolboxSharing.STATELESS


def test_what_only_tells_is_pure_and_a_command_runs_once(root: Path) -> None:
    box = SystemToolbox("sys", capabilities=CAPABILITIES, cwd=root, command_filter=Path("filter"))
    specs = {spec.name.removeprefix("sys_"): spec for spec in box.tools()}
    command = specs.pop("execute_command")

    assert (command.effect, command.access) == (EffectClass.ONCE, Access.WRITE)
    assert {(spec.effect, spec.access) for spec in specs.values()} == {(EffectClass.PURE, Access.READ)}
    assert command.timeout_s is not None
    assert command.timeout_s > 40
    assert len(specs) == len(CAPABILITIES) - 1


def test_an_unknown_capability_is_an_error_with_its_near_name_and_all_known(root: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SystemToolbox("sys", capabilities=["list-directries", "date", "fly"], cwd=root)

    first, second = str(caught.value).splitlines()
    assert first.startswith(
        "toolbox sys: unknown capability 'list-directries'; did you mean list-directory?; known: date"
    )
    assert second.startswith("toolbox sys: unknown capability 'fly'; known: ")
    assert all(name in first for name in CAPABILITIES)


@pytest.mark.parametrize("capability", SESSION_CAPABILITIES)
def test_a_capability_of_sessions_is_an_error_that_says_so(root: Path, capability: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the capability {capability} reads earlier sessions"):
        SystemToolbox("sys", capabilities=[capability], cwd=root)


async def test_the_date_is_that_of_the_clock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        clock = ManualClock()
        clock.advance(1.25)
        async with opened(root, "date", clock=clock) as toolbox:
            told = await ask(toolbox, "date")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert told == {
        "utc": "2027-01-15T08:00:01+00:00",
        "local": "2027-01-15T13:45:01+05:45",
        "zone": "+0545",
        "weekday": "Friday",
    }


async def test_facts_are_those_of_this_process(root: Path) -> None:
    async with opened(root, *FACTS) as toolbox:
        user = await ask(toolbox, "running-user")
        process = await ask(toolbox, "process-info")
        system = await ask(toolbox, "operating-system")

        assert (user["uid"], user["gid"]) == (os.geteuid(), os.getegid())
        assert (process["pid"], process["parent_pid"]) == (os.getpid(), os.getppid())
        assert process["peak_memory_bytes"] > 1_000_000
        assert system["system"] == os.uname().sysname
        assert await ask(toolbox, "hostname") == socket.gethostname()
        assert await ask(toolbox, "working-directory") == str(root)


async def test_a_user_without_a_name_is_told_by_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.toolboxes.system.facts.os.geteuid", lambda: 4_000_000_000)

    async with opened(root, "running-user") as toolbox:
        told = await ask(toolbox, "running-user")

    assert (told["name"], told["uid"]) == (None, 4_000_000_000)


async def test_uptime_goes_on_with_the_clock(root: Path) -> None:
    clock = ManualClock()
    async with opened(root, "uptime", clock=clock) as toolbox:
        clock.advance(90.5)
        told = await ask(toolbox, "uptime")

    assert told["toolbox_s"] == 90.5
    assert told["machine_s"] is None or told["machine_s"] > 0


VARIABLES = {
    "AGENT_HOME": "/srv",
    "AGENT_API_KEY": "k-123456",
    "AGENT_CALL": "curl -H k-123456",
    "AGENT_DB": "postgres://me:pw@host/db",
    "AGENT_URL": "https://host/a",
    "AGENT_SHORT_TOKEN": "ab",
    "agent_lower": "ab is shown",
    "OTHER": "x",
    "LONG_AGENT": "y" * 3_000,
}


def test_without_a_filter_variables_are_told_by_name_alone() -> None:
    told = environment(None, VARIABLES)

    assert told["names"] == sorted(VARIABLES)
    assert "k-123456" not in str(told)
    assert "/srv" not in str(told)


def test_s25_with_a_filter_values_are_shown_and_secrets_are_masked() -> None:
    shown = environment("AGENT", VARIABLES)["variables"]

    assert shown == {
        "AGENT_API_KEY": MASK,
        "AGENT_CALL": MASK,
        "AGENT_DB": MASK,
        "AGENT_HOME": "/srv",
        "AGENT_SHORT_TOKEN": MASK,
        "AGENT_URL": "https://host/a",
        "LONG_AGENT": "y" * 2_000 + " [... 3,000 characters]",
        "agent_lower": "ab is shown",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "GITHUB_TOKEN", "client_secret", "PGPASSWORD", "DB_PASS", "MYSQL_PWD", "AWS_CREDENTIALS"),
        *("BASIC_AUTH", "COOKIE", "SSH_PRIVATE", "SENTRY_DSN", "SLACK_WEBHOOK", "ssh_passphrase"),
    ],
)
def test_s25_the_name_of_a_secret_masks_its_value_even_when_all_are_asked_for(name: str) -> None:
    assert environment("", {name: "v"})["variables"] == {name: MASK}


async def test_the_environment_is_that_of_the_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_PLACE", "here")
    monkeypatch.setenv("CANARY_API_KEY", "k-123456")

    async with opened(root, "env-vars", env_filter="canary") as toolbox:
        told = await ask(toolbox, "env-vars")

    assert told == {"variables": {"CANARY_API_KEY": MASK, "CANARY_PLACE": "here"}}


async def test_an_unknown_tool_and_a_closed_toolbox_are_failed_calls(root: Path) -> None:
    async with opened(root, "date") as toolbox:
        unknown = await ask(toolbox, "uptime")
    closed = await ask(toolbox, "date")

    assert unknown == Failed(Name("unknown_tool"), "toolbox sys has no tool sys_uptime")
    assert closed == Failed(Name("closed"), "toolbox sys is not open")


async def test_nothing_is_left_of_a_closed_toolbox(root: Path) -> None:
    threads = threading.active_count()
    async with opened(root, "date", "list-directory", sandbox=everything(root)) as toolbox:
        await ask(toolbox, "date")
        await ask(toolbox, "list-directory")
    await toolbox.close()

    assert threading.active_count() == threads

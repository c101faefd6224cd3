"""The frame keeps its word: a light import, a complete table of words, files that are good on every machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentos

ROOT = Path(__file__).parent.parent

LATE = ("agentos.interfaces", "aiosqlite", "alembic", "asyncpg", "cyclopts", "httpx", "lupa", "pydantic", "sqlalchemy")

# The first column of docs/words.md, cell by cell; the mark of the earlier system stands in the document alone.
EARLIER_WORDS = """
    World, Entity, Component, AgentConfig, AgentState, ToolboxConfig/State/Binding, ConversationConfig/State
    TurnConfig/State
    ToolCallConfig, ToolCallState
    LineageFrame, frameType, frameEntityId, frameTimestamp, lineage stack
    EntityId phantom types
    registerComponentStore, getComponent, setComponent, allEntitiesWithComponent
    Resource scopes Program .. ToolCall, Exclusive, ReadWrite, Pool, Stateless access
    persist, load
    SessionRunner, Host.Runner, RunnerClient
    AgentTree, wireAgentTools, two-phase initialization
    BashToolbox, McpToolbox, OpenAPIToolbox, IOTools, SystemToolbox, Subagent tools
    ToolRegistration, Tool/TypedTool, Tool
    Tracer
    AgentBuilder, Agents
    AgentRuntime
    AgentContext
    Agent.newSession, session
    AgentHandle
    RunOutcome
    run_turn, run/runStream/runStreamResult, send_input
    max_turns, maxSteps, max_tool_iterations
    on_event, subscribe_runtime_events, subscribe, AgentEventPublisher, EventBus
    RuntimeEvent, UserEvent, AgentEventType, OutputChunk
    Checkpoint AfterUserInput, BeforeLlm, BeforeToolCalls
    LlmClient, AgentModelClient, LlmProvider, OpenAiClient, AnthropicClient, StreamChunk, LlmCapabilities
    Middleware on_user_message, on_pre_llm, on_post_llm, HookEvent, interceptors
    ToolPolicy, ApprovalHandler, AllowAll, DenyAll, ApprovalRequest, ApprovalDecision, RiskLevel
    PermissionRequest/Response
    AgentToolRegistry / ToolExecutor
    ToolExecutionPipeline, DefaultPipeline, EventEmittingPipeline, ToolEngine, LlmEngine
    ToolErrorRecovery, StopOnError, RetryOnError, ReflexionHandler, CircuitBreaker
    SessionStore, InMemorySessionStore, AgentSession, AgentMemory, SessionManager
    ContextWindowManager, InjectionChain, context injection
    SubAgentTool, SubAgentSessionPolicy, HandoffPolicy
    UpdatePlanTool, AutoContinueTool, ToolEnforcementMiddleware, PlanRunner
    ReActRuntime, CodeActRuntime, DeepResearchRuntime
    AgentTraceListener, RUN STEP MODEL TOOL HANDOFF TEAM_TASK, Debugger
"""

NOT_OURS = {"__pycache__", "build", "dist", "agents-exe"}
FOREIGN = re.compile(
    r"(?:^|[\s\"'`=(])/(?:work|root|home|Users)/"  # a path of one machine
    r"|(?:pypi|pythonhosted|registry\.npmjs|deb\.debian)\.org"
    r"|--(?:extra-)?index-url",
    re.MULTILINE,
)


def test_importing_the_package_loads_no_interface_and_no_heavy_library() -> None:
    program = "import sys, agentos; print('\\n'.join(sys.modules))"

    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "agentos" in modules
    assert [name for name in modules if name.startswith(LATE)] == []


def test_developers_have_what_the_test_extra_names_and_users_do_not() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["test"]

    assert set(extra) <= set(project["dependency-groups"]["dev"])
    for requirement in extra:
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(rf"^{name}==", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE)
        assert not re.search(rf"^{name}==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_the_chat_server_needs_nothing_that_the_package_itself_does_not_bring() -> None:
    program = "import sys, agentos.testing.chat_server; print('\\n'.join(sys.modules))"

    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "h11" in modules
    assert [name for name in modules if name in ("openai", "httpx", "httpx2", "pytest")] == []


@pytest.mark.parametrize("name", agentos.__all__)
def test_every_public_name_is_there_when_it_is_used(name: str) -> None:
    assert getattr(agentos, name) is not None


def test_the_history_loads_none_of_its_parts_before_one_is_used() -> None:
    program = (
        "import sys, agentos.history as history;"
        "parts = lambda: [name for name in sys.modules if name.startswith('agentos.history.')];"
        "print(parts()); history.Difference; print(parts());"
        "print([name for name in history.__all__ if getattr(history, name, None) is None])"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == ["[]", "['agentos.history.report']", "[]"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(agentos, "nothing")  # noqa: B009 - the type checker knows that the name is wrong


def test_the_table_of_words_has_every_earlier_term() -> None:
    rows = [line for line in (ROOT / "docs" / "words.md").read_text().splitlines() if line.startswith("| ")]
    cells = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    found = {term.strip() for cell in cells for term in re.split("[,;]", re.sub(r"\([^)]*\)", "", cell))}

    expected = {term.strip() for line in EARLIER_WORDS.strip().splitlines() for term in line.split(",")}

    assert expected - found == set()


def test_no_file_names_a_path_of_one_machine_or_a_package_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in _files(ROOT)
        for match in FOREIGN.finditer(path.read_text(errors="replace"))
    ]

    assert found == []


def _files(folder: Path) -> Iterator[Path]:
    """All files that are the project's own. It asks the folders, not git, which a machine that only tests may lack."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name == ".ci" or not (path.name.startswith(".") or path.name in NOT_OURS):
                yield from _files(path)
        elif path.is_file():
            yield path

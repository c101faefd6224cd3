"""Commands that stand behind one word: `agentos tool list`."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Group, Listed

TOOL_COMMANDS = (
    Listed(
        "list", "tool:list_tools", "List the tools of the project.", ("agentos tool list", "agentos tool list --json")
    ),
    Listed(
        "describe",
        "tool:describe",
        "Ask a script what it is, and say how that was read.",
        ("agentos tool describe tools/find_text", "agentos tool describe tools/find_text --json"),
    ),
    Listed(
        "check",
        "tool:check",
        "Check scripts, or arguments for one of them.",
        ("agentos tool check tools", 'echo \'{"text": "tool"}\' | agentos tool check tools/find_text --args -'),
    ),
    Listed(
        "call",
        "tool_call:call",
        "Call one tool, without a model and without a record.",
        (
            'echo \'{"text": "tool"}\' | agentos tool call find_text',
            'echo \'{"text": "tool"}\' | agentos tool call ./tools/find_text',
        ),
    ),
)

NEW_COMMANDS = (
    Listed(
        "agent",
        "new:agent",
        "Write a new agent file.",
        ("agentos new agent reviewer", "agentos new agent reviewer --format md --model direct"),
    ),
    Listed(
        "tool",
        "new:tool",
        "Write a new script that is a tool.",
        ("agentos new tool count_lines", "agentos new tool count_lines --lang python"),
    ),
)

SESSION_COMMANDS = (
    Listed(
        "print",
        "session.print_:print_session",
        "Print a session or a conversation as Markdown.",
        (
            "agentos session print conv.0a648c17.json",
            "agentos session print 7hk587xc --show-tool-call-results elided --n-turns 6",
        ),
    ),
    Listed(
        "list-calls",
        "session.list_calls:list_calls",
        "List the calls of a session or a conversation.",
        ("agentos session list-calls conv.0a648c17.json", "agentos session list-calls 7hk587xc --format brief"),
    ),
    Listed(
        "replay-call",
        "session.replay_call:replay_call",
        "Run a recorded call again, with the tool as it is now.",
        (
            "agentos session replay-call -s conv.0a648c17.json -i 3 --validate-only",
            "agentos session replay-call -s 7hk587xc -i 0 -t ./tools/find_text --raw",
        ),
    ),
    Listed(
        "edit",
        "session.edit:edit",
        "Take, drop and censor turns of a session file.",
        ("agentos session edit --drop --count 2 --censor-thinking < conv.0a648c17.json",),
    ),
)

SCENARIO_COMMANDS = (
    Listed(
        "run",
        "scenario:run",
        "Run one scenario, and check what must hold.",
        ("agentos scenario run crash_and_resume", "agentos scenario run my_scenario.yaml --keep run"),
    ),
)

GROUPS = (
    Group("tool", "Look at tools, check them, and call one.", TOOL_COMMANDS),
    Group("new", "Write a new agent or tool.", NEW_COMMANDS),
    Group("session", "Print, list, replay and edit sessions.", SESSION_COMMANDS),
    Group("scenario", "Run scenarios: agents, faults and what must hold, in a file.", SCENARIO_COMMANDS),
)

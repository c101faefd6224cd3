"""Commands that begin: write a project, run its agents, check them."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

AGENTS = (
    Listed(
        "init",
        "project:init",
        "Write a project that runs: an agent and its tools.",
        ("agentos init", "agentos init my-agents"),
    ),
    Listed(
        "run",
        "run:run",
        "Ask an agent, and print its answer.",
        (
            "agentos run -p 'count_words text=\"to be or not to be\"'",
            "agentos run -a helper < question.txt",
            "agentos run --agent-file helper.yaml -p 'help' --json",
            "agentos run 7hk587xc -p 'and then?'",
            "agentos run -p 'What changed?' -s ---- --shell 'git diff' -f notes.txt",
            "agentos run --alias explain -f words.py",
            "agentos run --tenant acme -p 'help'",
            "agentos run --resume",
        ),
    ),
    Listed(
        "chat",
        "chat.command:chat",
        "Talk to an agent.",
        ("agentos chat", "agentos chat -a helper", "agentos chat 7hk587xc", "agentos chat --continue"),
    ),
    Listed(
        "up",
        "up:up",
        "Host the agents of the project until told to end.",
        ("agentos up", "agentos up helper lead --grace 30", "agentos up --json >> up.jsonl"),
    ),
    Listed(
        "stop",
        "stop:stop",
        "Tell 'agentos up' to end, and wait until it has.",
        ("agentos stop", "agentos stop --now", "agentos stop --writer 3 --json"),
    ),
    Listed(
        "check",
        "check_files:check",
        "Check agents, their files and their tools.",
        ("agentos check", "agentos check --no-tools agents/lead.yaml", "agentos check --json"),
    ),
    Listed(
        "tree",
        "tree:tree",
        "Draw which agent may ask which, and their toolboxes.",
        ("agentos tree", "agentos tree agents/lead.yaml --tools"),
    ),
)

"""Commands that look: at what runs, at what is stored, and at what comes."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

LOOKING = (
    Listed(
        "ps",
        "ps:ps",
        "List conversations as processes, now or then.",
        (
            "agentos ps",
            "agentos ps --state running",
            "agentos ps --agent lead --roots --limit 20",
            "agentos ps --after 7hk587xc --json",
            "agentos ps --as-of '10m ago'",
        ),
    ),
    Listed(
        "top",
        "top.command:top",
        "Show what a running kernel does, again and again.",
        ("agentos top", "agentos top --once", "agentos top --json --every 5"),
    ),
    Listed(
        "lsof",
        "lsof:lsof",
        "List what is open, who has it, and who waits for it.",
        ("agentos lsof", "agentos lsof 7hk587xc", "agentos lsof notes --json"),
    ),
    Listed(
        "query",
        "query:query",
        "Ask the store in SQL, as it is or as it was.",
        (
            "agentos query 'select role, text from messages'",
            "agentos query 'select tool, status, count(*) n from tool_calls group by 1, 2' --json",
            "agentos query - < report.sql",
            "agentos query 'select agent, state from conversations' --as-of '10m ago' --agent lead",
            "agentos query 'select role, text from messages' --as-of 40 --log 7hk587xc",
        ),
    ),
    Listed(
        "usage",
        "usage:usage",
        "Count turns, calls and tokens by agent, model, toolbox, root or day.",
        ("agentos usage", "agentos usage --by model", "agentos usage --by day --json"),
    ),
    Listed(
        "show",
        "show:show",
        "Print a conversation as it is or was, or a model request.",
        (
            "agentos show 7hk587xc",
            "agentos show 7hk587xc 12",
            "agentos show 7hk587xc --at 12",
            "agentos show 7hk587xc --request",
        ),
    ),
    Listed(
        "search",
        "search:search",
        "Find what was said, by words, in all conversations.",
        (
            "agentos search budget",
            "agentos search '\"red ball\" -blue' --agent helper --since '7d ago'",
            "agentos search 'conn*' --tool find_text --role tool --newest --json",
        ),
    ),
    Listed(
        "lineage",
        "lineage:lineage",
        "Print the tree of calls through all subagents.",
        (
            "agentos lineage 7hk587xc",
            "agentos lineage 7hk587xc --status failed --agent helper",
            "agentos lineage 7hk587xc --slow 1000 --sums",
            "agentos lineage 7hk587xc --follow",
            "agentos lineage --path call_4d6ypceksc4mmwkk788ra01ymp_6",
        ),
    ),
    Listed(
        "watch",
        "watch:watch",
        "Print the entries of a conversation, then new ones as they come.",
        ("agentos watch 7hk587xc", "agentos watch 7hk587xc --after 12 --json --until-settled"),
    ),
)

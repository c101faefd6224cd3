"""Commands about what was: prove it, try what might have been, erase it."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

HISTORY = (
    Listed(
        "replay",
        "replay:replay",
        "Decide all again from what was recorded; nothing is called.",
        (
            "agentos replay",
            "agentos replay --all --jobs 4",
            "agentos replay 7hk587xc --children",
            "agentos replay 7hk587xc --against agents/helper.yaml",
            "agentos replay 7hk587xc --against prompt.txt --json",
            "agentos replay 7hk587xc --with-model openai:gpt-4.1-mini --turn 2",
            "agentos replay 7hk587xc --with-model --with-tools",
        ),
    ),
    Listed(
        "verify",
        "verify:verify",
        "Recompute digests, commitments and tables from the log.",
        (
            "agentos verify",
            "agentos verify 7hk587xc",
            "agentos verify --anchor /mnt/audit/anchors.jsonl --key env:ANCHOR_KEY",
            "agentos verify talk.zip",
        ),
    ),
    Listed(
        "anchor",
        "anchor:anchor",
        "Write where every log ends to a file kept apart.",
        ("agentos anchor /mnt/audit/anchors.jsonl", "agentos anchor /mnt/audit/anchors.jsonl --key env:ANCHOR_KEY"),
    ),
    Listed(
        "fork",
        "fork:fork",
        "Begin a conversation with what another one had come to.",
        (
            "agentos fork 7hk587xc --at 12",
            "agentos fork 7hk587xc --at 12 --model openai:gpt-4.1-mini --run",
            "agentos fork 7hk587xc --replace-result call_01kb7hk587xc_9=other.txt --run",
            "agentos fork 7hk587xc --at 12 --run --base-url http://127.0.0.1:8000/v1 --api-keys keys.json",
        ),
    ),
    Listed(
        "diff",
        "diff:diff",
        "Show two conversations side by side, from where they part.",
        ("agentos diff 7hk587xc 3fr2m8qa", "agentos diff 7hk587xc 3fr2m8qa --json"),
    ),
    Listed(
        "what-if",
        "fork:what_if",
        "Fork a conversation in several ways, run them, and compare.",
        (
            "agentos what-if 7hk587xc --at 3 --variant same --variant terse:prompt=terse.md",
            "agentos what-if 7hk587xc --at 3 --variant small:model=openai:gpt-4.1-mini,prompt=terse.md --json",
            "agentos what-if 7hk587xc --variant helper:agent=helper -p 'and what do you say?'",
        ),
    ),
    Listed(
        "erase",
        "erase:erase",
        "Erase the texts of a conversation and of all below it.",
        (
            "agentos erase 7hk587xc --dry-run",
            "agentos erase 7hk587xc --with-forks --reason ticket-81 --receipt erased.json",
            "agentos erase --expired --yes",
        ),
    ),
)

"""The commands by name: where each stands, what it is for, and examples. Nothing is imported to list them."""

from __future__ import annotations

from typing import NamedTuple


class Listed(NamedTuple):
    """target is a module of this package and a function in it, imported when the command is called."""

    name: str
    target: str
    help: str
    examples: tuple[str, ...]


COMMANDS = (
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
            "agentos run --resume",
        ),
    ),
    Listed(
        "ps",
        "ps:ps",
        "List conversations as processes.",
        ("agentos ps", "agentos ps --state running", "agentos ps --json"),
    ),
    Listed(
        "query",
        "query:query",
        "Ask the store in SQL.",
        (
            "agentos query 'select role, text from messages'",
            "agentos query 'select tool, status, count(*) n from tool_calls group by 1, 2' --json",
            "agentos query - < report.sql",
        ),
    ),
    Listed(
        "show",
        "show:show",
        "Print a conversation entry by entry, or a model request.",
        ("agentos show 7hk587xc", "agentos show 7hk587xc 12", "agentos show 7hk587xc --request"),
    ),
    Listed(
        "lineage", "lineage:lineage", "Print the tree of calls through all subagents.", ("agentos lineage 7hk587xc",)
    ),
    Listed(
        "watch",
        "watch:watch",
        "Print the entries of a conversation, then new ones as they come.",
        ("agentos watch 7hk587xc", "agentos watch 7hk587xc --after 12 --json --until-settled"),
    ),
    Listed(
        "answer",
        "commands:answer",
        "Answer an approval request, or list those that wait.",
        ("agentos answer", "agentos answer 7hk587xc_6 allow", "agentos answer 7hk587xc_6 deny --reason 'not today'"),
    ),
    Listed("cancel", "commands:cancel", "Cancel the open turn of a conversation.", ("agentos cancel 7hk587xc",)),
    Listed(
        "replay",
        "check:replay",
        "Decide all again from what was recorded; nothing is called.",
        ("agentos replay", "agentos replay 7hk587xc"),
    ),
    Listed(
        "verify",
        "check:verify",
        "Recompute digests, commitments and tables from the log.",
        ("agentos verify", "agentos verify --json"),
    ),
    Listed(
        "demo",
        "demo.command:demo",
        "Let 200 conversations work on the files of a folder.",
        ("agentos demo .", "agentos demo ~/notes --seed 7"),
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
SCENARIO_HELP = "Run scenarios: agents, faults and what must hold, in a file."

EPILOGUE = """Examples:
  agentos init                                     make a project here
  agentos run -p 'count_words text="to be"'        ask its agent
  agentos ps                                       see all conversations
  agentos query 'select role, text from messages'  ask the store
  agentos demo .                                   see 200 conversations at work

Exit codes:
  0 ok, 1 failure, 2 usage, 3 configuration, 4 provider, 5 tool, 6 limit,
  7 refused or waiting for approval, 130 interrupted"""


def names(chain: tuple[str, ...] = ()) -> list[str]:
    """What may stand after these words."""
    if chain == ("scenario",):
        return [command.name for command in SCENARIO_COMMANDS]
    return [*(command.name for command in COMMANDS), "scenario"]


def examples_of(command: Listed) -> str:
    return "Examples:\n" + "\n".join(f"  {line}" for line in command.examples)

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
    Listed(
        "send",
        "send:send",
        "Say something to a conversation, and go on at once.",
        ("agentos send 7hk587xc -p 'and then?'", "agentos send 7hk587xc --key mail-17 < mail.txt"),
    ),
    Listed(
        "answer",
        "commands:answer",
        "Answer an approval request, or list those that wait.",
        ("agentos answer", "agentos answer 7hk587xc_6 allow", "agentos answer 7hk587xc_6 deny --reason 'not today'"),
    ),
    Listed(
        "doubts",
        "doubts:doubts",
        "List calls that may or may not have taken effect.",
        ("agentos doubts", "agentos doubts 7hk587xc --json"),
    ),
    Listed(
        "resolve",
        "doubts:resolve",
        "Say what became of a call in doubt.",
        (
            "agentos resolve 7hk587xc_6 done --result 'receipt 4'",
            "agentos resolve 7hk587xc_6 failed --reason 'not in the ledger'",
            "agentos resolve 7hk587xc_6 retry --by ann",
        ),
    ),
    Listed(
        "cancel",
        "commands:cancel",
        "Cancel the open turn of a conversation.",
        ("agentos cancel 7hk587xc", "agentos cancel 7hk587xc --json"),
    ),
    Listed(
        "pause",
        "pause:pause",
        "Let the open turn of a conversation end, and begin no other.",
        ("agentos pause 7hk587xc", "agentos pause 7hk587xc --json"),
    ),
    Listed(
        "unpause",
        "unpause:unpause",
        "Let a paused conversation go on, an imported one too.",
        ("agentos unpause 7hk587xc", "agentos unpause 7hk587xc --json"),
    ),
    Listed(
        "renice",
        "renice:renice",
        "Give an agent or a tenant another weight where many wait.",
        ("agentos renice", "agentos renice reviewer 0.5", "agentos renice acme 4 --tenant --json"),
    ),
    Listed(
        "release",
        "release:release",
        "Have running kernels give back what they have lent.",
        ("agentos release browser", "agentos release 7hk587xc", "agentos release program --json"),
    ),
    Listed("resume", "unpause:unpause", "Another word for unpause.", ("agentos resume 7hk587xc",)),
    Listed(
        "writers",
        "writers:writers",
        "List the processes that write to the store, or declare one dead.",
        ("agentos writers", "agentos writers --json", "agentos writers --declare-dead 3"),
    ),
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
    Listed(
        "fsck",
        "fsck:fsck",
        "Check that all of the store is whole, and mend its tables.",
        ("agentos fsck", "agentos fsck --repair", "agentos fsck --json"),
    ),
    Listed(
        "copy",
        "copy:copy",
        "Copy a whole store to another place, of whatever kind.",
        (
            "agentos copy sqlite:///.agentos/agentos.db file:backup",
            "agentos copy file:backup 'postgresql://ann@db.example/agents?schema=agentos' --verify",
        ),
    ),
    Listed(
        "export",
        "export:export",
        "Write conversations to one file that proves itself anywhere.",
        (
            "agentos export 7hk587xc talk.zip",
            "agentos export 7hk587xc for-the-auditor.zip --redact",
            "agentos export --all store.zip --json",
        ),
    ),
    Listed(
        "import",
        "import_:import_",
        "Take bundles, and sessions of agents-exe, into the store.",
        (
            "agentos import budget.zip",
            "agentos import budget.zip --dry-run --json",
            "agentos import conv.0a648c17.json",
            "agentos import sessions/*.json --agent reviewer --json",
        ),
    ),
    Listed("upgrade", "upgrade:upgrade", "Bring an older store up to date.", ("agentos upgrade",)),
    Listed(
        "describe",
        "describe:describe",
        "Describe agentos itself as a tool for other agents.",
        ("agentos describe", "agentos describe --slug ask_library --description 'Knows every book.'"),
    ),
    Listed("config", "paths:config", "Print every setting that holds here.", ("agentos config --show-origin",)),
    Listed("paths", "paths:paths", "Print where the project, its store and its keys are.", ("agentos paths",)),
    Listed(
        "doctor", "doctor:doctor", "Look whether everything works here.", ("agentos doctor", "agentos doctor --json")
    ),
    Listed(
        "completion",
        "completion:completion",
        "Print a completion script for a shell.",
        ("agentos completion bash", "agentos completion zsh", "agentos completion fish"),
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


class Group(NamedTuple):
    """Commands that stand behind one word."""

    name: str
    help: str
    commands: tuple[Listed, ...]


GROUPS = (
    Group("tool", "Look at tools, check them, and call one.", TOOL_COMMANDS),
    Group("new", "Write a new agent or tool.", NEW_COMMANDS),
    Group("session", "Print, list, replay and edit sessions.", SESSION_COMMANDS),
    Group("scenario", "Run scenarios: agents, faults and what must hold, in a file.", SCENARIO_COMMANDS),
)

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
    for group in GROUPS:
        if chain == (group.name,):
            return [command.name for command in group.commands]
    return [entry.name for entry in (*COMMANDS, *GROUPS)]


def examples_of(*commands: Listed) -> str:
    return "Examples:\n" + "\n".join(f"  {line}" for command in commands for line in command.examples)

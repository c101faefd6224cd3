"""Commands that tell a conversation, an agent or a process what to do."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

TELLING = (
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
)

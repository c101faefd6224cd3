"""Commands that keep stores, and carry conversations from one to another."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

STORES = (
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
)

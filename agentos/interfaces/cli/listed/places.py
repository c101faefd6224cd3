"""Commands about agentos itself, and the place where it runs."""

from __future__ import annotations

from agentos.interfaces.cli.listed.base import Listed

PLACES = (
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

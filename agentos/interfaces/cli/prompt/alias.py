"""Aliases: prompts with a name, to which a text or a file is added. Those of the project go before the built-in ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal, NamedTuple

from agentos.definitions import Project
from agentos.interfaces.cli.errors import UsageError, hint


class Alias(NamedTuple):
    """input says where the content comes from when no file is named with it: stdin, or the file part behind it."""

    description: str
    template: str
    input: Literal["stdin", "file"]


BUILT_IN: Mapping[str, Alias] = {
    "translate": Alias("put a text into English", "Put this text into English:\n\n{{content}}", "stdin"),
    "summarize": Alias("sum up a text", "Sum up what follows in a few sentences:\n\n{{content}}", "stdin"),
    "code-review": Alias(
        "look for faults in code",
        "Review {{filename}}: name bugs, security problems and hard places, the worst first.\n\n"
        "```{{language}}\n{{content}}\n```",
        "file",
    ),
    "explain": Alias(
        "say what code does",
        "Explain in plain words what {{filename}} does.\n\n```{{language}}\n{{content}}\n```",
        "file",
    ),
}

LANGUAGES: Mapping[str, str] = {
    **dict.fromkeys((".sh", ".bash"), "bash"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".hpp"), "cpp"),
    **dict.fromkeys((".ex", ".exs"), "elixir"),
    **dict.fromkeys((".js", ".mjs"), "javascript"),
    **dict.fromkeys((".kt", ".kts"), "kotlin"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".clj": "clojure",
    ".cs": "csharp",
    ".css": "css",
    ".erl": "erlang",
    ".fs": "fsharp",
    ".go": "go",
    ".hs": "haskell",
    ".html": "html",
    ".java": "java",
    ".json": "json",
    ".lua": "lua",
    ".md": "markdown",
    ".ml": "ocaml",
    ".php": "php",
    ".pl": "perl",
    ".py": "python",
    ".r": "r",
    ".rb": "ruby",
    ".rs": "rust",
    ".sass": "sass",
    ".scala": "scala",
    ".scss": "scss",
    ".sql": "sql",
    ".swift": "swift",
    ".toml": "toml",
    ".ts": "typescript",
    ".vim": "vim",
    ".xml": "xml",
    ".zsh": "zsh",
}
"""What a block of code is called in Markdown, by the end of the file's name."""

_PLACE = re.compile(r"\{\{(content|language|filename)\}\}")


def aliases_of(project: Project | None) -> dict[str, Alias]:
    """All aliases by name."""
    own = project.file.aliases if project is not None else {}
    return {**BUILT_IN, **{name: Alias(one.description, one.template, one.input) for name, one in own.items()}}


def find_alias(aliases: Mapping[str, Alias], name: str) -> Alias:
    """Raises UsageError that lists all of them."""
    alias = aliases.get(name)
    if alias is None:
        known = "\n".join(f"  {one}: {aliases[one].description}".rstrip(": ") for one in sorted(aliases))
        raise UsageError(f"there is no alias {name[:80]!r}{hint(name, aliases) or '.'} There are:\n{known}")
    return alias


def filled(alias: Alias, content: str, file: str | None) -> str:
    """The template with its places filled at once: what the content says of places stays as it is.

    file is the name that the content has, None when it came by stdin; then filename and language are empty.
    """
    path = PurePath(file or "")
    values = {"content": content, "filename": path.name, "language": LANGUAGES.get(path.suffix.lower(), "")}
    return _PLACE.sub(lambda place: values[place[1]], alias.template)

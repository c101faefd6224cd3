"""init: writes a project that runs."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentos.errors import ConfigurationError
from agentos.interfaces.cli.output import put, say

FILES = ("agentos.toml", "agents/helper.yaml", "tools/find_text", "words.py")
EXECUTABLE = frozenset({"tools/find_text"})

NEXT = """
Next:
{enter}  agentos run -p 'help'                          # what the agent can do
  agentos run -p 'count_words text="to be or not"'
  agentos run -p 'find_text text=tool'
  agentos ps
"""


def init(folder: Annotated[Path, Parameter(name="DIR")] = Path(), /) -> None:
    """Write a project that runs at once: agentos.toml, an agent, a script and a Python file as tools.

    Parameters
    ----------
    folder
        where; the current folder by default, made when it is not there. Nothing in it is overwritten.
    """
    existing = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if existing:
        raise ConfigurationError(f"{folder / existing[0]} exists already; nothing was written")
    templates = resources.files("agentos.interfaces.cli") / "templates"
    for name in FILES:
        _write(templates, folder, name)
    put("\n".join(str(folder / name) for name in FILES))  # once all are there: who reads this may hang up any time
    say(NEXT.format(enter="" if folder == Path() else f"  cd {folder}\n").rstrip())


def _write(templates: Traversable, folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(templates.joinpath(name).read_text("utf-8"))
    if name in EXECUTABLE:
        path.chmod(path.stat().st_mode | 0o111)

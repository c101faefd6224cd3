"""new agent, new tool: writes a file that works as it is, to be edited from there."""

from __future__ import annotations

import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, get_args

from cyclopts import Parameter

from agentos.definitions import Project, load_project
from agentos.errors import ConfigurationError
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.output import put, say

Format = Literal["yaml", "toml", "json", "md"]
Language = Literal["bash", "python", "node"]
Force = Annotated[Flag, Parameter(name=["--force", "-f"])]

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_MODEL = re.compile(r"[A-Za-z0-9_-]+([:/].+)?")


def agent(
    slug: str, file: Path | None = None, /, *, model: str = "direct", format: Format | None = None, force: Force = False
) -> None:
    """Write a new agent file: a slug, a model, a prompt and a limit, with what else there is in comments.

    Parameters
    ----------
    slug
        the name of the agent: letters, digits, _ and -
    file
        where; SLUG.yaml in the project's first directory of agents by default, or here without one
    model
        a kind, or kind:name
    format
        yaml, toml, json or md (Markdown with front matter); what the name of the file says, else yaml
    force
        write over a file that is there
    """
    if not _MODEL.fullmatch(model):
        raise UsageError(f"--model is kind or kind:name, not {model[:80]!r}")
    chosen = _format(file, format)
    text = _template(f"agent_{chosen}", _slug(slug)).replace('"@MODEL@"', json.dumps(model))
    project = load_project(Path.cwd())
    path = file or _agents_directory(project) / f"{slug}.{chosen}"
    _write(path, text, force=force)
    put(str(path))
    say(f"Next: agentos run --agent-file {path} -p help")


def tool(slug: str, file: Path | None = None, /, *, lang: Language = "bash", force: Force = False) -> None:
    """Write a new script that is a tool: it describes itself, takes arguments, and runs.

    Parameters
    ----------
    slug
        the name of the tool: letters, digits, _ and -
    file
        where; SLUG in the project's first directory of scripts by default, or here without one
    lang
        bash, python or node
    force
        write over a file that is there
    """
    text = _template(f"tool_{lang}", _slug(slug))
    path = file or _scripts_directory(load_project(Path.cwd())) / slug
    _write(path, text, force=force)
    path.chmod(path.stat().st_mode | 0o111)
    put(str(path))
    shown = path if path.is_absolute() or os.sep in str(path) else Path(os.curdir, path)
    say(f'Next: agentos tool check {shown}, and echo \'{{"text": "a"}}\' | agentos tool call {os.curdir}/{path}')


def _slug(slug: str) -> str:
    if not SLUG.fullmatch(slug):
        raise UsageError(f"{slug[:80]!r} is no slug: letters, digits, _ and -, at most 60, a letter or digit first")
    return slug


def _format(file: Path | None, said: Format | None) -> Format:
    """The format that is said, or that of the file's name; they may not differ."""
    suffix = (file.suffix.removeprefix(".") if file is not None else "") or said or "yaml"
    named = "yaml" if suffix == "yml" else suffix
    if named not in get_args(Format):
        raise UsageError(f"{file}: an agent file ends with .{', .'.join(get_args(Format))}")
    if said not in (None, named):
        raise UsageError(f"{file} is not the name of a {said} file")
    return next(known for known in get_args(Format) if known == named)


def _template(name: str, slug: str) -> str:
    folder = resources.files("agentos.interfaces.cli") / "templates" / "new"
    return folder.joinpath(name).read_text("utf-8").replace("@SLUG@", slug)


def _agents_directory(project: Project | None) -> Path:
    directories = project.file.agents.directories if project is not None else ()
    return _shown(project.root / directories[0]) if project is not None and directories else Path()


def _scripts_directory(project: Project | None) -> Path:
    for spec in project.file.toolboxes.values() if project is not None else ():
        places = [project.root / path for path in getattr(spec, "all_paths", ())] if project is not None else []
        directory = next((place for place in places if place.is_dir()), None)
        if spec.kind == "script" and directory is not None:
            return _shown(directory)
    return Path()


def _shown(path: Path) -> Path:
    """From the current folder, when it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _write(path: Path, text: str, *, force: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} exists already; -f writes over it") from error

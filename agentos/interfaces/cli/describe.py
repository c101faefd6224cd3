"""describe: agentos itself as a tool, so that an agent here may be asked by agents elsewhere.

The command obeys the protocol of scripts: `agentos describe` says what it is, and `agentos run --prompt TEXT` does the
work. A link to it in a directory of tools asks the agents of the project around the folder where scripts run; a script
of two lines asks those of another one:

    #!/bin/sh
    cd /where/the/project/is && exec agentos "$@"
"""

from __future__ import annotations

from pathlib import Path

from agentos.definitions import AgentSpec, load_project
from agentos.errors import UnknownAgent
from agentos.ids import is_name
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.output import put_json

SLUG, DESCRIPTION = "agentos", "Asks an agent, and gives its answer."


def describe(*, slug: str | None = None, description: str | None = None) -> None:
    """Describe agentos as a tool for other agents: a link to this command in a directory of tools is one.

    Its one argument is what to say; whoever calls it asks the default agent of the project that it runs in. Without a
    project, name and description are those of agentos.

    Parameters
    ----------
    slug
        the name of the tool; ask_ and the slug of the agent by default
    description
        what the tool is for; what the agent announces by default
    """
    agent = _default_agent()
    slug = slug or (f"ask_{agent.slug}" if agent is not None else SLUG)
    if not is_name(slug):
        raise UsageError(f"{slug[:80]!r} is no name for a tool (letters, digits and _.:/@+-)")
    if description is None:
        description = DESCRIPTION if agent is None else agent.announce or f"Asks the agent {agent.slug}."
    put_json(description_of(slug, description))


def description_of(slug: str, description: str) -> dict[str, object]:
    """What `describe` prints. A question may have any effect, so it is never asked again by itself."""
    prompt = {
        "name": "prompt",
        "description": "what to say to the agent, whole: it knows nothing of this conversation",
        "type": "string",
        "backing_type": "string",
        "arity": "single",
        "mode": "dashdashspace",
    }
    return {
        "protocol": 1,
        "slug": slug,
        "description": description,
        "args": [prompt],
        "effect": "once",
        "access": "write",
    }


def _default_agent() -> AgentSpec | None:
    """The agent that `agentos run` asks here, None without a project or with several and no default."""
    project = load_project(Path.cwd())
    agents = project.agents() if project is not None else {}
    default = project.default_agent if project is not None else None
    if default is not None:
        if default not in agents:
            raise UnknownAgent(default, list(agents))
        return agents[default]
    return next(iter(agents.values())) if len(agents) == 1 else None

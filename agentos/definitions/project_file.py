"""What `agentos.toml` may say; `project` has an example.

Unknown keys are errors, as in agent files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, Field, field_validator

from agentos.definitions.checking import Parts, did_you_mean
from agentos.definitions.location import DEFAULT_STORE
from agentos.definitions.source import cut
from agentos.definitions.spec import Slug
from agentos.definitions.toolbox_spec import SHARED_MODELS, BoxName, SharedToolbox, Strict, Text, ToolboxSpec
from agentos.settings import Settings

AliasName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class AgentsSection(Strict):
    """Where the agents are; paths count from the folder of this file."""

    files: Sequence[Text] = ()
    directories: Sequence[Text] = ()
    """Folders, each of whose agent files counts; not those of their own folders."""


class PromptAlias(Strict):
    """A prompt with a name. {{content}}, {{filename}} and {{language}} stand for what is put in."""

    description: str = ""
    template: Text
    input: Literal["stdin", "file"] = "stdin"
    """Where the content comes from."""


class ProjectFile(Strict):
    """What the file may say."""

    schema_url: Annotated[str | None, Field(validation_alias="$schema", exclude=True)] = None
    store: Text = DEFAULT_STORE
    """The URL of the store; a relative path counts from the folder of this file."""
    default_agent: Slug | None = None
    """The agent that is asked when none is named."""
    keys: Sequence[Text] = ()
    """Files of keys, to which references such as key:main lead."""
    agents: AgentsSection = AgentsSection()
    toolboxes: dict[BoxName, SharedToolbox] = Field(default_factory=dict)
    """The toolboxes that agents may name."""
    aliases: dict[AliasName, PromptAlias] = Field(default_factory=dict)
    """Prompts for agentos run --alias."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Limits of the kernel, by their names in `agentos.settings`."""

    @field_validator("settings")
    @classmethod
    def _are_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name, value in settings.items():
            if name not in Settings.__struct_fields__:
                near = did_you_mean(name, list(Settings.__struct_fields__))
                raise ValueError(f"no setting {cut(name)!r}{near}")
            try:
                msgspec.convert({name: value}, Settings)
            except msgspec.ValidationError as error:
                raise ValueError(f"{name}: {str(error).partition(' - at ')[0]}") from error
            if not isinstance(value, bool) and value <= 0:
                raise ValueError(f"{name}: {value} is no bound; it has to be above 0")
        return settings


def _toolbox_model(value: Any) -> type[BaseModel]:
    kind = value.get("kind") if isinstance(value, dict) else None
    return SHARED_MODELS.get(kind, ToolboxSpec) if isinstance(kind, str) else ToolboxSpec


PROJECT_PARTS: Parts = {"toolboxes": _toolbox_model, "agents": AgentsSection, "aliases": PromptAlias}

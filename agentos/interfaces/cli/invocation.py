"""What goes for one call of the command: which store it is about, and the words it was called with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

STORE_VARIABLE = "AGENTOS_STORE"


@dataclass(frozen=True, slots=True)
class Invocation:
    """store is what --store says, None when it is not given; tokens are the words of the line without such options."""

    store: str | None = None
    tokens: tuple[str, ...] = ()

    def store_url(self) -> str:
        """The flag, else the environment, else the project's file, else the default. Raises ConfigurationError."""
        given = self.store or os.environ.get(STORE_VARIABLE)
        if given:
            return given
        from agentos.definitions import project_store

        return project_store(Path.cwd())


Flag = Annotated[bool, Parameter(negative="", show_default=False)]
"""A switch that is off unless it is given."""

Here = Annotated[Invocation, Parameter(parse=False)]
"""A command's parameter that the launcher fills in."""

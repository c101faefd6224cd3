"""Tool adapters, and the one way their results are shown. Each kind of toolbox is imported from its own module."""

from agentos.toolboxes.base import (
    CutOff,
    Doubt,
    Failed,
    Finish,
    Reloadable,
    Toolbox,
    ToolboxProblem,
    notes_of,
    problems_of,
)

__all__ = ["CutOff", "Doubt", "Failed", "Finish", "Reloadable", "Toolbox", "ToolboxProblem", "notes_of", "problems_of"]

"""Tool adapters, and the one way their results are shown. Each kind of toolbox is imported from its own module."""

from agentos.toolboxes.base import Doubt, Failed, Finish, Toolbox

__all__ = ["Doubt", "Failed", "Finish", "Toolbox"]

"""Executables that describe themselves, as tools."""

from agentos.toolboxes.script.toolbox import DescribeLimits, ScriptToolbox

__all__ = ["DescribeLimits", "ScriptToolbox"]

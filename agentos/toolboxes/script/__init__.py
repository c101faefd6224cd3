"""Executables that describe themselves, as tools."""

from agentos.toolboxes.script.toolbox import INHERITED, DescribeLimits, ScriptToolbox

__all__ = ["INHERITED", "DescribeLimits", "ScriptToolbox"]

"""What a model may know of the machine it runs on, capability by capability."""

from agentos.toolboxes.system.toolbox import CAPABILITIES, SESSION_CAPABILITIES, SystemLimits, SystemToolbox

__all__ = ["CAPABILITIES", "SESSION_CAPABILITIES", "SystemLimits", "SystemToolbox"]

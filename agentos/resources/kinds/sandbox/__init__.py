"""The kind `sandbox`: a folder that calls write and read below, within bounds, and that no path leads out of."""

from agentos.resources.kinds.sandbox.directory import SandboxDirectory
from agentos.resources.kinds.sandbox.kind import SANDBOX, sandbox_directory
from agentos.resources.kinds.sandbox.limits import SandboxLimits

__all__ = ["SANDBOX", "SandboxDirectory", "SandboxLimits", "sandbox_directory"]

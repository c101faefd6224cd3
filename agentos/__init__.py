"""agentos: an operating-system kernel for agents.

Importing the package loads none of its parts; a public name is imported when it is first used, so that a program pays
only for what it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "AgentSpec",
    "AllowAll",
    "Approval",
    "CallContext",
    "Conversation",
    "DenyAll",
    "Kernel",
    "OpenAIChat",
    "PythonToolbox",
    "RunOutcome",
    "ScriptToolbox",
    "__version__",
    "open",
    "resource",
    "tool",
]

if TYPE_CHECKING:
    from agentos.definitions import AgentSpec
    from agentos.governance.approval import AllowAll, DenyAll
    from agentos.kernel import Conversation, Kernel, RunOutcome, open
    from agentos.models.openai_chat import OpenAIChat
    from agentos.ports import Approval, CallContext
    from agentos.toolboxes.python import PythonToolbox, tool
    from agentos.toolboxes.resource import resource
    from agentos.toolboxes.script import ScriptToolbox

    __version__: str
else:
    # Hidden from the type checker, which would take any name for a good one beside a __getattr__.
    _HOMES = {
        "AgentSpec": "agentos.definitions",
        "AllowAll": "agentos.governance.approval",
        "Approval": "agentos.ports",
        "CallContext": "agentos.ports",
        "Conversation": "agentos.kernel",
        "DenyAll": "agentos.governance.approval",
        "Kernel": "agentos.kernel",
        "OpenAIChat": "agentos.models.openai_chat",
        "PythonToolbox": "agentos.toolboxes.python",
        "RunOutcome": "agentos.kernel",
        "ScriptToolbox": "agentos.toolboxes.script",
        "open": "agentos.kernel",
        "resource": "agentos.toolboxes.resource",
        "tool": "agentos.toolboxes.python",
    }

    def __getattr__(name):
        if name == "__version__":
            value = import_module("importlib.metadata").version("agentos-kernel")
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'agentos' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return __all__

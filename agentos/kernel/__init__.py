"""Opens everything, runs ticks, takes commands and gives entries.

A public name is imported when it is first used: who only reads a store loads no model, no tool and no definition.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Conversation", "Kernel", "RunOutcome", "answer_item", "open"]

if TYPE_CHECKING:
    from agentos.kernel.commands import answer_item
    from agentos.kernel.conversation import Conversation
    from agentos.kernel.kernel import Kernel, open
    from agentos.kernel.outcome import RunOutcome
else:
    _HOMES = {
        "Conversation": "agentos.kernel.conversation",
        "Kernel": "agentos.kernel.kernel",
        "RunOutcome": "agentos.kernel.outcome",
        "answer_item": "agentos.kernel.commands",
        "open": "agentos.kernel.kernel",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'agentos.kernel' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

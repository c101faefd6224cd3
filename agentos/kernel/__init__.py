"""Opens everything, runs ticks, takes commands and gives entries.

A public name is imported when it is first used: who only reads a store loads no model, no tool and no definition.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Conversation",
    "Doubt",
    "ErasePlan",
    "Erasure",
    "Fork",
    "Kernel",
    "Listing",
    "Page",
    "Receipt",
    "RunOutcome",
    "answer_item",
    "doubts_of",
    "open",
    "resolve_item",
]

if TYPE_CHECKING:
    from agentos.kernel.commands import answer_item
    from agentos.kernel.conversation import Conversation, Fork
    from agentos.kernel.doubts import Doubt, doubts_of, resolve_item
    from agentos.kernel.erase_plan import ErasePlan
    from agentos.kernel.erasure import Erasure, Receipt
    from agentos.kernel.kernel import Kernel, open
    from agentos.kernel.listing import Listing, Page
    from agentos.kernel.outcome import RunOutcome
else:
    _HOMES = {
        "Conversation": "agentos.kernel.conversation",
        "Doubt": "agentos.kernel.doubts",
        "ErasePlan": "agentos.kernel.erase_plan",
        "Erasure": "agentos.kernel.erasure",
        "Fork": "agentos.kernel.conversation",
        "Kernel": "agentos.kernel.kernel",
        "Listing": "agentos.kernel.listing",
        "Page": "agentos.kernel.listing",
        "Receipt": "agentos.kernel.erasure",
        "RunOutcome": "agentos.kernel.outcome",
        "answer_item": "agentos.kernel.commands",
        "doubts_of": "agentos.kernel.doubts",
        "open": "agentos.kernel.kernel",
        "resolve_item": "agentos.kernel.doubts",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'agentos.kernel' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

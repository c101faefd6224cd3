"""Opens everything, runs ticks, takes commands and gives entries."""

from agentos.kernel.conversation import Conversation
from agentos.kernel.kernel import Kernel, answer_item, open
from agentos.kernel.outcome import RunOutcome

__all__ = ["Conversation", "Kernel", "RunOutcome", "answer_item", "open"]

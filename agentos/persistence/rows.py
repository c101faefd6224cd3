"""The columns of the projection tables, in the order of their rows in a unit. The column n (the log's number) stands
first in the database and is added by the adapter.

Columns of SET_ONCE keep the value of the first row of their conversation, turn or call; a later row changes the others. Those
of SET_APART are in no row: a unit sets each by itself.
"""

CONVERSATION = (
    "id",
    "agent",
    "state",
    "depth",
    "parent",
    "root",
    "open_turn",
    "turns",
    "steps",
    "calls",
    "input_tokens",
    "output_tokens",
    "started_at",
    "updated_at",
)
TURN = (
    "seq",
    "state",
    "outcome",
    "outcome_name",
    "steps",
    "calls",
    "input_tokens",
    "output_tokens",
    "started_at",
    "finished_at",
    "context",
)
CALL = (
    "seq",
    "turn",
    "step",
    "ordinal",
    "tool",
    "toolbox",
    "effect",
    "status",
    "kind",
    "attempt",
    "child",
    "started_at",
    "finished_at",
    "arguments_seq",
    "arguments_i",
    "result_seq",
    "parent",
)

SET_ONCE = {
    "conversations": ("id", "depth", "parent", "root", "started_at"),
    "turns": ("started_at", "context"),
    "calls": ("turn", "step", "ordinal", "tool", "parent"),
}
SET_APART = {"calls": ("resolution",)}


def message_payload(role: str) -> str:
    """The name of the payload that a message of this role is."""
    return "result" if role == "tool" else "text"

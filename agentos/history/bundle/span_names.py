"""Names of OpenTelemetry's conventions for generative AI that spans carry.

Source: semantic-conventions-genai, gen-ai-agent-spans and gen-ai-spans, status Development; expect renames, here alone.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
WORKFLOW = "gen_ai.workflow.name"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR = "error.type"
SERVICE = "service.name"

INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
FUNCTION = "function"

STATUS = "agentos.status"
SEQ = "agentos.seq"
VERSION = "agentos.version"
OPEN = "agentos.open"
BEGUN = "agentos.begun"
CUT = "agentos.cut"
ABOVE = "agentos.above"
"""Ours, where the conventions have no word: how it ended as the store says it, the seq of its entry, the versions that a
turn ran with, whether it was not over, whether it ever began, whether there is more below than the file has, and the call
above that a tree was cut out from."""

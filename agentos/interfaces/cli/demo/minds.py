"""The models of the demo's agents: functions that read what was said and reply to it, in place of a provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.interfaces.cli.demo.sampling import quoted, unquoted
from agentos.interfaces.cli.output import counted

Reply = Callable[[ModelRequest], ModelReply]

ALONE = "this folder alone"
FOUND_MAX = 10
"""How many lines the tool shows at most."""
CHARS_PER_TOKEN = 4


class Mind:
    """A model client around a function. It counts tokens roughly, and gives its text in pieces as a provider does."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def complete(self, request: ModelRequest, on_delta: Callable[[str], None]) -> ModelReply:
        reply = self._reply(request)
        for piece in re.findall(r"\S+\s*", reply.text):
            on_delta(piece)
        read = sum(len(message.text) for message in request.messages)
        said = len(reply.text) + sum(len(str(call.arguments)) for call in reply.calls)
        usage = Usage(read // CHARS_PER_TOKEN + 1, said // CHARS_PER_TOKEN + 1)
        return ModelReply(reply.text, reply.calls, reply.finish, usage)

    async def close(self) -> None:
        """Nothing is held."""


def librarian(request: ModelRequest) -> ModelReply:
    """Lets one agent search and another count, both at once; keeps a note of what they say, and answers with it."""
    folder, file, word = unquoted(_task(request))
    results = _results(request)
    if not results:
        return _calls(
            _ask(request, "searcher", f"Look for {quoted(word)} in {quoted(file)}."),
            _ask(request, "walker", f"Count what is in {quoted(folder)}."),
        )
    found = " ".join(results[:2])
    if len(results) == 2:
        return _calls(ToolCall("save_note", {"topic": word, "text": found}))
    return ModelReply(found)


def searcher(request: ModelRequest) -> ModelReply:
    """Searches; when nothing is found, looks whether there is anything to find at all."""
    word, file = unquoted(_task(request))
    results = _results(request)
    if not results:
        return _calls(ToolCall("search_text", {"path": file, "text": word}))
    lines = re.findall(r"^\d+:", results[0], re.MULTILINE)
    if lines:
        many = counted(len(lines), "line") if len(lines) < FOUND_MAX else f"{FOUND_MAX} lines or more"
        return ModelReply(f"{quoted(word)} stands in {many} of {quoted(file)}.")
    if len(results) == 1:
        return _calls(ToolCall("count_lines", {"path": file}))
    return ModelReply(f"{quoted(word)} is not in {quoted(file)} ({_numbers(results[1]) or 'which cannot be read'}).")


def walker(request: ModelRequest) -> ModelReply:
    """Counts a folder, and asks itself once more about the place it is in; asked for one folder alone, only counts."""
    task = _task(request)
    (folder,) = unquoted(task)
    results = _results(request)
    count = ToolCall("list_folder", {"path": folder})
    if not results:
        if ALONE in task:
            return _calls(count)
        parent = folder.rpartition("/")[0] or "."
        return _calls(count, _ask(request, "walker", f"Count what is in {quoted(parent)}, {ALONE}."))
    around = f" Around it: {results[1]}" if len(results) > 1 else ""
    return ModelReply(f"{quoted(folder)} has {_numbers(results[0]) or 'no way in'}.{around}")


def clerk(request: ModelRequest) -> ModelReply:
    """Measures a file while it asks how much is known of it, then keeps what is new."""
    file, topic = unquoted(_task(request))
    results = _results(request)
    if not results:
        return _calls(ToolCall("count_lines", {"path": file}), ToolCall("count_notes", {"topic": topic}))
    measure, known = _numbers(results[0]) or "no readable text", results[1]
    if len(results) == 2:
        return _calls(ToolCall("save_note", {"topic": topic, "text": f"{file}: {measure}"}))
    return ModelReply(f"{quoted(file)} has {measure}; notes on {quoted(topic)} before this one: {known}.")


def _calls(*calls: ToolCall) -> ModelReply:
    return ModelReply(calls=calls, finish=Finish.TOOL_USE)


def _ask(request: ModelRequest, slug: str, task: str) -> ToolCall:
    """The tool of this agent that delegates to that one."""
    name = next(tool.name for tool in request.context.tools if tool.subagent == slug)
    return ToolCall(name, {"task": task})


def _turn(request: ModelRequest) -> Sequence[Message]:
    """The messages of the open turn: from the last one of the user on."""
    last = max(n for n, message in enumerate(request.messages) if message.role is Role.USER)
    return request.messages[last:]


def _task(request: ModelRequest) -> str:
    return _turn(request)[0].text


def _results(request: ModelRequest) -> list[str]:
    return [message.text for message in _turn(request) if message.role is Role.TOOL]


def _numbers(text: str) -> str:
    """lines=3 words=7 -> 3 lines, 7 words; empty when the text has none, as a failed call's."""
    return ", ".join(counted(int(number), thing) for thing, number in re.findall(r"(\w+)s=(\d+)", text))

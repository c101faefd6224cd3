"""release: running kernels give back what they have lent; who needs it has it made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agentos.errors import AgentosError, ReleaseFailed, ResourceNotFound, UnknownConversation
from agentos.interfaces.cli.errors import Exit, UsageError, hint
from agentos.interfaces.cli.finding import WORD_MAX, find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, put_json, say
from agentos.interfaces.cli.running import NOT_TAKEN, all_running, process_of, why_not
from agentos.kernel.control import SocketClient
from agentos.kernel.reading import reading


class Told(NamedTuple):
    """What became of the word in one kernel: how many things it gave back, else what it raised."""

    kernel: SocketClient
    given_back: int
    error: AgentosError | None = None

    @property
    def knows(self) -> bool:
        return not isinstance(self.error, ResourceNotFound)

    @property
    def failed(self) -> bool:
        return self.error is not None and self.knows


async def release(name: str, /, *, json: Flag = False, here: Here) -> int:
    """Have running kernels give back what was lent to a conversation, an agent, a toolbox, or to the program.

    They go on, and have it made anew when it is asked for: processes, connections, folders. Whoever holds some of it has a
    moment to give it back; 'agentos lsof NAME' tells who does. The process of a toolbox that ended too often and is not
    started any more is started again by the next call.

    Parameters
    ----------
    name
        an agent or a toolbox by its name, a conversation by its id or a part of it, or 'program'
    json
        print one JSON object: what each kernel gave back
    """
    url, word = here.store_url(), name.strip()
    async with all_running(url) as kernels:
        if not kernels:
            say(await kernels.why_none())
            return Exit.FAILURE
        told = [await _told(kernel, word) for kernel in kernels]
        if not any(one.knows for one in told):
            word = await _meant(url, word, told)
            told = [await _told(kernel, word) for kernel in kernels]
    if json:
        put_json({"name": word, "kernels": [_as_object(one) for one in told]})
    _say(word, told)
    return Exit.FAILURE if any(one.failed for one in told) else Exit.OK


async def _told(kernel: SocketClient, word: str) -> Told:
    try:
        return Told(kernel, await kernel.release(word))
    except (ResourceNotFound, ReleaseFailed, *NOT_TAKEN) as error:
        return Told(kernel, 0, error)


async def _meant(url: str, word: str, told: Sequence[Told]) -> str:
    """A conversation by a part of its id. Raises UsageError for a part that several have, and for what there is nowhere."""
    async with reading(url) as store:
        try:
            return await find_conversation(store, word)
        except UnknownConversation as error:
            known = {name for one in told if isinstance(one.error, ResourceNotFound) for name in one.error.known}
            near = hint(word, known) or "; 'agentos lsof' lists what is lent, and to whom"
            raise UsageError(f"{word[:WORD_MAX]!r} is no agent, toolbox or conversation here{near}") from error


def _say(word: str, told: Sequence[Told]) -> None:
    for one in told:
        if isinstance(one.error, NOT_TAKEN):
            say(f"warning: {why_not(one.kernel, one.error)}")
        elif one.failed:
            say(f"warning: {process_of(one.kernel)}: {one.error}")
        elif one.given_back:
            say(f"{word}: process {one.kernel.greeting.pid} gave back {counted(one.given_back, 'thing')}")
    if not any(one.given_back or one.failed for one in told):
        say(f"{word}: nothing was lent to it")


def _as_object(one: Told) -> dict[str, Any]:
    facts = {"pid": one.kernel.greeting.pid, "writer": one.kernel.greeting.writer, "released": one.given_back}
    return {**facts, "error": str(one.error)} if one.failed else facts

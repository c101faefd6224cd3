"""send: an input for a conversation, to the kernel that runs it; where none can be asked, into its inbox."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentos.definitions import load_project
from agentos.errors import ConversationClosed, InputRefused
from agentos.events.intake import Input
from agentos.ids import LogId, name_of
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_answer, put_json, say
from agentos.interfaces.cli.prompt.options import PromptOptions, prompt_text
from agentos.interfaces.cli.running import given_to_owner
from agentos.kernel.reading import Reading, reading


async def send(
    conversation: str,
    /,
    *,
    options: PromptOptions | None = None,
    key: Annotated[str | None, Parameter(name="--key")] = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Say something to a conversation and go on at once; its turn runs where the conversation does.

    The text is made as that of 'agentos run'. A running turn is let end first. Where no process has the conversation, the
    text waits in the store for 'agentos up', or for 'agentos run --resume'. 'agentos watch ID --until-settled' shows what
    comes of it.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    key
        a name for this input: sent again with it, it is not taken twice
    json
        print one JSON object
    """
    options = options or PromptOptions()
    text = await prompt_text(options, here, load_project(Path.cwd()))
    if options.echo_prompt:
        put_answer(text)
        return Exit.OK
    if not text.strip():
        raise InputRefused("the input is blank; nothing was stored")
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        taken_by = await _sent(store, log, text, name_of(key or uuid.uuid4().hex))
    if json:
        put_json({"conversation": log, "sent": True, "taken_by": taken_by})
    elif taken_by is not None:
        say(f"{log}: process {taken_by} has taken it")
    else:
        say(f"{log}: it waits in the store, for 'agentos up' or 'agentos run --resume'")
    return Exit.OK


async def _sent(store: Reading, log: LogId, text: str, key: str) -> int | None:
    """The process of the kernel that took it, None when it waits in the store. Its key lets it in once, by whatever way.

    Errors: ConversationClosed; ConversationBusy when too much waits there.
    """
    taken = await given_to_owner(store, log, lambda kernel: kernel.send(log, text, key=key), "the input")
    if taken is not None:
        return taken.pid
    ((state,),) = (await store.query("select state from conversations where id = ?", (log,))).rows
    if state == "closed":
        raise ConversationClosed(log)
    await store.post(log, f"input:{key}", Input(text=text, key=name_of(key)))
    return None

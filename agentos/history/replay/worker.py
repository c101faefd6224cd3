"""One of several processes that decide the logs of a store again: see `portions`.

Told on stdin and heard on stdout, a JSON object a line. The end of stdin ends it, also in the middle of a portion.
"""

from __future__ import annotations

import asyncio
import gc
import sys

import msgspec

from agentos.errors import AgentosError
from agentos.history.collecting import GC_THRESHOLD
from agentos.history.reading import Contexts, conversation_row
from agentos.history.replay.deciding import rules_of
from agentos.history.replay.log import replay_row
from agentos.history.replay.results import Divergence, Identical, Skipped
from agentos.persistence import open_store

MODULE = "agentos.history.replay.worker"


class Begin(msgspec.Struct, kw_only=True, tag=True):
    """The first line."""

    url: str


class Portion(msgspec.Struct, kw_only=True, tag=True):
    """Logs to decide again, in this order."""

    logs: list[str]


class Did(msgspec.Struct, kw_only=True, tag=True):
    """The results of a portion, in its order."""

    results: list[Identical | Divergence | Skipped]


class Failed(msgspec.Struct, kw_only=True, tag=True):
    """The store could not be read; the process ends."""

    error: str


Heard = Did | Failed


def main() -> int:
    begin = msgspec.json.decode(sys.stdin.buffer.readline(), type=Begin)
    gc.set_threshold(GC_THRESHOLD)
    return asyncio.run(_live(begin.url))


async def _live(url: str) -> int:
    """Until stdin ends; 1 after a failure."""
    portions: asyncio.Queue[Portion] = asyncio.Queue()
    working = asyncio.get_running_loop().create_task(_work(url, portions))
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        portions.put_nowait(msgspec.json.decode(line, type=Portion))
    working.cancel()
    (ended,) = await asyncio.gather(working, return_exceptions=True)
    return 0 if isinstance(ended, asyncio.CancelledError) else 1


async def _work(url: str, portions: asyncio.Queue[Portion]) -> None:
    store = open_store(url)
    try:
        rules, contexts = rules_of(), Contexts(store)
        while True:
            portion = await portions.get()
            results = [
                await replay_row(store, await conversation_row(store, log), contexts, rules) for log in portion.logs
            ]
            _tell(Did(results=results))
    except AgentosError as error:
        _tell(Failed(error=str(error)))
    except Exception as error:  # who waits for an answer is to get one
        _tell(Failed(error=f"a process that replays failed: {type(error).__name__}: {error}"))
    finally:
        await store.close()


def _tell(words: Heard) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(words) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())

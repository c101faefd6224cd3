"""The chat server as a process: `python -m agentos.testing.chat_server --script FILE`.

Its first line is the URL for clients; each refused request is a line on stderr. SIGTERM and SIGINT end it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from agentos.errors import ConfigurationError
from agentos.testing.chat_server.server import ChatServer


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    key = os.environ.get(options.key_env) if options.key_env else None
    if options.key_env and not key:
        print(f"error: the environment has no {options.key_env}", file=sys.stderr)
        return 3
    try:
        server = ChatServer(options.script, key=key, port=options.port, extra_keys=options.extra_key, on_problem=_tell)
        asyncio.run(_run(server))
    except (ConfigurationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agentos.testing.chat_server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, metavar="FILE", help="YAML or JSON, by model or for all")
    parser.add_argument("--port", type=int, default=0, help="by default one that is free")
    parser.add_argument(
        "--extra-key",
        action="append",
        default=[],
        metavar="NAME",
        help="a key of messages that some servers know beyond the published form, such as reasoning_content",
    )
    parser.add_argument("--key-env", metavar="NAME", help="the variable with the key that clients have to send")
    return parser


async def _run(server: ChatServer) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        print(server.url, flush=True)
        await stop.wait()


def _tell(problem: str) -> None:
    print(problem, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

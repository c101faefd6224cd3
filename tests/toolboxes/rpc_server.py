"""A program that speaks JSON-RPC on its stdin and stdout, well and badly, as the tools that it is asked for say.

python rpc_server.py [WORD ...] changes how it begins: silent, garbage, die, tools=NAME, stubborn, forks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ANY: dict[str, Any] = {"type": "object"}
NAMES = [
    "env",
    "exit",
    "fail",
    "flood",
    "gather",
    "late",
    "lie",
    "long",
    "note",
    "parts",
    "show",
    "twice",
    "until",
    "wait",
]
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "description": "Adds.", "schema": NUMBERS, "effect": "pure", "access": "read"},
    {"name": "vanish", "description": "Ends at once.", "schema": ANY, "effect": "pure"},
    *({"name": name, "description": f"Does {name}.", "schema": ANY} for name in NAMES),
]


class Server:
    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.waiting: list[int] = []
        self.cancelled: list[int] = []

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            if asked.get("method") == "describe":
                self.describe(asked["id"])
            elif asked.get("method") == "$/cancelRequest":
                self.cancelled.append(asked["params"]["id"])
                if asked["params"]["id"] in self.waiting and "stubborn" not in self.words:
                    self.fail(asked["params"]["id"], -32800, "cancelled")
            elif asked.get("method") == "call":
                getattr(self, f"do_{asked['params']['name']}")(asked["id"], asked["params"])

    def describe(self, number: int) -> None:
        if "silent" in self.words:
            return
        if "garbage" in self.words:
            raw(b"[1, 2\n")
            say({"id": number, "result": "tools"})
            return
        if "die" in self.words:
            sys.stderr.write("there is no licence\n")
            sys.exit(7)
        more = [{"name": word.partition("=")[2]} for word in self.words if word.startswith("tools=")]
        say({"id": number, "result": {"protocol": 1, "tools": [*TOOLS, *more]}})

    def fail(self, number: int, code: int, message: str) -> None:
        say({"id": number, "error": {"code": code, "message": message}})

    def do_add(self, number: int, params: dict[str, Any]) -> None:
        say({"id": number, "result": params["arguments"]["a"] + params["arguments"]["b"]})

    def do_wait(self, number: int, params: dict[str, Any]) -> None:
        self.waiting.append(number)
        if path := params["arguments"].get("touch"):
            Path(path).touch()

    def do_until(self, number: int, params: dict[str, Any]) -> None:
        """Answers once a file is there; hears nothing meanwhile."""
        Path(params["arguments"]["touch"]).touch()
        while not Path(params["arguments"]["path"]).exists():
            time.sleep(0.01)
        say({"id": number, "result": "it came"})

    def do_gather(self, number: int, params: dict[str, Any]) -> None:
        """Answers all that wait, the last one first, once there are so many."""
        self.waiting.append(number)
        if len(self.waiting) == params["arguments"]["size"]:
            while self.waiting:
                one = self.waiting.pop()
                say({"id": one, "result": f"request {one}"})

    def do_late(self, number: int, params: dict[str, Any]) -> None:
        """Answers what it was asked before, though nobody waits for it, then this one."""
        for one in self.waiting:
            say({"id": one, "result": "too late"})
        self.waiting.clear()
        say({"id": number, "result": len(self.cancelled)})

    def do_lie(self, number: int, params: dict[str, Any]) -> None:
        """Answers with ids that are near its own, then with its own."""
        for false in (number + 1000, str(number), float(number), True, None, [number], -number):
            say({"id": false, "result": "a lie"})
        raw(b"no JSON at all\n")
        raw(b'{"jsonrpc": "2.0", "id": 1e999, "method": "ask"}\n')
        raw(b'{"jsonrpc": "2.0"}\n')
        raw(b"\xff\xfe\n\n  \n")
        say({"id": number, "result": "the truth"})

    def do_twice(self, number: int, params: dict[str, Any]) -> None:
        say({"id": number, "result": "first"})
        say({"id": number, "result": "second"})

    def do_parts(self, number: int, params: dict[str, Any]) -> None:
        data = line_of({"id": number, "result": "ä" * 10})
        for one in range(len(data)):
            raw(data[one : one + 1])

    def do_long(self, number: int, params: dict[str, Any]) -> None:
        """One line of so many bytes, with its id at the front or at the end."""
        text = "x" * params["arguments"]["size"]
        if params["arguments"].get("front", True):
            say({"id": number, "result": text})
        else:
            raw(json.dumps({"result": text, "jsonrpc": "2.0", "id": number}).encode() + b"\n")

    def do_flood(self, number: int, params: dict[str, Any]) -> None:
        while True:
            raw(b"flood\n" * 1000)

    def do_fail(self, number: int, params: dict[str, Any]) -> None:
        arguments = params["arguments"]
        if "raw" in arguments:
            say({"id": number, "error": arguments["raw"]})
        else:
            self.fail(number, arguments.get("code", 5), arguments.get("text", "it is closed on Sundays"))

    def do_note(self, number: int, params: dict[str, Any]) -> None:
        for part in params["arguments"]["parts"]:
            say({"method": "progress", "params": {"id": number, "data": part}})
        say({"method": "progress", "params": {"id": number + 1, "data": "of another"}})
        say({"method": "changed"})
        say({"id": "mine", "method": "sampling", "params": {}})
        say({"id": number, "result": "noted"})

    def do_show(self, number: int, params: dict[str, Any]) -> None:
        say({"id": number, "result": {"pid": os.getpid(), "call": params["call"], "cwd": os.getcwd()}})

    def do_env(self, number: int, params: dict[str, Any]) -> None:
        say({"id": number, "result": dict(os.environ)})

    def do_exit(self, number: int, params: dict[str, Any]) -> None:
        sys.stderr.write("out of paper\n")
        sys.stderr.flush()
        if params["arguments"].get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)

    def do_vanish(self, number: int, params: dict[str, Any]) -> None:
        os._exit(4)


def line_of(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def say(message: dict[str, Any]) -> None:
    raw(line_of(message))


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def fork_away() -> None:
    """A grandchild in a session of its own, that ignores SIGTERM, and whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)


if __name__ == "__main__":
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "forks" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        fork_away()
    try:
        Server(sys.argv[1:]).serve()
    finally:
        if "stubborn" in sys.argv:
            time.sleep(1000)

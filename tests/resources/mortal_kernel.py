"""A kernel with a process of each kind, none of which ends by itself; run by the test that kills it.

    python -m tests.resources.mortal_kernel FOLDER

It writes the numbers of all processes below it to FOLDER/pids once they are there, and waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil

from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel
from agentos.resources.kinds.jsonrpc import JsonRpcLimits
from agentos.resources.kinds.process import Program, kept_process
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.warden import WARDEN
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from agentos.toolboxes.lua import LuaToolbox
from agentos.toolboxes.script import ScriptToolbox
from tests.resources.hostile import argv, pid_in, python
from tests.support import Mind, call, calls, until

SERVER = Path(__file__).parent.parent / "toolboxes" / "rpc_server.py"


class Deaf:
    """The use of a process that is neither spoken to nor heard."""

    def heard(self, chunk: memoryview) -> None:
        return None

    async def prepare(self, live: LiveProcess) -> None:
        return None

    def lost(self, error: Exception) -> None:
        return None


def write_script(folder: Path) -> None:
    """A tool that ignores SIGTERM, with a descendant that nothing tells of."""
    described = json.dumps({"slug": "hang", "description": "Hangs.", "args": []})
    work = f"run_away({str(folder / 'runaway')!r})\ntell({str(folder / 'script')!r})\ntime.sleep(1000)"
    source = f"import sys\nif sys.argv[1] == 'describe':\n    print({described!r})\n    sys.exit()\n{python(work)}"
    path = folder / "scripts" / "hang"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{source}")
    path.chmod(0o755)


async def fill(kernel: Kernel, folder: Path) -> list[int]:
    """The numbers of the processes that do something, once they do it."""
    server = JsonRpcToolbox(
        "desk", command=[sys.executable, str(SERVER), "stubborn"], cwd=folder, limits=JsonRpcLimits()
    )
    for toolbox in (ScriptToolbox("scripts", directories=[folder / "scripts"], cwd=folder), server, LuaToolbox("calc")):
        await kernel.add_toolbox(toolbox)
    asks = calls(call("hang"), call("wait", touch=str(folder / "asked")), call("calc_run", script="while true do end"))
    boxes = ["scripts", "desk", "calc"]
    await kernel.install(AgentSpec(slug="main", toolboxes=boxes), model=Mind(asks))
    kept = argv(f"tell({str(folder / 'kept')!r})\ntime.sleep(1000)")
    program = Program(argv=tuple(kept), environment={}, cwd="/")
    await kernel.resources.create(kernel.scope, "process", "kept", kept_process(program, Deaf))
    conversation = await kernel.start("main")
    await conversation.send("go")
    there = [await pid_in(folder / name) for name in ("script", "runaway", "kept")]
    await until((folder / "asked").exists)
    assert server.process is not None
    assert server.process.pid is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    return [*there, server.process.pid]


async def main(folder: Path) -> None:
    write_script(folder)
    async with open_kernel("memory:") as kernel:
        there = await fill(kernel, folder)
        below = psutil.Process().children(recursive=True)
        lua = [one.pid for one in below if any("lua" in word for word in one.cmdline())]
        every = {one.pid for one in below} | {*there, *lua}
        tell(folder, [WARDEN.pid, len(lua), *sorted(every)])
        await asyncio.Event().wait()


def tell(folder: Path, numbers: list[int | None]) -> None:
    (folder / "pids.new").write_text(json.dumps(numbers))
    (folder / "pids.new").rename(folder / "pids")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

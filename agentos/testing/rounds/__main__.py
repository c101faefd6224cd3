"""python -m agentos.testing.rounds COUNT [KIND ...]: so many rounds of each kind, and what they leave, a line for each."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentos.testing.rounds.counting import counted
from agentos.testing.rounds.kinds import KINDS


async def tell(count: int, names: Sequence[str]) -> None:
    """Prints a line for each kind."""
    print(f"{'kind':<18}{'rounds':>8}{'us a round':>12}{'blocks a round':>16}{'bytes a round':>15}  left open")
    with tempfile.TemporaryDirectory(prefix="agentos-rounds-") as folder:
        for name in names:
            one = await counted(name, Path(folder), count)
            blocks, resident = ((after - before) / count for before, after in (one.blocks, one.bytes))
            print(f"{name:<18}{count:>8}{one.us:>12,.0f}{blocks:>16.3f}{resident:>15.1f}  nothing", flush=True)


if __name__ == "__main__":
    asyncio.run(tell(int(sys.argv[1]), sys.argv[2:] or list(KINDS)))

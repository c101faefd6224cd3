"""Every kind of resource opened and closed 2,000 times: memory, and what is open, stay as they were.

`python -m agentos.testing.rounds 10000` does more of them, and takes several minutes.
"""

from __future__ import annotations

from pathlib import Path

from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.rounds import KINDS, counted

COUNT, SLOW_COUNT = 2_000, 200
"""How often; the second where it is a process that is started."""
FIGURES = {
    "rounds blocks": Figure("blocks of memory after the rounds / before, the worst kind", 1.005),
    "rounds bytes": Figure("resident bytes after / before, the worst kind", 1.10),
    **{f"rounds {name}": Figure("us, made, lent, used, given back and closed") for name in KINDS},
}


async def rounds(folder: Path, count: int = COUNT, slow_count: int = SLOW_COUNT) -> Samples:
    """Raises Leaked for anything that stays open."""
    found = {name: await counted(name, folder, slow_count if kind.slow else count) for name, kind in KINDS.items()}
    blocks = max((one.blocks for one in found.values()), key=_grown)
    resident = max((one.bytes for one in found.values()), key=_grown)
    return {
        "rounds blocks": [(blocks[1], blocks[0])],
        "rounds bytes": [(resident[1], resident[0])],
        **{f"rounds {name}": [(one.us, None)] for name, one in found.items()},
    }


def _grown(pair: tuple[int, int]) -> float:
    return pair[1] / pair[0]

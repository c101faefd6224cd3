"""Runs one command of agentos again and again in one process, and tells how long each run took.

    python -m agentos.testing.bench.command COUNT WORD ...

Prints the milliseconds of each run, one a line. Imports are done by a run that does not count.
"""

from __future__ import annotations

import io
import runpy
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout


def elapsed_ms(words: Sequence[str]) -> float:
    """One run, as `python -m agentos` makes it; what it prints is dropped. Raises RuntimeError when it fails."""
    said = io.StringIO()
    begun = time.perf_counter()
    sys.argv[1:] = words
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            runpy.run_module("agentos", run_name="__main__")
        except SystemExit as end:
            code = end.code
    if code:
        raise RuntimeError(f"agentos {' '.join(words)} ended with {code}: {said.getvalue()}")
    return (time.perf_counter() - begun) * 1_000


def main() -> int:
    count, *words = sys.argv[1:]
    elapsed_ms(words)
    for _ in range(int(count)):
        print(elapsed_ms(words))
    return 0


if __name__ == "__main__":
    sys.exit(main())

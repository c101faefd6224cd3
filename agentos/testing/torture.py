"""`make torture`: real processes, real files, real SIGKILL, until nothing is left to chance.

    python -m agentos.testing.torture --kills 100 --seed 1

Each life is a process of its own over one SQLite store. It takes up what the last one left, sends new inputs, and is killed
at a point that the seed chooses: so many signs of life after it began (a model asked, a tool before or after its effect, an
input acknowledged). Tools append a line with their call's key to an effect file and sync it. The last life ends everything;
then the store and the effect file must tell the same story.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from agentos.testing.torture_checks import Findings, check
from agentos.testing.torture_life import live

SIGNS = {"m": "model asked", "b": "tool, before its effect", "e": "tool, after its effect", "a": "input acknowledged"}
SIGNS_MAX = 40
PAUSE_MAX_S = 0.004
PATIENCE_S = 60.0


class Run(msgspec.Struct):
    """What the parent saw of all lives."""

    kills: Counter[str] = msgspec.field(default_factory=Counter)
    acknowledged: list[tuple[str, int]] = []
    broken: list[str] = []
    lives: int = 0


def torture(kills: int, seed: int, folder: Path) -> tuple[Run, Findings]:
    """Lives and kills until there were enough, a last life that ends by itself, then the checks."""
    random, run = Random(seed), Run()
    while run.kills.total() < kills:
        run.lives += 1
        if run.lives > kills * 5:
            run.broken.append(f"only {run.kills.total()} of {run.lives} lives could be killed")
            break
        _one_life(folder, random.randrange(2**32), run, signs=random.randint(1, SIGNS_MAX), random=random)
    run.lives += 1
    _one_life(folder, seed, run, signs=None, random=random)
    return run, asyncio.run(check(folder, run.acknowledged))


def _one_life(folder: Path, seed: int, run: Run, *, signs: int | None, random: Random) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _be_the_child(folder, seed, writing, last=signs is None)
    os.close(writing)
    try:
        last = _listen(reading, run, signs)
        if signs is not None and last is not None:
            time.sleep(random.random() * PAUSE_MAX_S)
            os.kill(child, signal.SIGKILL)
            run.kills[last] += 1
        _drain(reading, run)
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if signs is None and status != 0:
        run.broken.append(f"the last life ended with status {status}")
    elif signs is not None and last is None and status != 0:
        run.broken.append(f"a life ended by itself with status {status}")


def _be_the_child(folder: Path, seed: int, writing: int, *, last: bool) -> None:
    """Never returns: a forked process must not run its parent's code to the end."""
    status = 1
    try:
        asyncio.run(live(folder, seed, lambda sign: os.write(writing, f"{sign}\n".encode()), last=last))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _listen(reading: int, run: Run, signs: int | None) -> str | None:
    """The sign at which the life is to end; None when it ended before."""
    text = b""
    seen = 0
    while True:
        ready, _, _ = select.select([reading], [], [], PATIENCE_S)
        if not ready:
            run.broken.append(f"no sign of life for {PATIENCE_S:g} s")
            return "silence"
        data = os.read(reading, 65_536)
        if not data:
            return None
        text += data
        *lines, text = text.split(b"\n")
        for line in lines:
            seen += _note(line.decode(), run)
            if signs is not None and seen >= signs:
                for rest in lines[lines.index(line) + 1 :]:
                    _note(rest.decode(), run)
                _note_rest(text, reading, run)
                return line.decode()[:1]


def _note(line: str, run: Run) -> int:
    """Whether the line counts as a sign of life."""
    if line[:1] == "a":
        log, seq = line[1:].split()
        run.acknowledged.append((log, int(seq)))
    elif line[:1] == "!":
        run.broken.append(line[1:])
        return 0
    return 1


def _note_rest(text: bytes, reading: int, run: Run) -> None:
    """A line that the pipe has in part is read to its end: it may be an acknowledgement."""
    while text and not text.endswith(b"\n"):
        data = os.read(reading, 1)
        if not data:
            return
        text += data
    if text:
        _note(text.decode().rstrip("\n"), run)


def _drain(reading: int, run: Run) -> None:
    text = b""
    while data := os.read(reading, 65_536):
        text += data
    for line in text.split(b"\n")[:-1]:
        _note(line.decode(), run)


def table(run: Run, findings: Findings) -> str:
    """What a person reads."""
    rows: list[tuple[str, object]] = [("lives", run.lives), ("kills", run.kills.total())]
    rows += [(f"  {SIGNS.get(sign, sign)}", count) for sign, count in sorted(run.kills.items())]
    rows += [("inputs acknowledged", len(run.acknowledged)), *findings.rows()]
    return "\n".join(f"{name:34} {value!s:>8}" for name, value in rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="agentos.testing.torture", description="Kills kernels and looks what is left."
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="agentos-torture-") as folder:
        run, findings = torture(options.kills, options.seed, Path(folder))
    print(table(run, findings))
    broken = [*run.broken, *findings.broken]
    for problem in broken[:50]:
        print(f"broken: {problem}")
    print("ok" if not broken else f"{len(broken)} promises broken")
    return 0 if not broken else 1


if __name__ == "__main__":
    sys.exit(main())

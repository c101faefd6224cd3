"""Lives that end by SIGKILL, one after the other; or one life, and a server that is killed again and again."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from random import Random

import msgspec

from agentos.testing.forked import Forked, Silence, Tell
from agentos.testing.postgres import PostgresServer
from agentos.testing.torture_checks import Findings, check
from agentos.testing.torture_life import live, stay, warm
from agentos.testing.torture_places import PATIENCE_S, Place

SIGNS = {
    "d": "opened, the dead noticed",
    "m": "model asked",
    "b": "tool, before its effect",
    "e": "tool, after its effect",
    "a": "input acknowledged",
    "o": "outcome told",
    "u": "command refused, store out of reach",
    "r": "asked once more, completed",
}
"""What a life tells; a line that begins with "!" is a broken promise."""
SIGNS_MAX = 40
SERVER_SIGNS_MAX = 200
PAUSE_MAX_S = 0.004
AWAY_MAX_S = 1.0
CHECK_S = 600.0


class Run(msgspec.Struct):
    """What the parent saw of all lives."""

    lives: int = 0
    kills: Counter[str] = msgspec.field(default_factory=Counter)
    servers: Counter[str] = msgspec.field(default_factory=Counter)
    acknowledged: list[tuple[str, int]] = []
    told: dict[str, str] = {}
    refused: int = 0
    resumable: set[str] = msgspec.field(default_factory=set)
    noticed_ms: int = 0
    broken: list[str] = []

    def note(self, line: str) -> str:
        """The sign that the line is; "" for a broken promise, which is none."""
        sign, said = line[:1], line[1:]
        if sign == "!":
            self.broken.append(said)
            return ""
        if sign == "a":
            log, seq = said.split()
            self.acknowledged.append((log, int(seq)))
        elif sign == "o":
            turn, outcome = said.split()
            self.told[turn] = outcome
        elif sign == "d":
            self.noticed_ms = max(self.noticed_ms, int(said))
        elif sign == "r":
            self.resumable.add(said)
        self.refused += sign == "u"
        return sign


def kill_kernels(place: Place, kills: int, seed: int) -> Run:
    """Lives and kills until there were enough or something broke, and a last life that ends by itself."""
    warm()
    random, run = Random(seed), Run()
    while run.kills.total() < kills and not run.broken:
        _one_life(place, random, run, signs=random.randint(1, SIGNS_MAX))
    _one_life(place, random, run, signs=None)
    return run


def _one_life(place: Place, random: Random, run: Run, *, signs: int | None) -> None:
    """signs: after how many of them it is killed."""
    run.lives += 1
    seed, seen = random.getrandbits(32), 0

    def work(tell: Tell) -> None:
        logging.disable(logging.WARNING)  # that a death has left traces is no news
        asyncio.run(live(place, seed, tell, last=signs is None))

    with Forked(work) as child:
        try:
            for line in child.lines(PATIENCE_S):
                sign = run.note(line)
                seen += bool(sign)
                if seen == signs and sign:
                    time.sleep(random.random() * PAUSE_MAX_S)
                    child.kill()
                    run.kills[sign] += 1
        except Silence as silence:
            run.broken.append(f"life {run.lives}: {silence}")
            child.kill()
    if child.status not in (0, -signal.SIGKILL):
        run.broken.append(f"life {run.lives} ended by itself with status {child.status}")


def kill_servers(place: Place, kills: int, seed: int) -> Run:
    """One life at work. Its server is killed, or stopped without a checkpoint, at moments that the seed chooses by signs
    of life, and is started again at once or a little later."""
    assert place.server is not None, "a server of this process"
    random, run = Random(seed), Run(lives=1)

    def work(tell: Tell) -> None:
        logging.disable(logging.WARNING)  # that the server is away is no news
        asyncio.run(stay(place, seed, tell))

    with Forked(work) as child:
        try:
            left = random.randint(1, SERVER_SIGNS_MAX)
            for line in child.lines(PATIENCE_S):
                left -= bool(run.note(line))
                if left <= 0 and run.servers.total() < kills:
                    run.servers[_put_down(place.server, random)] += 1
                    left = random.randint(1, SERVER_SIGNS_MAX)
                    if run.servers.total() == kills:
                        child.send(signal.SIGTERM)
        except Silence as silence:
            run.broken.append(f"the kernel: {silence}")
            child.kill()
    if child.status:
        run.broken.append(f"the kernel ended with status {child.status}")
    return run


def _put_down(server: PostgresServer, random: Random) -> str:
    time.sleep(random.random() * PAUSE_MAX_S)
    if random.random() < 0.5:
        server.restart("immediate")
        return "restarted at once, no checkpoint"
    server.kill()
    time.sleep(random.choice((0.0, random.random() * AWAY_MAX_S)))
    server.start()
    return "killed, and started again"


def findings_of(place: Place, run: Run) -> Findings:
    """What a process finds in the store that had no part in it."""

    def work(tell: Tell) -> None:
        found = asyncio.run(check(place, run.acknowledged, run.told))
        tell(msgspec.json.encode(found).decode())

    with Forked(work) as child:
        said = list(child.lines(CHECK_S))
    if child.status:
        return Findings(broken=[f"the checks ended with status {child.status}"])
    return msgspec.json.decode(said[0], type=Findings)

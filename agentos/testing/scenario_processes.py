"""Several processes at once in a scenario: starts them, tells each its steps, freezes, wakes, kills and closes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from agentos.testing.scenario_boxes import environment
from agentos.testing.scenario_file import Scenario
from agentos.testing.scenario_life import Carried
from agentos.testing.scenario_process import MODULE, Begin, Begun, Close, Do, Done, Heard, Stand, Told
from agentos.testing.scenario_result import StepResult
from agentos.testing.scenario_steps import Tell
from agentos.testing.scenario_words import Step
from agentos.testing.scenario_world import at_work, logs_in, without

T = TypeVar("T")

IDS_APART = 1_000_000
"""How far apart the ids lie that processes make at the same time."""
_ends = count(1)


class _Process:
    """One process by its name, over all its lives; carried is what its last one left."""

    def __init__(self, name: str, place: int) -> None:
        self.name, self.lives, self.writer, self.ended = name, 0, 0, 0
        self.carried = Carried(ids_made=place * IDS_APART)
        self.child: subprocess.Popen[bytes] | None = None
        self.is_frozen = False

    def begin(self, scenario: Scenario, folder: Path, url: str) -> None:
        self.lives += 1
        self.child = subprocess.Popen(
            [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        begin = Begin(
            file=str(scenario.path.absolute()),
            folder=str(folder),
            process=self.name,
            number=self.lives,
            carried=self.carried,
            url=url,
        )
        self.writer = self.ask(begin, Begun).writer

    def ask(self, told: Told, answer: type[T]) -> T:
        """What the child says to it."""
        child = self._here()
        assert child.stdin is not None and child.stdout is not None, "both are pipes"
        child.stdin.write(msgspec.json.encode(told) + b"\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"the process {self.name} ended by itself, with code {child.wait()}")
        heard = msgspec.json.decode(line, type=Heard)
        assert isinstance(heard, answer), f"{self.name} said {type(heard).__name__}"
        return heard

    def freeze(self) -> None:
        """By SIGSTOP; it stands still when this returns."""
        child = self._here()
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        self.is_frozen = True

    def thaw(self) -> None:
        self._here().send_signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> int:
        """By SIGKILL, after its last words; returns the code with which it ended."""
        self.carried = self.ask(Stand(), Carried)
        child = self._here()
        child.kill()
        return self._gone(child)

    def close(self) -> int:
        if self.is_frozen:
            self.thaw()
        self.carried = self.ask(Close(), Carried)
        return self._gone(self._here())

    def end(self) -> None:
        """However it goes."""
        if self.child is not None:
            self.child.kill()
            self._gone(self.child)

    def _gone(self, child: subprocess.Popen[bytes]) -> int:
        child.communicate()
        self.ended = next(_ends)
        self.child = None
        return child.returncode

    def _here(self) -> subprocess.Popen[bytes]:
        assert self.child is not None, f"{self.name} is gone; the scenario was checked for that"
        return self.child


class Processes:
    """All processes of a scenario, for the length of a block; none is left behind."""

    def __init__(self, scenario: Scenario, folder: Path, url: str, tell: Tell) -> None:
        self._scenario, self._folder, self._url, self._tell = scenario, folder, url, tell
        self._all = {name: _Process(name, place) for place, name in enumerate(scenario.processes)}
        self._names: dict[str, str] = {}
        self._own: dict[str, Callable[[_Process], str]] = {
            "freeze": _freeze,
            "thaw": _thaw,
            "kill": _kill,
            "close": _close,
            "reopen": self._reopen,
        }

    def __enter__(self) -> Processes:
        for process in self._all.values():
            process.begin(self._scenario, self._folder, self._url)
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._all.values():
            process.end()

    def live(self) -> Carried | None:
        """Does all steps, and closes what is there at the end; None when a step failed."""
        for n, step in enumerate(self._scenario.steps):
            result = self._do(n, step)
            self._tell(result)
            if result.wrong:
                return None
        for process in self._all.values():
            if process.child is not None and (code := process.close()):
                raise RuntimeError(f"the process {process.name} ended with code {code}")
        return merged(process.carried for process in sorted(self._all.values(), key=lambda one: one.ended))

    def _do(self, n: int, step: Step) -> StepResult:
        process = self._all[self._scenario.process_of(step)]
        own = self._own.get(step.word)
        if own is None:
            writers = {name: other.writer for name, other in self._all.items()}
            done = process.ask(Do(step=n, names=self._names, writers=writers), Done)
            self._names = done.names
            return done.result
        saw, line = own(process), self._scenario.line(n)
        return StepResult(life=process.lives, line=line, word=step.word, saw=[saw], child=True, process=process.name)

    def _reopen(self, process: _Process) -> str:
        process.begin(self._scenario, self._folder, self._url)
        return f"another kernel of {process.name}; what its last one had open is not taken up yet"


def _freeze(process: _Process) -> str:
    process.freeze()
    return f"SIGSTOP: {process.name} stands still, and keeps what it has"


def _thaw(process: _Process) -> str:
    process.thaw()
    return f"SIGCONT: {process.name} goes on as if nothing had been"


def _kill(process: _Process) -> str:
    code = process.kill()
    return f"SIGKILL {at_work(process.carried.world)}: the process ended by signal {-code}"


def _close(process: _Process) -> str:
    process.close()
    return f"{process.name} is closed in good order, {at_work(process.carried.world)}"


def merged(carried: Iterable[Carried]) -> Carried:
    """What all of them left, in the order in which they ended: of a conversation that several had, the last one counts."""
    whole = Carried()
    for one in carried:
        whole.names |= one.names
        whole.elapsed_s = max(whole.elapsed_s, one.elapsed_s)
        whole.ids_made = max(whole.ids_made, one.ids_made)
        whole.released = sorted({*whole.released, *one.released})
        for toolbox, most in one.most_inside.items():
            whole.most_inside[toolbox] = max(most, whole.most_inside.get(toolbox, 0))
        whole.world = without(whole.world, logs_in(one.world)) | one.world
        whole.checks += one.checks
        whole.broken += one.broken
    return whole

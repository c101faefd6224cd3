"""Calls the command as people do: in a process of its own, in a folder, over a real SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from agentos.interfaces.cli import main
from tests.cli.forks import Forks

ROOT = Path(__file__).parents[2]
LIMIT_S = 60
_OF_THE_START = ("PYTHON", "LC_", "LANG", "LD_")
_HIDDEN = ("AGENTOS_STORE", "AGENTOS_DEBUG", "NO_COLOR", "PYTHONUTF8", "PYTHONIOENCODING")


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What --json printed."""
        return json.loads(self.out)


class Cli:
    """The command in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        *words: str,
        code: int = 0,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Result:
        """Runs to the end, and checks the exit code. What the interpreter reads at its start needs one of its own."""
        run = _interpreted if any(name.startswith(_OF_THE_START) for name in env or ()) else _forks().run
        ended, out, err = run(
            words, stdin=stdin.encode(), cwd=folder or self.folder, env=environment(env), timeout_s=LIMIT_S
        )
        result = Result(ended, out.decode(), err.decode())
        assert result.code == code, f"{words} ended with {result.code}, not {code}:\n{result.err}\n{result.out}"
        return result

    def read(self, *words: str, code: int = 0) -> Result:
        """The same within this process, for a command that only reads and was called as a process elsewhere."""
        out, err = (TextIOWrapper(BytesIO(), "utf-8") for _ in range(2))
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, environment(None)):
            for name in _HIDDEN:
                os.environ.pop(name, None)
            ended = main(list(words))
        result = Result(int(ended), *(_written(stream) for stream in (out, err)))
        assert result.code == code, f"{words} ended with {result.code}, not {code}:\n{result.err}\n{result.out}"
        return result

    @contextmanager
    def start(self, *words: str, stdin: Path = Path(os.devnull)) -> Iterator[subprocess.Popen[str]]:
        """Starts and goes on at once; what still runs at the end of the block is killed."""
        with (
            stdin.open() as said,
            subprocess.Popen(
                command(words),
                stdin=said,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env=environment(None),
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def write(self, name: str, text: str, *, executable: bool = False) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(0o755)
        return path

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query over the project's store, read by SQLite alone."""
        url = f"file:{self.folder}/.agentos/agentos.db?mode=ro"
        with closing(sqlite3.connect(url, uri=True)) as db:
            return db.execute(sql).fetchall()

    def ids(self, agent: str | None = None) -> list[str]:
        """The conversations of an agent, or all, oldest first."""
        found = self.rows("select id, agent from conversations order by started_at, id")
        return [id_ for id_, slug in found if agent in (None, slug)]

    def id(self, agent: str) -> str:
        """The last conversation of an agent."""
        return self.ids(agent)[-1]

    def until(self, holds: Callable[[], bool]) -> None:
        """Waits for something that another process does."""
        end = time.monotonic() + LIMIT_S
        while not _holds(holds):
            assert time.monotonic() < end, "it never came true"
            time.sleep(0.05)


@cache
def _forks() -> Forks:
    return Forks(ROOT)


def _interpreted(
    words: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> tuple[int, bytes, bytes]:
    ended = subprocess.run(
        command(words), input=stdin, capture_output=True, cwd=cwd, env=env, timeout=timeout_s, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue().decode()


def _holds(condition: Callable[[], bool]) -> bool:
    """Also false while the store is being made."""
    try:
        return condition()
    except sqlite3.OperationalError:
        return False


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "agentos", *words]


def environment(more: Mapping[str, str] | None) -> dict[str, str]:
    """That of this process without what would change the outcome; the package comes from this tree."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


def entry_of(entries: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    return next(entry for entry in entries if entry["kind"] == kind)

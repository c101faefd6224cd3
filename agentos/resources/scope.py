"""Scopes: every live thing belongs to one, and is given back when it ends, however it ends.

Scopes form a tree by ownership: program > agent, program > toolbox, agent > conversation > turn > call. A scope is a plain
object; it holds no task and no cancel scope.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from enum import IntEnum

from agentos.errors import ReleaseFailed

Release = Callable[[], Awaitable[None] | None]


class Level(IntEnum):
    """The six scopes, widest first."""

    PROGRAM = 0
    AGENT = 1
    TOOLBOX = 2
    CONVERSATION = 3
    TURN = 4
    CALL = 5


class Scope:
    """A stack of releases under a path. `close` runs them newest first, children before what came before them."""

    __slots__ = ("_children", "_parent", "_releases", "closed", "level", "path", "release_s")

    def __init__(self, level: Level, name: str, parent: Scope | None = None, release_s: float = 10.0) -> None:
        self.level = level
        self.path: tuple[str, ...] = (*parent.path, name) if parent is not None else (name,)
        self.release_s = release_s
        self.closed = False
        self._parent = parent
        self._releases: list[tuple[str, Release]] = []
        self._children: dict[str, Scope] = {}
        if parent is not None:
            if parent.level >= level:
                raise ValueError(f"a {level.name} scope cannot be inside a {parent.level.name} scope")
            parent._children[name] = self
            parent._releases.append((name, self.close))

    def child(self, level: Level, name: str) -> Scope:
        """The open scope of this name inside this one; made when there is none."""
        found = self._children.get(name)
        return found if found is not None else Scope(level, name, self, self.release_s)

    def find(self, name: str) -> Scope | None:
        return self._children.get(name)

    @property
    def children(self) -> tuple[Scope, ...]:
        """The open scopes right inside this one, oldest first."""
        return tuple(self._children.values())

    def push(self, name: str, release: Release) -> None:
        """Has something released when the scope ends. Raises RuntimeError when it has ended."""
        if self.closed:
            raise RuntimeError(f"scope {'/'.join(self.path)} has ended; {name} would never be released")
        self._releases.append((name, release))

    @property
    def open(self) -> int:
        """How many things it still has to give back, those of its children included."""
        own = sum(name not in self._children for name, _ in self._releases)
        return own + sum(child.open for child in self._children.values())

    async def close(self) -> None:
        """Releases everything, newest first, each within release_s; one failure stops nothing.

        Errors: ReleaseFailed, with every failure, once all were tried. A second close does nothing.
        """
        if self.closed:
            return
        self.closed = True
        failures: list[tuple[str, BaseException]] = []
        while self._releases:
            name, release = self._releases.pop()
            await self._release(name, release, failures)
        if self._parent is not None:
            self._parent._forget(self.path[-1])
        if failures:
            raise ReleaseFailed("/".join(self.path), failures)

    def _forget(self, name: str) -> None:
        self._children.pop(name, None)
        self._releases = [(known, release) for known, release in self._releases if known != name]

    async def _release(self, name: str, release: Release, failures: list[tuple[str, BaseException]]) -> None:
        """Shielded: a cancelled closer still gives everything back, and is cancelled after."""
        try:
            waiting = release()
            if inspect.isawaitable(waiting):
                task = asyncio.ensure_future(asyncio.wait_for(waiting, self.release_s))
                await _shielded(task)
        except ReleaseFailed as error:
            failures.extend(error.failures)
        except Exception as error:
            failures.append((name, error))


async def _shielded(task: asyncio.Future[None]) -> None:
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception:
            break
    task.result()
    if cancelled is not None:
        raise cancelled

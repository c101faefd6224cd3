"""Scopes: every live thing belongs to one, and is given back when it ends, however it ends.

Scopes form a tree by ownership: program > agent, program > toolbox, agent > conversation > turn > call. A scope is a
plain object; it holds no task and no cancel scope.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from enum import IntEnum

from agentos.errors import ReleaseFailed, ResourceScopeInvalid
from agentos.resources.finishing import finish

Release = Callable[[], Awaitable[None] | None]


class Level(IntEnum):
    """The six scopes, widest first."""

    PROGRAM = 0
    AGENT = 1
    TOOLBOX = 2
    CONVERSATION = 3
    TURN = 4
    CALL = 5


def level_named(word: str | None, resource: str) -> Level | None:
    """The scope that a word means for a resource; None stays None. Raises ResourceScopeInvalid for a word that means none."""
    if word is None:
        return None
    level = Level.__members__.get(word.upper())
    if level is None:
        raise ResourceScopeInvalid(resource, word, f"scopes are {', '.join(one.name.lower() for one in Level)}")
    return level


class Scope:
    """A stack of releases under a path. `close` runs them newest first, children before what came before them.

    One that has begun to end takes nothing more; whoever asks for its level and name gets a new one beside it.
    """

    __slots__ = (
        "_children",
        "_ended",
        "_number",
        "_pushed",
        "_releases",
        "closed",
        "level",
        "parent",
        "path",
        "release_s",
    )

    def __init__(self, level: Level, name: str, parent: Scope | None = None, release_s: float = 10.0) -> None:
        self.level = level
        self.path: tuple[str, ...] = (*parent.path, name) if parent is not None else (name,)
        self.release_s = release_s
        self.closed = False
        self.parent = parent
        self._ended: asyncio.Future[None] | None = None
        self._releases: dict[int, tuple[str, Release | Scope]] = {}
        self._pushed = self._number = 0
        self._children: dict[tuple[Level, str], Scope] = {}
        if parent is not None:
            if parent.level >= level:
                raise ValueError(f"a {level.name} scope cannot be inside a {parent.level.name} scope")
            self._number = parent._add(name, self)
            parent._children[level, name] = self

    def child(self, level: Level, name: str) -> Scope:
        """The open scope of this level and name inside this one; made when there is none. Raises ResourceScopeInvalid
        when this one has ended."""
        found = self.find(level, name)
        return found if found is not None else Scope(level, name, self, self.release_s)

    def find(self, level: Level, name: str) -> Scope | None:
        return self._children.get((level, name))

    @property
    def children(self) -> tuple[Scope, ...]:
        """The scopes right inside this one that have something open, oldest first; those too that are about to end."""
        return tuple(release for _, release in self._releases.values() if isinstance(release, Scope))

    def push(self, name: str, release: Release) -> int:
        """Has something released when the scope ends. Gives its number, to take it back by. Raises ResourceScopeInvalid when
        the scope has ended."""
        return self._add(name, release)

    def take_back(self, number: int) -> bool:
        """Whether the scope would have released what has this number; from here on that is the caller's to do."""
        return self._releases.pop(number, None) is not None

    def _add(self, name: str, release: Release | Scope) -> int:
        if self.closed:
            raise ResourceScopeInvalid(name, "/".join(self.path), "it has ended, and would never release it")
        self._pushed += 1
        self._releases[self._pushed] = (name, release)
        return self._pushed

    @property
    def open(self) -> int:
        """How many things it still has to give back, those of its children included."""
        return sum(release.open if isinstance(release, Scope) else 1 for _, release in self._releases.values())

    async def close(self) -> None:
        """Releases everything, newest first, each within release_s; one failure stops nothing.

        Errors: ReleaseFailed, with every failure, once all were tried. A second close waits for the first, and does
        nothing. A closer that is cancelled still gives everything back, and is cancelled after.
        """
        if self.closed:
            if self._ended is not None:
                await asyncio.shield(self._ended)
            return
        self.closed = True
        if self.parent is not None and self.parent.find(self.level, self.path[-1]) is self:
            del self.parent._children[self.level, self.path[-1]]
        if self._releases:
            self._ended = asyncio.get_running_loop().create_future()
        failures: list[tuple[str, BaseException]] = []
        cancelled: asyncio.CancelledError | None = None
        while self._releases:
            _, (name, release) = self._releases.popitem()
            cancelled = await self._release(name, release, failures) or cancelled
        if self.parent is not None:
            self.parent.take_back(self._number)
        if self._ended is not None:
            self._ended.set_result(None)
        failed = ReleaseFailed("/".join(self.path), failures) if failures else None
        if cancelled is not None:
            raise cancelled from failed
        if failed is not None:
            raise failed

    async def _release(
        self, name: str, release: Release | Scope, failures: list[tuple[str, BaseException]]
    ) -> asyncio.CancelledError | None:
        """One of them; gives the cancellation of the closer, if one came meanwhile. A child limits its own releases."""
        try:
            waiting = release.close() if isinstance(release, Scope) else release()
        except Exception as error:
            failures.append((name, error))
            return None
        if not inspect.isawaitable(waiting):
            return None
        failure, cancelled = await finish(waiting, None if isinstance(release, Scope) else self.release_s, "release_s")
        if isinstance(failure, ReleaseFailed):
            failures.extend(failure.failures)
        elif failure is not None:
            failures.append((name, failure))
        return cancelled

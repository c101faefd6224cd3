"""Resources that a Python toolbox declares beside its tools.

    @resource(pattern="pool", size=2, check=lambda browser: browser.alive)
    async def browser() -> AsyncIterator[Browser]:
        started = await launch()
        try:
            yield started
        finally:
            await started.quit()

    @tool
    async def visit(url: str, context: CallContext) -> str:
        async with context.borrow("browser", timeout_s=10) as started:
            return await started.open(url)

A handle is what the function yields: it is made when it is first needed, lent as the pattern says, looked at before it is
lent again, and what stands after the yield runs when it is given back for good, which may be in another task. So no
cancel scope and no task group may stand around the yield.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeVar, overload

import msgspec

from agentos.components import Pattern
from agentos.errors import ConfigurationError
from agentos.ids import Name, is_name
from agentos.resources import Bounds, Factory, Level, ResourceKind, Takes
from agentos.toolboxes.signature import place_of

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__agentos_resource__"


class ResourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `@resource` says of a function. name None: the function's own."""

    name: str | None = None
    pattern: Pattern = Pattern.EXCLUSIVE
    size: int = 1
    level: Level = Level.TOOLBOX
    check: Callable[[Any], Awaitable[bool] | bool] | None = None
    close: Callable[[Any], Awaitable[None] | None] | None = None
    takes: Callable[[Any], Takes] | None = None
    bounds: Bounds = Bounds()


@overload
def resource(function: F, /) -> F: ...
@overload
def resource(
    *,
    name: str | None = None,
    pattern: str = "exclusive",
    size: int = 1,
    scope: str = "toolbox",
    check: Callable[[Any], Awaitable[bool] | bool] | None = None,
    close: Callable[[Any], Awaitable[None] | None] | None = None,
    takes: Callable[[Any], Takes] | None = None,
    bounds: Bounds | None = None,
) -> Callable[[F], F]: ...
def resource(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    pattern: str = "exclusive",
    size: int = 1,
    scope: str = "toolbox",
    check: Callable[[Any], Awaitable[bool] | bool] | None = None,
    close: Callable[[Any], Awaitable[None] | None] | None = None,
    takes: Callable[[Any], Takes] | None = None,
    bounds: Bounds | None = None,
) -> Any:
    """Marks a function as a maker of handles: an async generator that yields one, or an async function that returns one.

    pattern: exclusive, read-write, pool (of size handles) or stateless. scope: whose end gives it back: call, turn,
    conversation, toolbox, agent or program. check says whether a handle is still sound, close gives back what an async
    function returned, takes tells what of the machine it takes, bounds are the limits. Raises ValueError for a word that
    there is not.
    """
    if scope.upper() not in Level.__members__:
        raise ValueError(f"scope is {scope!r}; it is one of {', '.join(level.name.lower() for level in Level)}")
    if pattern not in {one.value for one in Pattern}:
        raise ValueError(f"{pattern!r} is not a valid Pattern; it is one of {', '.join(one.value for one in Pattern)}")
    options = ResourceOptions(
        name=name,
        pattern=Pattern(pattern),
        size=size,
        level=Level[scope.upper()],
        check=check,
        close=close,
        takes=takes,
        bounds=bounds or Bounds(),
    )

    def mark(marked: F) -> F:
        setattr(marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


def declares(function: object) -> bool:
    return isinstance(getattr(function, _MARK, None), ResourceOptions)


def kinds_by_name(functions: Sequence[Callable[..., Any]], toolbox: Name) -> dict[str, ResourceKind]:
    """The kinds that these functions make, by the names that tools of the toolbox borrow them by; elsewhere the name of
    the toolbox and a dot stand before. Raises ConfigurationError naming the function's file and line."""
    kinds: dict[str, ResourceKind] = {}
    for function in functions:
        options: ResourceOptions = getattr(function, _MARK, ResourceOptions())
        name = str(options.name or getattr(function, "__name__", type(function).__name__))
        if not is_name(name):
            raise ConfigurationError(f"{place_of(function)}: {name!r} is no name; give @resource(name=...)")
        if name in kinds:
            raise ConfigurationError(f"{place_of(function)}: toolbox {toolbox}: two resources are named {name}")
        kinds[name] = _kind(function, options, f"{toolbox}.{name}")
    return kinds


def _kind(function: Callable[..., Any], options: ResourceOptions, name: str) -> ResourceKind:
    generates, place = inspect.isasyncgenfunction(function), place_of(function)
    if not generates and not inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"{place}: resource {name} is neither async nor an async generator")
    if generates and options.close is not None:
        raise ConfigurationError(f"{place}: resource {name} yields, so it closes after its yield, not by close")
    make = _generated if generates else _returned
    return ResourceKind(
        name=name,
        factory=lambda **given: make(functools.partial(function, **given), options, place),
        pattern=options.pattern,
        size=options.size,
        bounds=options.bounds,
        level=options.level,
    )


def _returned(function: Callable[[], Awaitable[Any]], options: ResourceOptions, place: str) -> Factory[Any]:
    async def make() -> Any:
        return await function()

    return Factory(make, close=options.close, check=options.check, takes=options.takes)


def _generated(function: Callable[[], AsyncGenerator[Any, None]], options: ResourceOptions, place: str) -> Factory[Any]:
    begun: list[tuple[Any, AsyncGenerator[Any, None]]] = []

    async def make() -> Any:
        generator = function()
        try:
            handle = await anext(generator)
        except StopAsyncIteration as error:
            raise RuntimeError(f"{place}: it has to yield a handle, and ended before") from error
        begun.append((handle, generator))
        return handle

    async def close(handle: Any) -> None:
        _, generator = begun.pop(next(n for n, (kept, _) in enumerate(begun) if kept is handle))
        try:
            await anext(generator)
        except StopAsyncIteration:
            return
        await generator.aclose()
        raise RuntimeError(f"{place}: it yielded a second handle")

    return Factory(make, close=close, check=options.check, takes=options.takes)

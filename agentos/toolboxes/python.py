"""Python functions as tools.

    @tool
    async def add(a: int, b: int) -> int:
        '''Adds two numbers.'''
        return a + b

    toolbox = PythonToolbox("sums", [add])

An async function runs on the event loop, a sync one in a thread (`agentos.resources.process.threads`). Whatever a function
raises, SystemExit and its like too, goes up as it is; the effect runner makes a failed call of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, overload

import msgspec

from agentos.components import Access, EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name, is_name
from agentos.ports import CallContext
from agentos.resources.process.threads import Abandoned, ToolThreads
from agentos.settings import Settings
from agentos.toolboxes.base import Doubt, Failed
from agentos.toolboxes.resource import kinds_by_name
from agentos.toolboxes.signature import ArgumentsRefused, Signature, place_of, signature_of

F = TypeVar("F", bound=Callable[..., Any])
Lifecycle = Callable[[], Awaitable[object] | object]
"""Runs when a toolbox is opened or closed; sync or async."""

_MARK = "__agentos_tool__"


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool` says beyond signature and docstring. None: the function's own name, or its docstring."""

    name: str | None = None
    description: str | None = None
    effect: EffectClass = EffectClass.ONCE
    access: Access = Access.WRITE
    timeout_s: float | None = None


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: str = "once",
    access: str = "write",
    timeout_s: float | None = None,
    description: str | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    effect: str = "once",
    access: str = "write",
    timeout_s: float | None = None,
    description: str | None = None,
) -> Any:
    """Marks a function as a tool, and leaves it the function that it is.

    effect says what a second run may do: "once" (harm, the default), "idempotent" (nothing when the key is the same) or
    "pure" (nothing). access is "read" or "write". Raises ValueError for another word.
    """
    options = ToolOptions(
        name=name, description=description, effect=EffectClass(effect), access=Access(access), timeout_s=timeout_s
    )

    def mark(marked: F) -> F:
        setattr(marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


class _Bound:
    """One function, ready to be called: plain ones take the arguments as they are."""

    __slots__ = ("function", "is_async", "plain", "signature", "spec")

    def __init__(self, function: Callable[..., Any], toolbox: Name) -> None:
        options = options_of(function) or ToolOptions()
        name = str(options.name or getattr(function, "__name__", type(function).__name__))
        if not is_name(name):
            raise ConfigurationError(f"{place_of(function)}: {name!r} is no name for a tool; give @tool(name=...)")
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise ConfigurationError(f"{place_of(function)}: tool {name} yields; a tool returns its result")
        self.function = function
        self.signature: Signature = signature_of(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        bare = self.signature.convert is None and self.signature.context is None and not self.signature.integers
        self.plain = self.is_async and bare
        self.spec = ToolSpec(
            name=Name(name),
            description=options.description if options.description is not None else self.signature.description,
            schema=self.signature.schema,
            effect=options.effect,
            access=options.access,
            toolbox=toolbox,
            timeout_s=options.timeout_s,
        )

    def values(self, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        """What the function is called with. Raises ArgumentsRefused."""
        signature = self.signature
        if signature.convert is not None:
            arguments = signature.convert(arguments)
        elif any(type(arguments.get(name)) is float for name in signature.integers):
            arguments = signature.exact(arguments)
        return arguments if signature.context is None else {**arguments, signature.context: context}


class PythonToolbox:
    """A toolbox of Python functions, marked with @tool or not.

    threads are those that sync functions run in; by default its own, at most `sync_threads_max` of the settings.
    effects overrides the effect class of single tools. resources are functions marked with @resource. Raises
    ConfigurationError naming the function's file and line.
    """

    kind: ClassVar[Name] = Name("python")

    def __init__(
        self,
        name: str,
        functions: Sequence[Callable[..., Any]],
        sharing: ToolboxSharing = ToolboxSharing.STATELESS,
        size: int = 0,
        *,
        opened: Lifecycle | None = None,
        closed: Lifecycle | None = None,
        threads: ToolThreads | None = None,
        effects: Mapping[str, EffectClass] | None = None,
        resources: Sequence[Callable[..., Any]] = (),
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self.resource_kinds = kinds_by_name(resources, self.name)
        self._opened, self._closed = opened, closed
        self._own_threads = threads is None
        self._threads = threads or ToolThreads(Settings().sync_threads_max)
        self._bound = _bind(functions, self.name, effects or {})
        self._tools = tuple(bound.spec for _, bound in sorted(self._bound.items()))

    @property
    def abandoned(self) -> tuple[Abandoned, ...]:
        """Sync tools that still run though their calls were cancelled."""
        return self._threads.abandoned

    async def open(self) -> None:
        await run_step(self._opened)

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        bound = self._bound.get(tool)
        if bound is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if bound.plain:
            return await bound.function(**arguments)
        try:
            values = bound.values(arguments, context)
        except ArgumentsRefused as error:
            return Failed(Name("invalid"), _numbered(error.problems))
        if bound.is_async:
            return await bound.function(**values)
        return await self._threads.run(tool, functools.partial(bound.function, **values))

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        try:
            await run_step(self._closed)
        finally:
            if self._own_threads:
                await self._threads.close()


def options_of(function: object) -> ToolOptions | None:
    """What @tool said about a function; None when it is not marked."""
    options = getattr(function, _MARK, None)
    return options if isinstance(options, ToolOptions) else None


def _bind(
    functions: Sequence[Callable[..., Any]], toolbox: Name, effects: Mapping[str, EffectClass]
) -> dict[str, _Bound]:
    bound: dict[str, _Bound] = {}
    for function in functions:
        new = _Bound(function, toolbox)
        if new.spec.name in bound:
            places = f"{place_of(bound[new.spec.name].function)} and {place_of(function)}"
            raise ConfigurationError(f"toolbox {toolbox}: two tools are named {new.spec.name}: {places}")
        bound[new.spec.name] = new
    for name, effect in effects.items():
        if name not in bound:
            raise ConfigurationError(f"toolbox {toolbox}: effects names no tool {name!r}; it has {', '.join(bound)}")
        bound[name].spec = msgspec.structs.replace(bound[name].spec, effect=effect)
    return bound


async def run_step(step: Lifecycle | None) -> None:
    """Runs one step of a lifecycle, if there is one, to its end."""
    if step is not None:
        done = step()
        if inspect.isawaitable(done):
            await done


def _numbered(problems: list[str]) -> str:
    lines = "\n".join(f"{n}. {problem}" for n, problem in enumerate(problems, 1))
    return f"the arguments do not fit:\n{lines}"

"""Toolboxes from Python files, given by path.

A file is executed under a private module name. Its functions marked with @tool are the tools; its functions `open` and
`close`, sync or async and not marked, run when the toolbox is opened and closed.

`reload` executes edited files anew, under new names, all files of the toolbox together: first the new `open`, then the new
tools take the place of the old ones, and the old `close` runs when the last call that began with them has ended. Files
that fail to load or to open leave all as it was, and stand in the problems.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar

from agentos.components import EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources import ResourceKind
from agentos.resources.process.threads import Abandoned, ToolThreads
from agentos.settings import Settings
from agentos.toolboxes.base import Doubt, ToolboxProblem
from agentos.toolboxes.python import Lifecycle, PythonToolbox, options_of, run_step
from agentos.toolboxes.resource import declares
from agentos.toolboxes.script.files import Stamp, content_digest, stamp_of

_numbers = itertools.count(1)


def load_python_toolbox(
    path: Path | Sequence[Path],
    *,
    name: str | None = None,
    sharing: ToolboxSharing = ToolboxSharing.STATELESS,
    size: int = 0,
    effects: Mapping[str, EffectClass] | None = None,
) -> PythonFileToolbox:
    """A toolbox of all marked functions of one or more files, named after the first one unless name is given.

    The files are executed here, each once. Raises ConfigurationError naming file and line.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    return PythonFileToolbox(paths, name=name or paths[0].stem, sharing=sharing, size=size, effects=effects)


class PythonFileToolbox:
    """Delegates to a PythonToolbox of what the files said when they were last read. See `load_python_toolbox`."""

    kind: ClassVar[Name] = Name("python")

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        name: str,
        sharing: ToolboxSharing,
        size: int,
        effects: Mapping[str, EffectClass] | None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self.problems: tuple[ToolboxProblem, ...] = ()
        self._paths, self._effects = [path.absolute() for path in paths], dict(effects or {})
        self._threads = ToolThreads(Settings().sync_threads_max)
        self._stamps = self._look()
        self._now = self._load(paths)
        self._retired: list[_Loaded] = []

    @property
    def abandoned(self) -> tuple[Abandoned, ...]:
        """Sync tools that still run though their calls were cancelled."""
        return self._threads.abandoned

    @property
    def content(self) -> str:
        """The digest of the files that were executed, which changes with what the tools do."""
        return self._now.content

    async def open(self) -> None:
        try:
            await self._now.toolbox.open()
        except BaseException:
            self._now.files.forget()
            raise

    @property
    def resource_kinds(self) -> Mapping[str, ResourceKind]:
        """What the files declare with @resource. One that lives goes on as it was made when they are read again."""
        return self._now.toolbox.resource_kinds

    def tools(self) -> Sequence[ToolSpec]:
        return self._now.toolbox.tools()

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        loaded = self._now
        loaded.calls += 1
        try:
            return await loaded.toolbox.call(tool, arguments, context)
        finally:
            loaded.calls -= 1
            if loaded in self._retired:
                await self._close_idle()

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return await self._now.toolbox.probe(tool, arguments, key)

    def changed(self) -> bool:
        return self._look() != self._stamps

    async def reload(self) -> None:
        """Takes what the files say now, if they can be loaded and opened."""
        self._stamps = self._look()
        try:
            new = self._load(self._paths)
        except ConfigurationError as error:
            self.problems = (ToolboxProblem(self._place, f"the tools stay as they were: {error}"),)
            return
        try:
            await new.toolbox.open()
        except BaseException as error:
            new.files.forget()
            if not isinstance(error, Exception):
                raise
            reason = f"the tools stay as they were: open() failed: {type(error).__name__}: {error}"
            self.problems = (ToolboxProblem(self._place, reason),)
            return
        self._retired.append(self._now)
        self._now, self.problems = new, ()
        await self._close_idle()

    async def close(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._threads.close)
            for loaded in (self._now, *self._retired):
                stack.push_async_callback(loaded.toolbox.close)
            self._retired.clear()

    @property
    def _place(self) -> str:
        return ", ".join(map(str, self._paths))

    def _look(self) -> list[Stamp | None]:
        return [stamp_of(path) for path in self._paths]

    def _load(self, paths: Sequence[Path]) -> _Loaded:
        """Executes the files. Raises ConfigurationError."""
        files = _Files()
        try:
            for file in paths:
                files.load(file)
            functions = files.functions()
            if not functions:
                raise ConfigurationError(f"{', '.join(map(str, paths))}: no function is marked with @tool")
            content = hashlib.sha256(" ".join(map(content_digest, self._paths)).encode()).hexdigest()
            return _Loaded(files, self._toolbox(files, functions), content)
        except ConfigurationError:
            files.forget()
            raise

    def _toolbox(self, files: _Files, functions: Sequence[Callable[..., Any]]) -> PythonToolbox:
        return PythonToolbox(
            self.name,
            functions,
            self.sharing,
            self.size,
            opened=files.open,
            closed=files.close,
            threads=self._threads,
            effects=self._effects,
            resources=files.resources(),
        )

    async def _close_idle(self) -> None:
        """Closes what was replaced and serves no call any more. A close that fails is told, and nobody's failure."""
        for loaded in [loaded for loaded in self._retired if not loaded.calls]:
            self._retired.remove(loaded)
            try:
                await loaded.toolbox.close()
            except Exception as error:
                reason = f"close() of the replaced tools failed: {type(error).__name__}: {error}"
                self.problems = (*self.problems, ToolboxProblem(self._place, reason))


class _Loaded:
    """What the files said at one time, and how many calls run with it."""

    def __init__(self, files: _Files, toolbox: PythonToolbox, content: str) -> None:
        self.files, self.toolbox, self.content = files, toolbox, content
        self.calls = 0


class _Files:
    """The modules of one toolbox, opened in order and closed in the opposite one."""

    def __init__(self) -> None:
        self._modules: list[ModuleType] = []
        self._opened = AsyncExitStack()

    def load(self, path: Path) -> None:
        """Runs a file as a module. It stands in sys.modules, where dataclasses and pydantic look for it."""
        file = path.absolute()
        name = f"_agentos_tools_{next(_numbers)}"
        spec = importlib.util.spec_from_file_location(name, file, loader=_Source(name, str(file)))
        if spec is None or spec.loader is None or not file.is_file():
            raise ConfigurationError(f"{path}: no such Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        self._modules.append(module)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{path}:{_line(error, file)}: {type(error).__name__}: {error}") from error

    def functions(self) -> list[Callable[..., Any]]:
        """All marked functions, in the order of the files; one that two files import counts once."""
        found = [value for module in self._modules for value in vars(module).values() if options_of(value) is not None]
        return list({id(function): function for function in found if callable(function)}.values())

    def resources(self) -> list[Callable[..., Any]]:
        """All functions marked with @resource, likewise."""
        found = [value for module in self._modules for value in vars(module).values() if declares(value)]
        return list({id(function): function for function in found}.values())

    async def open(self) -> None:
        async with AsyncExitStack() as stack:
            for module in self._modules:
                await run_step(_own(module, "open"))
                stack.push_async_callback(run_step, _own(module, "close"))
            self._opened = stack.pop_all()

    async def close(self) -> None:
        try:
            await self._opened.aclose()
        finally:
            self.forget()

    def forget(self) -> None:
        for module in self._modules:
            sys.modules.pop(module.__name__, None)


class _Source(SourceFileLoader):
    """Always compiles: compiled files are told apart by size and whole seconds, which a quick edit may leave the same."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _line(error: BaseException, file: Path) -> int:
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return (lines[-1] if lines else None) or 1


def _own(module: ModuleType, name: str) -> Lifecycle | None:
    """A module's own function of that name; not one that it imported, and not a tool."""
    function = vars(module).get(name)
    if not inspect.isfunction(function) or function.__module__ != module.__name__ or options_of(function) is not None:
        return None
    return function

"""Toolboxes from Python files, given by path.

A file is executed under a private module name. Its functions marked with @tool are the tools; its functions `open` and
`close`, sync or async and not marked, run when the toolbox is opened and closed.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from agentos.components import EffectClass, ToolboxSharing
from agentos.errors import ConfigurationError
from agentos.toolboxes.python import Lifecycle, PythonToolbox, options_of, run_step
from agentos.toolboxes.threads import ToolThreads

_numbers = itertools.count(1)


def load_python_toolbox(
    path: Path | Sequence[Path],
    *,
    name: str | None = None,
    sharing: ToolboxSharing = ToolboxSharing.STATELESS,
    size: int = 0,
    threads: ToolThreads | None = None,
    effects: Mapping[str, EffectClass] | None = None,
) -> PythonToolbox:
    """A toolbox of all marked functions of one or more files, named after the first one unless name is given.

    The files are executed here, each once. Raises ConfigurationError naming file and line.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    files = _Files()
    try:
        for file in paths:
            files.load(file)
        functions = files.functions()
        if not functions:
            raise ConfigurationError(f"{', '.join(map(str, paths))}: no function is marked with @tool")
        return PythonToolbox(
            name or paths[0].stem,
            functions,
            sharing,
            size,
            opened=files.open,
            closed=files.close,
            threads=threads,
            effects=effects,
        )
    except ConfigurationError:
        files.forget()
        raise


class _Files:
    """The modules of one toolbox, opened in order and closed in the opposite one."""

    def __init__(self) -> None:
        self._modules: list[ModuleType] = []
        self._opened = AsyncExitStack()

    def load(self, path: Path) -> None:
        """Runs a file as a module. It stands in sys.modules, where dataclasses and pydantic look for it."""
        file = path.absolute()
        name = f"_agentos_tools_{next(_numbers)}"
        spec = importlib.util.spec_from_file_location(name, file)
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

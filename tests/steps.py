"""What a piece of work costs in steps of the program, which are as many on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any


class Steps:
    """Counts the lines and rounds of loops that the code of one module goes through."""

    def __init__(self, module: ModuleType) -> None:
        self._file, self.count = module.__file__, 0

    @contextmanager
    def counted(self) -> Iterator[Steps]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield self
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != self._file:
            return None
        self.count += 1
        return self._trace

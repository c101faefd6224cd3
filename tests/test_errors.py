"""One place lists all errors: the tree of `agentos.errors` is the tree of its classes."""

from __future__ import annotations

import re

from agentos import errors
from agentos.errors import AgentosError

INDENT = 2


def test_the_tree_of_the_docstring_is_that_of_the_classes() -> None:
    classes = {name: getattr(errors, name) for name in errors.__all__}
    real = {name: type_.__mro__[1].__name__ for name, type_ in classes.items() if name == type_.__name__}

    assert all(issubclass(type_, AgentosError) for type_ in classes.values())
    assert _written_tree(errors.__doc__ or "") == {name: base for name, base in real.items() if base != "Exception"}


def _written_tree(text: str) -> dict[str, str]:
    """Each class that the tree names, with the one that it stands under."""
    above: list[str] = []
    under: dict[str, str] = {}
    lines = iter(text.splitlines())
    base_indent = next(len(line) - len(line.lstrip()) for line in lines if line.strip() == "AgentosError")
    for line in lines:
        if not line.strip():
            return under
        depth = (len(line) - len(line.lstrip()) - base_indent) // INDENT
        words = re.split(r"\s{2,}", line.strip())[0]
        del above[depth - 1 :]
        parent = above[-1] if above else "AgentosError"
        names = words.split(", ")
        under |= dict.fromkeys(names, parent)
        above.append(names[-1])
    return under

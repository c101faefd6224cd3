"""Calls that arrive in pieces, put together: which piece belongs to which call, whatever a server leaves out.

A good server gives each call an index, and its id and name once. Others leave the index out, give it to some pieces only,
or the same one to all; they repeat the id or the name, bring the id late, break the name in two, or use one id twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agentos.codec import encode_json
from agentos.errors import CodecError
from agentos.events.model import ToolCall
from agentos.models.text_pieces import whole_text

TOO_DEEP = "(nested too deep)"
"""Stands for arguments that cannot be written down; it is no JSON, so the gate refuses the call."""


class _Call:
    __slots__ = ("id", "index", "name", "pieces")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = self.name = ""
        self.pieces: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are one whole object already."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return isinstance(_decoded("".join(self.pieces)), dict)


class CallPieces:
    """known tells whether a name is one of an offered tool, which settles where a name ends."""

    def __init__(self, known: Callable[[str], bool]) -> None:
        self._known = known
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: object, *, whole: bool = False) -> None:
        """One item of `tool_calls`: a piece, in a delta, or a whole call, in a whole message."""
        if not isinstance(piece, dict):
            return
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        index = piece.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        id_, name, arguments = (
            text_of(piece.get("id")),
            text_of(function.get("name")),
            _arguments(function.get("arguments")),
        )
        call = self._new(index) if whole else self._call_for(index, id_, name, arguments)
        call.id = call.id or id_
        self._add_name(call, name)
        if arguments:
            call.pieces.append(arguments)

    def calls(self, own_name: Callable[[str], str]) -> tuple[ToolCall, ...]:
        """What was asked for, in order of arrival. Arguments that are no JSON object stay text, for the gate to refuse."""
        return tuple(ToolCall(own_name(call.name), arguments_of("".join(call.pieces)), call.id) for call in self._calls)

    def _call_for(self, index: int | None, id_: str, name: str, arguments: str) -> _Call:
        found = self._by_index.get(index) if index is not None else None
        if found is None:
            found = self._without_index(index, id_, name, arguments)
        elif self._starts_anew(found, id_, name, arguments):
            found = None
        if found is None:
            found = self._new(index)
        if index is not None:
            found.index = index
            self._by_index[index] = found
        return found

    def _new(self, index: int | None) -> _Call:
        call = _Call(index)
        self._calls.append(call)
        return call

    def _without_index(self, index: int | None, id_: str, name: str, arguments: str) -> _Call | None:
        """The call that a piece goes on with when its index tells nothing: by its id, else the last; None for a new one."""
        open_calls = self._calls if index is None else [call for call in self._calls if call.index is None]
        if not open_calls:
            return None
        last = open_calls[-1]
        if id_:
            same = next((call for call in reversed(open_calls) if call.id == id_), None)
            if same is not None:
                return None if self._starts_anew(same, id_, name, arguments) else same
            return None if name or (last.id and last.is_whole) else last
        if not name:
            return self._by_place(index, last)
        return None if last.is_whole or self._is_other(last, name) else last

    def _by_place(self, index: int | None, last: _Call) -> _Call:
        """An index that comes late counts the calls so far."""
        if index is not None and index < len(self._calls) and self._calls[index].index is None:
            return self._calls[index]
        return last

    def _starts_anew(self, call: _Call, id_: str, name: str, arguments: str) -> bool:
        """Whether a piece begins another call at the same index, or with the same id.

        A new id does so with a name alone, since some servers give each piece an id of its own; a name only after a whole
        object, since some repeat it with each piece.
        """
        if not name:
            return False
        if id_ and call.id and id_ != call.id:
            return True
        return call.is_whole and (name != call.name or bool(arguments.strip()))

    def _is_other(self, call: _Call, name: str) -> bool:
        """Whether a name without id and index is that of another call, and no piece or repetition of this one's."""
        return name != call.name and (bool(call.pieces) or self._known(call.name))

    def _add_name(self, call: _Call, name: str) -> None:
        repeated = name == call.name and (self._known(name) or not self._known(call.name + name))
        if name and not repeated:
            call.name += name


def arguments_of(text: str) -> Any:
    """{} for nothing at all, the object that the text holds, or else the text itself."""
    text = whole_text(text)
    if text.strip() in ("", "null"):
        return {}
    value = _decoded(text)
    if not isinstance(value, dict):
        return text
    try:
        encode_json(value)
    except CodecError:  # nested too deep to be stored
        return text
    return value


def _decoded(text: str) -> Any:
    """The value of a JSON text, None for what is none; NaN and the infinities are none."""
    if not text.rstrip().endswith("}"):
        return None
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def text_of(value: object) -> str:
    """A text that a server sent; what else stands in its place says nothing."""
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """Some servers send the object itself instead of its text."""
    if not isinstance(value, dict):
        return text_of(value)
    try:
        return json.dumps(value)
    except RecursionError:
        return TOO_DEEP

"""What makes a component: frozen data under a name, registered once, stored as the fold of its log."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec


class Word(Enum):
    """An Enum whose members hash by identity: they are keys on the hot path, and Enum's own hash is Python code."""

    __hash__ = object.__hash__


class Component(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Frozen data attached to one entity. It says what its numbers mean and computes nothing.

    `component` is its key in stored records, `version` the version of its shape there.
    """

    component: ClassVar[str]
    version: ClassVar[int] = 1

"""What is known while a file is read: names in their scopes, and what all scopes share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...ir import Node, Value
from .call import Facts
from .wire import Message


@dataclass
class Scope:
    """A graph or function body being read. Names not found here are looked up in `outer`.

    `refs` holds the attributes that the body's `ref_attr_name`s take, each with the scope in which it was
    written; None outside of functions.
    """

    where: str
    opsets: dict[str, int]
    outer: Scope | None = None
    refs: dict[str, tuple[Message, Scope]] | None = None
    values: dict[str, Value | None] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    depth: int = 0
    calls: tuple[str, ...] = ()

    def find(self, name: str) -> Value | None:
        """The value of that name; KeyError when nothing defines it, None for an absent function input."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)


@dataclass
class Reader:
    """What is shared while one file is read."""

    source: str
    folder: str | None
    functions: dict[tuple[str, str, str], Message]
    facts: Facts = field(default_factory=Facts)
    unsupported: Counter[str] = field(default_factory=Counter)

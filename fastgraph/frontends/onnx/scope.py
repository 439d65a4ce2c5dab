"""Names in their scopes."""

from __future__ import annotations

from collections.abc import Container

from ...errors import ModelError
from ...ir import Node, Value
from .wire import Message


class Scope:
    """A graph or function body being read. Names not found here are looked up in `outer`.

    `refs` holds the attributes that the body's `ref_attr_name`s take, each with the scope in which it was
    written; None outside of functions.
    """

    def __init__(
        self,
        where: str,
        opsets: dict[str, int],
        outer: Scope | None = None,
        refs: dict[str, tuple[Message, Scope]] | None = None,
        nodes: list[Node] | None = None,
        depth: int = 0,
        calls: tuple[str, ...] = (),
    ) -> None:
        self.where, self.opsets, self.outer, self.refs = where, opsets, outer, refs
        self.values: dict[str, Value | None] = {}
        self.nodes = [] if nodes is None else nodes
        self.depth, self.calls = depth, calls

    def inner(self, where: str, depth: int) -> Scope:
        return Scope(where, self.opsets, self, self.refs, depth=depth, calls=self.calls)

    def find(self, name: str) -> Value | None:
        """The value of that name; KeyError when nothing defines it, None for an absent function input."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)

    def define(self, value: Value, where: str) -> None:
        """Let a value's name stand for it. ModelError when it has none, or one that is taken."""
        if not value.name:
            raise ModelError(f"{where}: it has no name; the file was not written correctly")
        check_new(self.values, value.name, where)
        self.values[value.name] = value


def check_text(where: str, *names: str | bytes) -> None:
    """ModelError for names that are not UTF-8."""
    for name in names:
        if isinstance(name, bytes):  # how protobuf gives text that is not UTF-8
            raise ModelError(f"{where}: expected names in UTF-8, found {name[:40]!r}")


def readable(text: str | bytes) -> str:
    """Text that tells people something and names no value: what is not UTF-8 is written as escapes."""
    return text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text


def check_new(taken: Container[str], name: str | bytes, where: str) -> None:
    """ModelError for a name that is taken."""
    check_text(where, name)
    if name in taken:
        raise ModelError(f"{where}: it defines {name!r} a second time; every value needs a name of its own")

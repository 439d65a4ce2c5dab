"""One block being converted: names in their scopes, its nodes, and what states hold at this point of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ModelError, UnsupportedError
from ...ir import Node, Value
from ...limits import current
from ..core.call import agree
from .reader import Reader
from .wire import Message, wrong


class Scope:
    """`values` by name; names that are not among them are looked up in `outer`. `nodes` in the program's order.

    `current`: what states hold now, by name. A nested block has those that its rule asked for.
    """

    def __init__(self, reader: Reader, where: str, outer: Scope | None = None) -> None:
        self.reader = reader
        self.where = where
        self.outer = outer
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.current: dict[str, Value] = {}

    def find(self, name: str) -> Value | None:
        """The value of that name, here or around; None when nothing before defines it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None

    def define(self, name: str, value: Value, where: str) -> None:
        """Let `name` stand for a value from here on. ModelError when it has no name, or one that is taken."""
        if not name or name in self.values:
            raise wrong(f"{where}: it defines {name!r} {'a second time' if name else 'without a name'}")
        self.values[name] = value

    # states

    def present(self, state: str) -> Value:
        if state not in self.current:
            raise UnsupportedError("states in the blocks of an operator whose rule does not hand them on")
        return self.current[state]

    def assign(self, state: str, value: Value, where: str) -> None:
        """`value` is what a state holds from here on."""
        self.present(state)
        said = self.reader.states[state]
        if value.type.dtype != said.dtype or not agree(value.type.shape, said.shape):
            raise ModelError(f"{where}: expected {said} for state {state!r}, found {value.type}")
        self.current[state] = value

    def touched(self, blocks: Sequence[Message], where: str) -> list[str]:
        """Names of the states that operations in `blocks` are bound to, at any depth."""
        found: dict[str, None] = {}
        waiting = list(blocks)
        while waiting:
            for operation in waiting.pop().operations:
                current().count(1, where)
                waiting += operation.blocks
                for argument in operation.inputs.values():
                    for binding in argument.arguments:
                        value = self.find(binding.name) if binding.name in self.reader.states else None
                        if value in self.reader.handles:
                            found[self.reader.handles[value]] = None
        return sorted(found)

    # blocks

    def results(self, block: Message) -> list[Value]:
        found = []
        for name in block.outputs:
            value = self.find(name)
            if value is None:
                raise wrong(f"{self.where}: nothing defines its output {name!r}")
            if value in self.reader.handles:
                raise ModelError(f"{self.where}: expected a tensor as output {name!r}, found a state")
            found.append(value)
        return found

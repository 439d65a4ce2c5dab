"""One block being converted: names in their scopes, its nodes, and what states hold at this point of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...errors import GraphError, ModelError, UnsupportedError
from ...ir import Graph, Node, TensorType, Value, subgraphs
from ...limits import current
from ...ops.evaluate import fold
from ..core.registry import RuleFiles
from .call import RULES, Call, agree
from .types import MilType, mil_type
from .wire import Message

if TYPE_CHECKING:
    from .reader import Reader

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError)

FOLDED = 1 << 12
"""Results of at most so many elements are computed here when all operands are constant, so that later rules know
them. Larger ones are for the passes."""

STORED = frozenset({"dequantize_linear"})
"""What is not computed here: integer kernels want the numbers of quantised weights."""

FILES = RuleFiles(__package__)


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

    def fresh(self, name: str) -> str:
        """A name that no other value has."""
        return self.reader.unique(name)

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
            raise ModelError(f"{where}: it defines {name!r} " + ("a second time" if name else "without a name")
                             + "; the program was not written correctly")  # fmt: skip
        self.values[name] = value

    # states

    def present(self, state: str) -> Value:
        """What a state holds now."""
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

    def run(self, block: Message) -> None:
        """Translate a block's operations, one after the other."""
        for place, operation in enumerate(block.operations):
            self._operation(place, operation)

    def results(self, block: Message) -> list[Value]:
        """The values of a block's outputs."""
        found = []
        for name in block.outputs:
            value = self.find(name)
            if value is None:
                raise ModelError(f"{self.where}: nothing defines its output {name!r}; "
                                 "the program was not written correctly")  # fmt: skip
            if value in self.reader.handles:
                raise ModelError(f"{self.where}: expected a tensor as output {name!r}, found a state")
            found.append(value)
        return found

    def block(
        self, proto: Message, index: int, args: Sequence[Value] | None, states: Sequence[str], call: Call
    ) -> Graph:
        """A nested block, as `Call.block` says."""
        current().count(32, call.where)
        inner = Scope(self.reader, f"{call.where}: block {index}", self)
        if args is not None and len(args) != len(proto.inputs):
            call.fail(f"expected a block of {len(args)} inputs, found {len(proto.inputs)}")
        own: list[Value] = []
        for i, declared in enumerate(proto.inputs):
            kind = mil_type(declared.type, f"{inner.where}: input {declared.name!r}")
            if kind.kind == "state" and args is None:
                call.unsupported("of a block whose inputs are states")
            value = Value(self.fresh(declared.name), kind.held) if args is None else args[i]
            if args is None:
                self.reader.declared[value] = kind
                own.append(value)
            inner.define(declared.name, value, inner.where)
        for state in states:
            before = self.present(state)
            if args is None:
                before = Value(self.fresh(state), self.reader.states[state])
                own.append(before)
            inner.current[state] = before
        inner.run(proto)
        outputs = [*inner.results(proto), *(inner.current[state] for state in states)]
        return Graph(call.name, own, outputs, inner.nodes, self.reader.source)

    # operations

    def _operation(self, place: int, proto: Message) -> None:
        op = proto.type
        label = next((out.name for out in proto.outputs), "")
        where = f"{self.where}: operation {place} {label!r} ({op})"
        try:
            operands = sum(len(argument.arguments) for argument in proto.inputs.values())
            current().count(1 + operands + len(proto.outputs), where)
            outputs, declared = [], []
            for out in proto.outputs:
                kind = mil_type(out.type, f"{where}: output {out.name!r}")
                outputs.append(Value(self.fresh(out.name), kind.held))
                declared.append(kind)
            if op == "const":
                values = [self._constant(proto, outputs, declared, where)]
            else:
                values = self._translated(proto, outputs, declared, where)
        except MISFITS as error:
            raise ModelError(f"{where}: parameters that do not fit together "
                             f"({type(error).__name__}: {error})") from error  # fmt: skip
        for out, value, kind in zip(proto.outputs, values, declared, strict=True):
            self.reader.declared.setdefault(value, kind)
            self.define(out.name, value, where)

    def _constant(self, proto: Message, outputs: list[Value], declared: list[MilType], where: str) -> Value:
        if "val" not in proto.attributes or len(declared) != 1:
            raise ModelError(f"{where}: expected an attribute 'val' and one output")
        value = self._held(proto.attributes["val"], where)
        said, found = declared[0], self.reader.declared[value]
        if said.kind != found.kind or said.element != found.element or not agree(said.shape, found.shape):
            raise ModelError(f"{where}: expected a constant {said}, as its output is declared, found {found}")
        value.name = outputs[0].name
        return value

    def _held(self, proto: Message, where: str) -> Value:
        """A constant that the program holds."""
        kind, held = self.reader.constants.read(proto, where)
        array = held
        if not isinstance(held, np.ndarray):
            if kind.kind == "list" and all(isinstance(v, np.ndarray) and v.ndim == 0 for v in held):
                array = np.array([v.item() for v in held], kind.items[0].held.dtype)
            else:
                array = np.empty((), object)
                array[()] = held
        value = Value(self.fresh("const"), TensorType(array.dtype, array.shape), array)
        self.reader.declared[value] = kind
        return value

    def _inputs(self, proto: Message, where: str) -> dict[str, list[Value]]:
        found: dict[str, list[Value]] = {}
        for key, attribute in proto.attributes.items():
            if key != "name":
                found[key] = [self._held(attribute, f"{where}: attribute {key!r}")]
        for key, argument in proto.inputs.items():
            found[key] = [self._bound(binding, f"{where}: parameter {key!r}") for binding in argument.arguments]
        return found

    def _bound(self, binding: Message, where: str) -> Value:
        if binding.WhichOneof("binding") == "value":
            return self._held(binding.value, where)
        value = self.find(binding.name)
        if value is None:
            raise ModelError(f"{where}: it is bound to {binding.name!r}, which nothing before defines; "
                             "the program was not written correctly")  # fmt: skip
        if value in self.reader.shown:
            raise UnsupportedError(f"operators that read {binding.name!r}, which is no tensor")
        return value

    def _translated(
        self, proto: Message, outputs: list[Value], declared: list[MilType], where: str
    ) -> list[Value]:
        op, begun = proto.type, len(self.nodes)
        try:
            rule = FILES.find(RULES, op)
            inputs = self._inputs(proto, where)
            if rule is None:
                raise UnsupportedError(_unknown(op, inputs))
            name = proto.outputs[0].name if outputs else self.fresh(op)
            call = Call(self, op, self.reader.opset, name, where, inputs, outputs, declared, proto.blocks)
            rule(call)
        except UnsupportedError as error:
            self.reader.unsupported[str(error)] += 1
            del self.nodes[begun:]
            return outputs
        current().count(4 * (len(self.nodes) - begun), where)
        if all(v.data is not None for values in inputs.values() for v in values) and not proto.blocks:
            self._fold(begun)
        return self._made(call, begun)

    def _fold(self, begun: int) -> None:
        """Compute what nodes from `begun` on make of constants, when it is small."""
        kept = []
        for node in self.nodes[begun:]:
            known = all(v is None or (v.data is not None and v.type.quant is None) for v in node.inputs)
            small = all(v.type.concrete and v.type.quant is None and v.type.size <= FOLDED for v in node.outputs)
            plain = node.op not in STORED and next(subgraphs(node), None) is None
            arrays = fold(node) if known and small and plain else None
            if arrays is None:
                kept.append(node)
                continue
            for value, array in zip(node.outputs, arrays, strict=True):
                value.data = array
                value.type = TensorType.of(array)
        self.nodes[begun:] = kept

    def _made(self, call: Call, begun: int) -> list[Value]:
        """The values of an operator's outputs, of the types that the program declares."""
        written = {value for node in self.nodes[begun:] for value in node.outputs}
        handles = self.reader.handles
        if handles and any(value in handles for node in self.nodes[begun:] for value in node.inputs):
            call.fail("expected tensors, found a state; it is read by read_state")
        found, named = [], set[Value]()
        for i, (out, said) in enumerate(zip(call.outputs, call.declared, strict=True)):
            value = call.given.get(i, out)
            if value is out and out not in written and out not in self.reader.shown:
                if i:
                    call.fail(f"expected {i} outputs or fewer, found {len(call.outputs)}")
                raise GraphError(f"{call.where}: its rule does not make output {i}")
            if value is not out and value in written and value not in named:
                value.name = out.name
            named.add(value)
            held = said.held
            if value not in self.reader.shown and (
                (value.type.quant is None and value.type.dtype != held.dtype) or not agree(value.type.shape, held.shape)
            ):
                call.fail(f"expected its output {out} to be declared {value.type}, found {said}")
            found.append(value)
        return found


def _unknown(op: str, inputs: dict[str, list[Value]]) -> str:
    if op == "custom_layer" and "class_name" in inputs:
        return f"custom layer {inputs['class_name'][0].data}"
    return op or "an operator without a name"

"""How an operator becomes kernel calls: the `Lowering`s of an operator, found by name.

A node that none of them accepts runs its NumPy reference as a host step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.isa.tiers import Tier
from ...limits import current
from ..program import Arg, HostStep, Program, Ref, Scratch, Step
from ..storage import Abilities, Storage, Views, byte_strides, last, row_count

Match = Callable[[Node], Any]
"""Gives what a lowering must know of a node to write its steps, its plan: True when there is nothing to know, None or
False when its kernels can't do the node."""


@dataclass(frozen=True)
class Lowering:
    """`match(node)`: its plan, if it takes the node; `emit(e, node, plan)` writes its steps."""

    match: Match
    emit: Callable[[Emit, Node, Any], None]
    abilities: Abilities = Abilities()


LOWERINGS: dict[str, list[Lowering]] = {}


def lowers(
    *ops: str, match: Match, strided_in: bool = False, strided_out: bool = False, in_place: bool = False
) -> Callable[[Callable[[Emit, Node, Any], None]], Callable[[Emit, Node, Any], None]]:
    """Register the decorated `emit` for these operators, with what it can do about storage.

    An operator may have several, for other types say; no two may match the same node.
    """

    def add(emit: Callable[[Emit, Node, Any], None]) -> Callable[[Emit, Node, Any], None]:
        for op in ops:
            lowering = Lowering(match, emit, Abilities(strided_in, strided_out, in_place))
            LOWERINGS.setdefault(op, []).append(lowering)
        return emit

    return add


def matched(node: Node) -> tuple[Lowering, Any] | None:
    """The lowering that takes this node, and its plan of it; None: the node is a host step.

    ValueError when two lowerings take it.
    """
    plans = [(low, low.match(node)) for low in LOWERINGS.get(node.op, ())]
    found = [(low, plan) for low, plan in plans if plan is not None and plan is not False]
    if len(found) > 1:
        names = ", ".join(f"{low.emit.__module__}.{low.emit.__name__}" for low, _ in found)
        raise ValueError(f"node {node.name!r} ({node.op}): {len(found)} lowerings take it ({names}); one must")
    return found[0] if found else None


class Matches:
    """What takes each node of a graph that does not change any more, looked for once."""

    def __init__(self) -> None:
        self._found: dict[Node, tuple[Lowering, Any] | None] = {}

    def __call__(self, node: Node) -> tuple[Lowering, Any] | None:
        if node not in self._found:
            self._found[node] = matched(node)
        return self._found[node]

    def abilities(self, node: Node) -> Abilities:
        """A host step works on NumPy views, so any strides will do."""
        found = self(node)
        return found[0].abilities if found else Abilities(strided_in=True, strided_out=True)


def is_f32(node: Node) -> bool:
    """Whether all that the node reads and makes is concrete and f32."""
    values = [v for v in node.inputs if v is not None]
    return all(v.type.concrete and v.type.dtype == np.float32 for v in [*values, *node.outputs])


@dataclass(eq=False)
class Emit:
    """Writes steps into a program: what a lowering talks to."""

    program: Program
    views: Views
    match: Matches
    tier: Tier
    threads: int
    node: Node | None = None
    _constants: dict[Any, Ref] = field(default_factory=dict)

    def storage(self, value: Value) -> Storage:
        if value not in self.program.storage:
            self.program.storage[value] = self.views.storage(value)
        return self.program.storage[value]

    def address(self, value: Value, offset: int = 0) -> Ref:
        """Where the value begins, plus `offset` bytes."""
        if value.data is not None:
            base = self.constant(value.data, key=value)
            return Ref(base.base, base.offset + offset)
        where = self.storage(value)
        return Ref(where.root, where.offset + offset)

    def stride(self, value: Value) -> int:
        """Elements from one row of the value to the next."""
        return last(value) if value.data is not None else self.storage(value).stride

    def strides(self, value: Value) -> tuple[int, ...]:
        """Byte strides of the value's axes where it lies."""
        assert value.type.dtype is not None
        return byte_strides(value.type.dims, value.type.dtype.itemsize, self.stride(value))

    def dense(self, value: Value) -> bool:
        return value.data is not None or self.views.dense(value)

    def constant(self, array: np.ndarray, key: Any = None) -> Ref:
        """The address of a constant; the same key gives the same constant."""
        if key is not None and key in self._constants:
            return self._constants[key]
        if not isinstance(key, Value) or not array.flags.c_contiguous:
            current().hold(array.nbytes, self.node.name if self.node else "a constant")
        self.program.constants.append(np.ascontiguousarray(array))
        ref = Ref(len(self.program.constants) - 1)
        if key is not None:
            self._constants[key] = ref
        return ref

    def packed(self, key: Any, make: Callable[[], np.ndarray]) -> Ref:
        """The address of a constant that is made once for its key."""
        return self._constants[key] if key in self._constants else self.constant(make(), key)

    def scratch(self, nbytes: int) -> Ref:
        """Memory for the steps of this node."""
        assert self.node is not None
        return Ref(Scratch(f"{self.node.out.name}.scratch", max(nbytes, 64)))

    def kernel(
        self,
        name: str,
        params: Mapping[str, Any],
        args: Mapping[str, Arg],
        more: Sequence[Arg] = (),
        share: float = 1.0,
    ) -> None:
        """Call a kernel: compile-time parameters and the slots of its record by name, `more` slots after those.

        share: the part of the node's work that this call is.
        """
        table = row(name)
        missing = set(table.args).symmetric_difference(args) | set(table.params).symmetric_difference(params)
        assert not missing, f"{name}: record or parameters differ from the kernel's row in {sorted(missing)}"
        self.call(name, params, [*(args[slot] for slot in table.args), *more], share)

    def call(self, name: str, params: Mapping[str, Any], record: Sequence[Arg], share: float = 1.0) -> None:
        """Call a kernel with its whole record in order; `share`: the part of the node's work that this is."""
        assert self.node is not None
        slots = tuple(slot if isinstance(slot, Ref) else int(slot) for slot in record)
        self.program.steps.append(Step(Kernel(name, tuple(params.items())), slots, self.node, share))

    def host(self) -> None:
        """Let NumPy compute this node."""
        assert self.node is not None
        self.program.steps.append(HostStep(self.node))


__all__ = ["Arg", "Emit", "Lowering", "Matches", "is_f32", "last", "lowers", "matched", "row_count"]

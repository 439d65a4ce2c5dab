"""What a lowering talks to: where values lie, constants and scratch memory, the steps that it writes."""

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
from ..program import Arg, HostStep, Program, Ref, Scratch, Step, Table
from ..storage import Storage, Views, byte_strides, last


@dataclass(eq=False)
class Emit:
    """Writes steps into a program. `match`: the lowering that takes a node of the graph, and its plan of it."""

    program: Program
    views: Views
    match: Callable[[Node], Any]
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

        share: the part of the node's work that this call is. TypeError when the table has no kernel with these
        parameters.
        """
        assert self.node is not None
        table = row(name)
        kernel = table.kernel(self.tier, params)
        record = *table.args.filled(**args), *more
        slots = tuple(slot if isinstance(slot, Ref | Kernel | Table) else int(slot) for slot in record)
        self.program.steps.append(Step(kernel, slots, self.node, share))

    def host(self) -> None:
        """Let NumPy compute this node."""
        assert self.node is not None
        self.program.steps.append(HostStep(self.node))

"""The interface of lowerings: storage of values, constants, scratch memory, and the steps that they write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import PlanError
from ...freedoms import checked
from ...ir import Graph, Node, Value
from ...ir.weights import current as current_weights
from ...ir.weights import key_of, place_of
from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.isa.tiers import Tier
from ...limits import current
from ..program import Arg, HostStep, Jump, Program, Ref, Scratch, Step, Table
from ..storage import Abilities, Storage, Views, byte_strides, last

BRIEF = 1 << 12
"""The most bytes of an array of a single plan that is identified by its content: hashing all weights would take a
load's time."""


Slot = Arg | Value | np.ndarray | None
"""The content of a slot of a record; values and constants stand for their addresses, None for 0."""


class Strided(NamedTuple):
    """An address and byte strides by axis, in the order that the lowering says."""

    address: Ref
    strides: Sequence[int]


class Rows(NamedTuple):
    """Rows of a node's result from row `start` on: the addresses from which they are read (of a convolution: its first
    pixel) and to which they are written."""

    x: Ref
    y: Ref
    start: int = 0


class Matched(Protocol):
    """The lowering that takes a node with its plan, and the lowering's abilities."""

    def __call__(self, node: Node) -> Any: ...
    def abilities(self, node: Node) -> Abilities: ...


class Emit:
    """Writes steps into a program. `match`: node -> the lowering that takes it, with its plan. `precision`: what
    float32 may be computed in.
    """

    precision = "float32"

    def __init__(self, program: Program, views: Views, match: Matched, tier: Tier, threads: int) -> None:
        self.program, self.views, self.match = program, views, match
        self.tier, self.threads = tier, threads
        self.node = Node("identity", [], [], name="a constant")
        self.part = 0
        """The part that steps are of, if they are of one (Step)."""
        self.rounded: dict[Value, Ref] = {}
        """Where whole values lie in bf16, too (gemm/layer_bf16.py)."""
        self.endings: dict[Node, Any] = {}
        """The epilogue of a node: its chain, how the operands broadcast, and both as slots (epilogue.py)."""
        self.chosen: dict[Node, Any] = {}
        """The candidates of layers that bands and parts write again and again (gemm/layers.py)."""
        self.after_bf16: set[Value] = set()
        """Values that follow from results of layers of bfloat16 (narrow.py)."""
        self.written: dict[Any, Any] = {}
        """The steps of some rows of nodes, and the addresses that depend on which (repeat.py)."""
        self._checked = bool(checked())
        self._constants: dict[Any, Ref] = {}
        self._named: dict[int, np.ndarray] = {}

    def storage(self, value: Value) -> Storage:
        if value not in self.program.storage:
            self.program.storage[value] = self.views.storage(value)
        return self.program.storage[value]

    def address(self, value: Value, offset: int = 0) -> Ref:
        """The address of the value, plus `offset` bytes."""
        if value.data is not None:
            base = self.packed(in_order, value.data)
            return base.plus(offset)
        where = self.storage(value)
        return Ref(where.root, where.offset + offset)

    def stride(self, value: Value) -> int:
        """Elements from one row of the value to the next."""
        return last(value) if value.data is not None else self.storage(value).stride

    def strides(self, value: Value) -> tuple[int, ...]:
        """Byte strides of the value's axes in its storage."""
        return byte_strides(value.type.dims, value.type.itemsize, self.stride(value))

    def strided(self, value: Value) -> Strided:
        return Strided(self.address(value), self.strides(value))

    def dense(self, value: Value) -> bool:
        return value.data is not None or self.views.dense(value)

    def constant(self, array: np.ndarray, held: bool = False) -> Ref:
        """The address of a constant. held: the graph holds this array anyway."""
        if not held:
            current().hold(array.nbytes, self.node.name)
        room = self.program.room
        self.program.constants.append(np.asarray(array, order="C") if room is None else room.put(array))
        return Ref(len(self.program.constants) - 1)

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """The memory for the next constant, which then needs no copy."""
        room = self.program.room
        return np.empty(shape, dtype) if room is None else room.empty(shape, dtype)

    def packed(self, make: Callable[..., np.ndarray], *parts: Any, placed: bool = False) -> Ref:
        """The address of make(*parts), which is computed once for all plans of a model.

        Its key is the function and the parts (`ir.weights.key_of`): numbers, text, arrays, values, and tuples of them.
        placed: `make` also takes `empty`, which allocates its result.
        """
        weights = current_weights()
        lasting = None if weights is None else weights.key(make, parts)
        key = key_of(make, parts, lambda array: place_of(array, self._number)) if lasting is None else lasting
        ref = self._constants.get(key)
        if ref is not None:
            found: np.ndarray | None = self.array(ref)
        else:
            found = None if weights is None or lasting is None else weights.find(lasting)
        if found is not None and self._checked:
            _check_same(found, make(*parts, empty=np.empty) if placed else make(*parts), self.node)
        if ref is not None:
            return ref
        if found is None:
            found = make(*parts, empty=self._empty) if placed else make(*parts)
        ref = self._constants[key] = self.constant(found, any(found is part for part in parts))
        if lasting is not None and isinstance(ref.base, int):
            self.program.lasting[ref.base] = lasting
        return ref

    def _number(self, root: np.ndarray) -> int | None:
        """The number of an array of this program that is too large to be identified by its content."""
        if root.nbytes <= BRIEF and not root.dtype.hasobject:
            return None
        self._named[id(root)] = root  # as long as it is here, no other array gets its number
        return id(root)

    def array(self, constant: Ref) -> np.ndarray:
        assert isinstance(constant.base, int)
        return self.program.constants[constant.base]

    def scratch(self, nbytes: int) -> Ref:
        """A buffer for the steps of this node."""
        return Ref(Scratch(f"{self.node.out.name}.scratch", max(nbytes, 64)))

    def kernel(self, name: str, params: Mapping[str, Any], args: Mapping[str, Slot], share: float = 1.0) -> None:
        """Call a kernel: compile-time parameters and the slots of its record by name.

        share: the part of the node's work that this call is. TypeError when the table has no kernel with these
        parameters.
        """
        record = row(name).args.filled(**args)
        slots = tuple([slot if type(slot) in _WORDS else self._word(slot) for slot in record])
        self.program.steps.append(Step(_kernel(self.tier, name, params), slots, self.node, share, self.part))

    def _word(self, slot: Any) -> Arg:
        if isinstance(slot, Value):
            return self.address(slot)
        return self.constant(slot) if isinstance(slot, np.ndarray) else int(slot or 0)

    def within(self, body: Graph, match: Matched, placed: Mapping[Value, Storage]) -> Emit:
        """An Emit for the steps of a body, in the same program. `placed`: as of Views."""
        views = Views(body, match.abilities, placed)
        inner = Emit(self.program, views, match, self.tier, self.threads)
        inner.precision = self.precision
        inner._constants, inner._named = self._constants, self._named
        return inner

    def jump(self, jump: Jump, target: int | None = None) -> tuple[Jump, int]:
        """Write a jump, to step `target` or to where it is to `land`; the jump and its number."""
        at = len(self.program.steps)
        self.program.steps.append(jump)
        jump.by = 0 if target is None else target - at
        return jump, at

    def land(self, jump: tuple[Jump, int]) -> None:
        """Set the target of a jump to the next step."""
        jump[0].by = len(self.program.steps) - jump[1]

    def host(self) -> None:
        """Write a host step for this node."""
        self.program.steps.append(HostStep(self.node))


_WORDS = frozenset((int, Ref, Kernel, Table))
_kernels: dict[tuple[Tier, str, str], Kernel] = {}
"""Kernels by tier, name and text of the parameters; no more than the table has."""


def _kernel(tier: Tier, name: str, params: Mapping[str, Any]) -> Kernel:
    """The kernel of the table, memoized."""
    key = tier, name, repr(params)
    if key not in _kernels:
        _kernels[key] = row(name).kernel(tier, params)
    return _kernels[key]


def in_order(data: np.ndarray) -> np.ndarray:
    """The array itself, or a copy of it whose last axis is dense."""
    return np.asarray(data, order="C")


def _check_same(found: np.ndarray, made: np.ndarray, node: Node) -> None:
    """PlanError when a constant shared by another plan differs from the one that this plan computes."""
    if (found.dtype, found.shape) != (made.dtype, made.shape) or found.tobytes() != made.tobytes():
        raise PlanError(f"{node}: a constant of another plan is not what this one needs: its key says too little")

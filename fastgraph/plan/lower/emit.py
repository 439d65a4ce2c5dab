"""What a lowering talks to: where values lie, constants and scratch memory, the steps that it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import PlanError
from ...freedoms import checked
from ...ir import Graph, Node, Value
from ...ir.weights import current as current_weights
from ...ir.weights import key_of
from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.isa.tiers import Tier
from ...limits import current
from ..program import Arg, HostStep, Jump, Program, Ref, Scratch, Step, Table
from ..storage import Abilities, Storage, Views, byte_strides, last

BRIEF = 1 << 12
"""Bytes up to which an array of a single plan is known by what it holds: a load doesn't read all weights for that."""


Slot = Arg | Value | np.ndarray | None
"""What fills a slot of a record; values and constants stand for their addresses, None for 0."""


class Strided(NamedTuple):
    """Where a tensor lies: byte strides by axis, in the order that its user says."""

    address: Ref
    strides: Sequence[int]


class Rows(NamedTuple):
    """Some rows of a node's result, from row `start` on: where they are read (of a convolution: its first pixel), and
    written.
    """

    x: Ref
    y: Ref
    start: int = 0


class Matched(Protocol):
    """The lowering that takes a node, and its plan of it; what that can do about storage."""

    def __call__(self, node: Node) -> Any: ...
    def abilities(self, node: Node) -> Abilities: ...


class Emit:
    """Writes steps into a program. `match`: the lowering that takes a node of the graph, and its plan of it."""

    def __init__(self, program: Program, views: Views, match: Matched, tier: Tier, threads: int) -> None:
        self.program, self.views, self.match = program, views, match
        self.tier, self.threads = tier, threads
        self.node: Node | None = None
        self._constants: dict[Any, Ref] = {}
        self._named: dict[int, np.ndarray] = {}

    def storage(self, value: Value) -> Storage:
        if value not in self.program.storage:
            self.program.storage[value] = self.views.storage(value)
        return self.program.storage[value]

    def address(self, value: Value, offset: int = 0) -> Ref:
        """Where the value begins, plus `offset` bytes."""
        if value.data is not None:
            base = self.packed(in_order, value.data)
            return base.plus(offset)
        where = self.storage(value)
        return Ref(where.root, where.offset + offset)

    def stride(self, value: Value) -> int:
        """Elements from one row of the value to the next."""
        return last(value) if value.data is not None else self.storage(value).stride

    def strides(self, value: Value) -> tuple[int, ...]:
        """Byte strides of the value's axes where it lies."""
        assert value.type.dtype is not None
        return byte_strides(value.type.dims, value.type.dtype.itemsize, self.stride(value))

    def strided(self, value: Value) -> Strided:
        return Strided(self.address(value), self.strides(value))

    def dense(self, value: Value) -> bool:
        return value.data is not None or self.views.dense(value)

    def constant(self, array: np.ndarray, held: bool = False) -> Ref:
        """The address of a constant. held: the graph holds this array anyway."""
        if not held:
            current().hold(array.nbytes, self.node.name if self.node else "a constant")
        room = self.program.room
        self.program.constants.append(np.asarray(array, order="C") if room is None else room.put(array))
        return Ref(len(self.program.constants) - 1)

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Where to make the next constant: what is made there is not copied."""
        room = self.program.room
        return np.empty(shape, dtype) if room is None else room.empty(shape, dtype)

    def packed(self, make: Callable[..., np.ndarray], *parts: Any, placed: bool = False) -> Ref:
        """The address of make(*parts), which is made once, and once for all plans of a model.

        Its key is the function and the parts (`ir.weights.key_of`): numbers, text, arrays, values, and tuples of them.
        placed: `make` takes `empty`, too, which gives it the memory for what it makes.
        """
        weights = current_weights()
        lasting = None if weights is None else weights.key(make, parts)
        key = key_of(make, parts, self._number) if lasting is None else lasting
        ref = self._constants.get(key)
        if ref is not None:
            found: np.ndarray | None = self.array(ref)
        else:
            found = None if weights is None or lasting is None else weights.find(lasting)
        if found is not None and checked():
            _same(found, make(*parts, empty=np.empty) if placed else make(*parts), self.node)
        if ref is not None:
            return ref
        if found is None:
            found = make(*parts, empty=self._empty) if placed else make(*parts)
        ref = self._constants[key] = self.constant(found, any(found is part for part in parts))
        if lasting is not None and isinstance(ref.base, int):
            self.program.lasting[ref.base] = lasting
        return ref

    def _number(self, root: np.ndarray) -> int | None:
        """The number of an array that this program keeps, where it is too large to be known by what it holds."""
        if root.nbytes <= BRIEF and not root.dtype.hasobject:
            return None
        self._named[id(root)] = root  # as long as it is here, no other array gets its number
        return id(root)

    def array(self, constant: Ref) -> np.ndarray:
        """The array of a constant."""
        assert isinstance(constant.base, int)
        return self.program.constants[constant.base]

    def scratch(self, nbytes: int) -> Ref:
        """Memory for the steps of this node."""
        assert self.node is not None
        return Ref(Scratch(f"{self.node.out.name}.scratch", max(nbytes, 64)))

    def kernel(self, name: str, params: Mapping[str, Any], args: Mapping[str, Slot], share: float = 1.0) -> None:
        """Call a kernel: compile-time parameters and the slots of its record by name.

        share: the part of the node's work that this call is. TypeError when the table has no kernel with these
        parameters.
        """
        assert self.node is not None
        record = row(name).args.filled(**args)
        slots = tuple([slot if type(slot) in _WORDS else self._word(slot) for slot in record])
        self.program.steps.append(Step(_kernel(self.tier, name, params), slots, self.node, share))

    def _word(self, slot: Any) -> Arg:
        if isinstance(slot, Value):
            return self.address(slot)
        return self.constant(slot) if isinstance(slot, np.ndarray) else int(slot or 0)

    def within(self, body: Graph, match: Matched, placed: Mapping[Value, Storage]) -> Emit:
        """What writes the steps of a body into the same program. `placed`: as of Views."""
        views = Views(body, match.abilities, placed)
        inner = Emit(self.program, views, match, self.tier, self.threads)
        inner._constants, inner._named = self._constants, self._named
        return inner

    def jump(self, jump: Jump, target: int | None = None) -> tuple[Jump, int]:
        """Write a jump, to step `target` or to where it is to `land`; the jump and its number."""
        at = len(self.program.steps)
        self.program.steps.append(jump)
        jump.by = 0 if target is None else target - at
        return jump, at

    def land(self, jump: tuple[Jump, int]) -> None:
        """Let a jump go to the step that comes next."""
        jump[0].by = len(self.program.steps) - jump[1]

    def host(self) -> None:
        """Let NumPy compute this node."""
        assert self.node is not None
        self.program.steps.append(HostStep(self.node))


_WORDS = frozenset((int, Ref, Kernel, Table))
_kernels: dict[tuple[Tier, str, str], Kernel] = {}
"""By tier, name and parameters as they are spelled: no more than the table has."""


def _kernel(tier: Tier, name: str, params: Mapping[str, Any]) -> Kernel:
    """The kernel of the table, made once."""
    key = tier, name, repr(params)
    if key not in _kernels:
        _kernels[key] = row(name).kernel(tier, params)
    return _kernels[key]


def in_order(data: np.ndarray) -> np.ndarray:
    """The array itself, or a copy of it whose last axis is dense."""
    return np.asarray(data, order="C")


def _same(found: np.ndarray, made: np.ndarray, node: Node | None) -> None:
    """PlanError when another plan's constant is not what this plan would have made."""
    if (found.dtype, found.shape) != (made.dtype, made.shape) or found.tobytes() != made.tobytes():
        raise PlanError(f"{node}: a constant of another plan is not what this one needs: its key says too little")

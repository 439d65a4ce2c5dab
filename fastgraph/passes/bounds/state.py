"""The state of a sweep over a graph whose shapes depend on data, and the registry of its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from ...families import Families, register
from ...ir import Graph, Node, TensorType, Value, captured
from ...ir.build import Operand, Rewriter
from ...ops.evaluate import infer_node
from ...ops.registry import OPS
from .lengths import Group, lines, looked_up
from .values import Bounded, Extent, Unbounded, Varied, refuse

LARGE, SMALL, TIMES = 16 << 20, 64 << 10, 64
"""Bytes of a bounded value: never above `LARGE`, nor, from `SMALL` on, above `TIMES` those of what the graph takes."""


Rule: TypeAlias = "Callable[[Bounds, Node], list[Bounded]]"
_rules: dict[str, Rule] = {}
RULES = Families(__package__, {
    "data_dependent": """
        non_zero listed_places non_max_suppression compress unique top_k range constant_of_shape if
        random_normal_like random_uniform_like
    """,
    "shapes": "reshape flatten squeeze unsqueeze transpose expand trilu split concat one_hot depth_to_space",
    "slices": "slice strided_slice",
    "places": "pad tile resize",
    "indices": "gather gather_elements gather_nd scatter_elements scatter_nd roi_align",
    "sums": """
        reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum
        reduce_log_sum_exp softmax log_softmax arg_max arg_min cum_sum cum_prod layer_normalization rms_normalization
        batch_normalization instance_normalization matmul gemm block_dense einsum
    """,
    "windows": "conv conv_transpose max_pool average_pool lp_pool lstm gru rnn",
}, _rules)  # fmt: skip
"""The rules of operators whose layout is not `Layout.EACH`."""


def follows(*ops: str) -> Callable[[Rule], Rule]:
    """Register the decorated rule for these operators. It writes the node's work and returns its results, or raises
    Unbounded."""
    return register(_rules, *ops)


class Bounds(Rewriter):
    """A graph that is written, `first` before all other `nodes`, and facts about its values.

    `known`: the bounded value of an original one. `numbers`: integers as numbers and extents. `instead`: replacements
    of values whose shapes turned out to be known. `left`: the nodes of values that are not bounded. `rooms`: inputs
    that may be made wider, each with its graph. `sums`, `multiples`: extents that are another one plus or times a
    number. `groups`: of the open extents of inputs. `node`: the node at hand.
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Node] = []
        self.first: list[Node] = []
        self.known: dict[Value, Bounded] = {}
        self.instead: dict[Value, Value] = {}
        self.numbers: dict[Value, np.ndarray] = {}
        self.memo: dict[Any, Any] = {}
        self.within: dict[Value, set[Value]] = {}
        self.left: dict[Value, Node] = {}
        self.rooms: dict[Value, Graph] = {}
        self.multiples: dict[Value, tuple[Extent, int]] = {}
        self.sums: dict[Value, tuple[Extent, int]] = {}
        self.groups: list[Group] = []
        given = [v for v in graph.inputs if v.type.concrete and v.type.dtype is not None]
        around = (v for v in captured(graph) if v.type.concrete and v.type.dtype is not None)
        self._ready = {*given, *around}
        self._facts: tuple[dict[Any, Any], ...] = (
            self.known, self.instead, self.numbers, self.memo, self.within, self.multiples,
            self.sums, self.left,
        )  # fmt: skip
        taken = sum(v.type.nbytes for v in given if v.type.dtype != object)
        self.limit = min(LARGE, max(SMALL, TIMES * taken))

    # -- what has been written

    def saved(self) -> tuple[int, ...]:
        """The numbers of nodes and facts so far, for `restore`: entries are only added."""
        return len(self.nodes), *map(len, self._facts)

    def restore(self, saved: tuple[int, ...]) -> None:
        """Drop all nodes and facts added since `saved`."""
        del self.nodes[saved[0] :]
        for facts, count in zip(self._facts, saved[1:], strict=True):
            while len(facts) > count:
                facts.popitem()

    def keep(self, node: Node, ready: bool = True) -> None:
        """Write a node as it is; `ready`: whether native steps compute all its operands. A node with any result of
        unknown shape is left to NumPy as a whole."""
        self.nodes.append(node)
        if ready and all(v.type.concrete for v in node.outputs):
            self._ready.update(node.outputs)
        else:
            self.left.update(dict.fromkeys(node.outputs, node))

    def ready(self, value: Value) -> None:
        """Note that native steps read this value where it is fed."""
        self._ready.add(value)

    def is_ready(self, value: Value) -> bool:
        return value.data is not None or value in self._ready

    # -- what rules ask

    def written(self, value: Value) -> Value:
        """The value; written as a constant or a stack of counts where only its numbers are known."""
        numbers = self.numbers.get(value)
        if numbers is not None and value not in self.instead and not self.is_ready(value):
            self.instead[value] = self._written(numbers, value.type.element)
        return self.instead.get(value, value)

    def take(self, value: Value | None) -> Bounded:
        """The bounded value of an operand. Unbounded where there is none."""
        if value is None:
            raise Unbounded
        value = self.written(value)
        if value in self.known:
            return self.known[value]
        refuse(not self.is_ready(value))
        return Bounded(value)

    def takes(self, values: Iterable[Value | None]) -> list[Bounded | None]:
        return [None if v is None else self.take(v) for v in values]

    def fixed(self, value: Value | None) -> Value:
        """An operand none of whose extents depend on data."""
        found = self.take(value)
        refuse(found.extents)
        return found.value

    def numbers_of(self, value: Value | None) -> np.ndarray:
        """The numbers and extents that an operand holds. Unbounded where these are not known."""
        found = self.varied_of(value)
        refuse(any(isinstance(n, Varied) for n in found.flat))
        return found

    def varied_of(self, value: Value | None) -> np.ndarray:
        """As `numbers_of`, with numbers that depend on the length and are no extents (Varied)."""
        found = None if value is None else self.numbers.get(value)
        if found is None:
            data = None if value is None else self.instead.get(value, value).data
            if data is None or data.dtype.kind not in "biuf" or data.size > 64:
                raise Unbounded
            found = np.array([n.item() for n in data.flat], object).reshape(data.shape)
        return found

    def ints_of(self, node: Node, index: int) -> list[int] | None:
        """The numbers that an input holds; None if there is no such input."""
        if not node.has(index):
            return None
        found = list(self.numbers_of(node.inputs[index]).flat)
        refuse(any(isinstance(n, Extent) for n in found))
        return [int(n) for n in found]

    # -- what rules write

    def held(self, data: np.ndarray) -> Value:
        key = data.dtype, data.shape, data.tobytes()
        if key not in self.memo:
            self.memo[key] = Value.constant(f"{self.node.out.name}.bound", data)
        found: Value = self.memo[key]
        return found

    def infer(self, node: Node) -> None:
        infer_node(node)
        refuse(not all(v.type.concrete for v in node.outputs))

    def append(self, node: Node) -> None:
        self.keep(node)

    def __call__(self, op: str, *operands: Operand, type: TensorType | None = None, **attrs: Any) -> Value:
        return self.several(op, 1, *operands, **attrs)[0]

    def several(self, op: str, results: Any, /, *operands: Operand, **attrs: Any) -> list[Value]:
        """The results of a node; the same operator of the same operands is written once, so that equal values are the
        same value."""
        inputs = self._node(op, operands, [], attrs).inputs
        if not OPS[op].pure:
            return super().several(op, results, *inputs, **attrs)
        key = op, results, *inputs, str(sorted(attrs.items()))
        if key not in self.memo:
            self.memo[key] = super().several(op, results, *inputs, **attrs)
        found: list[Value] = self.memo[key]
        return found

    def again(self, node: Node, *inputs: Value | None) -> list[Value]:
        """The results of the same operator and attributes for other operands."""
        return self.several(node.op, len(node.outputs), *inputs, **node.attrs)

    def ints(self, numbers: Any) -> Value:
        return self.held(np.asarray(numbers, np.int64))

    def stacked(self, numbers: np.ndarray) -> Value:
        """Numbers and extents as an int64 vector."""
        flat = [n.count if isinstance(n, Extent) else self.ints(int(n)) for n in numbers.flat]
        return self.shape(self.join([self.shape(v, 1) for v in flat], axis=0), *numbers.shape)

    def _written(self, numbers: np.ndarray, dtype: np.dtype) -> Value:
        if not any(isinstance(n, Varied) for n in numbers.flat):
            return self.cast(self.stacked(numbers), dtype)
        table = np.array(lines(self, *numbers.flat)).T.astype(dtype)
        return looked_up(self, table.reshape(-1, *numbers.shape))

    def real(self, extent: Extent) -> Value:
        """A mask of the real elements along an axis: bool [most]."""
        return self("less", np.arange(extent.most), extent.count)

    def masked(self, x: Bounded, fill: Any, axes: Iterable[int] | None = None) -> Value:
        """The value with `fill` in place of elements that are not real along these axes (None: any axis)."""
        value, rank = x.value, len(x.value.type.dims)
        if x.clean and not fill:
            return value
        for axis, extent in x.extents.items():
            if axes is None or axis in axes:
                column = [extent.most if a == axis else 1 for a in range(rank)]
                value = self.choose(self.shape(self.real(extent), *column), value, fill)
        return value

    def non_zero(self, x: Value) -> tuple[Value, Extent]:
        """(indices [rank, elements] of the elements that are not 0, filled up with zeros; their count)."""
        refuse(not x.type.size or 8 * x.type.size * len(x.type.dims) > self.limit)
        places, count = self.several("bounded_non_zero", 2, x)
        return places, Extent(count, x.type.size)

"""The storage of values: a buffer of their own, or a view of another value's (reshape, concat, split without copies).

A tensor's rows are the vectors along its last axis. Its storage is dense, or strided: rows of a wider tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..freedoms import free
from ..ir import Graph, Node, Value, read_by
from ..ops.registry import OPS

SAME_PLACE = frozenset({"reshape", "reinterpret"})
"""Operators whose result has the operand's elements in the same order and storage."""
MOVES = SAME_PLACE | {"concat", "split", "slice"}


class Storage(NamedTuple):
    """`offset` bytes into the buffer of `root`; `stride` elements from one row to the next."""

    root: Value
    offset: int
    stride: int


class Link(NamedTuple):
    """The storage of a value in that of `parent`: a run of bytes, or (`rows`) a slice of each of its rows."""

    parent: Value
    offset: int
    rows: bool


def has_memory(value: Value) -> bool:
    """Whether the value lives in the arena: strings, sequences and optionals live on the host."""
    return value.type.dtype is not None and value.type.dtype.kind != "O"


class Abilities(NamedTuple):
    """The storage that a lowering supports: strided inputs, strided outputs, an output in place of an input."""

    strided_in: bool = False
    strided_out: bool = False
    in_place: bool = False


def last(value: Value) -> int:
    """The length of a row."""
    dims = value.type.dims
    return dims[-1] if dims else 1


class Views:
    """The links of one graph, and the storage that follows from them. `uses`: as of the graph. `placed`: the storage of
    values of a body that the program around it determines, captured ones among them."""

    def __init__(
        self, graph: Graph, abilities: Callable[[Node], Abilities], placed: Mapping[Value, Storage] | None = None
    ) -> None:
        self.links: dict[Value, Link] = {}
        self._placed = dict(placed or {})
        # Links are made in such an order that what was found stays true until the next round of them, but for the roots
        # that are made in the memory of results.
        self._found = dict(self._placed)
        self._made_in: dict[Value, Value] = {}
        self._graph = graph
        self._abilities = {node: abilities(node) for node in graph.nodes}
        self.uses = graph.uses()
        self._strided: dict[Value, bool] = {}
        self._makers = graph.producers()
        self._outputs = set(graph.outputs)
        if free("views"):
            self._link_views()
        if free("in_place"):
            self._link_in_place()
        self._parents = {link.parent for link in self.links.values()}

    def storage(self, value: Value) -> Storage:
        """The storage of a value of the graph."""
        above: list[Value] = []
        while value not in self._found:
            above.append(value)
            if value not in self.links:
                break
            value = self.links[value].parent
        for inner in reversed(above):
            self._found[inner] = self._within(inner)
        found = self._found[above[0] if above else value]
        result = self._made_in.get(found.root)
        return found if result is None else found._replace(root=result)

    def _within(self, value: Value) -> Storage:
        """The storage of a value, relative to its parent's."""
        link = self.links.get(value)
        if link is None:
            return Storage(value, 0, last(value))
        above, offset = self._found[link.parent], link.offset
        if not link.rows and self.dense(link.parent):
            return Storage(above.root, above.offset + offset, last(value))
        if not link.rows:
            offset = offset // max(last(value), 1) * above.stride
        return Storage(above.root, above.offset + offset, above.stride)

    def dense(self, value: Value) -> bool:
        """Whether the value's storage is contiguous."""
        return self.storage(value).stride == last(value) or value.type.size == last(value)

    def alone(self, value: Value) -> bool:
        """Whether the value has a buffer that no other value lies in."""
        return value not in self.links and value not in self._parents

    def overlap(self, one: Value, other: Value) -> bool:
        """Whether two values may have bytes in common."""
        a, b = self.storage(one), self.storage(other)
        if a.root is not b.root or not one.type.size or not other.type.size:
            return False
        (start, pitch, width, end), (start_b, pitch_b, width_b, end_b) = _region(one, a), _region(other, b)
        if end <= start_b or end_b <= start:
            return False
        left, left_b = start % pitch, start_b % pitch
        side_by_side = left + width <= left_b and left_b + width_b <= pitch
        return pitch != pitch_b or not (side_by_side or left_b + width_b <= left and left + width <= pitch)

    # -- who may lie in whom

    def _placeable(self, value: Value) -> bool:
        """Whether the value may become a view: computed by a node, without storage yet, and no result."""
        free_yet = value not in self.links and value not in self._placed
        return value in self._makers and free_yet and value not in self._outputs

    def _writes_strided(self, value: Value) -> bool:
        node = self._makers[value]
        return node.op in ("concat", *SAME_PLACE) or self._abilities[node].strided_out

    def _reads_strided(self, value: Value) -> bool:
        if value not in self._strided:
            self._strided[value] = all(self._abilities[node].strided_in for node in self.uses.get(value, ()))
        return self._strided[value]

    def _fits(self, value: Value, parent: Value, rows: bool) -> bool:
        """Whether all writers and readers of the value support the strides it would have there."""
        if not rows and self.dense(parent):
            return True
        if not rows and last(value) != last(parent):
            return False
        return self._writes_strided(value) and self._reads_strided(value)

    def _link_views(self) -> None:
        """Make views of the results of operators that only move data."""
        moving = [n for n in self._graph.nodes if n.op in MOVES and keeps_numbers(n)]
        for node in reversed(moving):
            if node.op == "concat":
                self._link_concat(node)
            elif node.op in SAME_PLACE and node.out in self.links:
                self._link_source(node)
        self._found = dict(self._placed)
        for node in moving:
            if node.op in SAME_PLACE:
                self._link_reshape(node)
            elif node.op in ("split", "slice"):
                self._link_parts(node)

    def _link_concat(self, node: Node) -> None:
        """Make inputs of a concat views of its result, where that is possible."""
        axis = node.attrs["axis"] % len(node.out.type.dims)
        placed = part_kind(node.out, axis)
        if placed is None:
            return
        offset, often = 0, Counter(node.inputs)
        for value in node.operands:
            size = part_bytes(value, axis, placed)
            if self._placeable(value) and often[value] == 1 and self._fits(value, node.out, placed == "rows"):
                self.links[value] = Link(node.out, offset, placed == "rows")
            offset += size

    def _link_source(self, node: Node) -> None:
        """Make the source of a reshape whose result is a view a view as well."""
        if self._placeable(node.x) and self._fits(node.x, node.out, False):
            self.links[node.x] = Link(node.out, 0, False)

    def _link_reshape(self, node: Node) -> None:
        x, out = node.x, node.out
        if out in self.links or out in self._placed or x.data is not None:
            return
        if x in self.links and self.links[x].parent is out:
            return
        if self.dense(x) or (last(x) == last(out) and self._reads_strided(out)):
            self.links[out] = Link(x, 0, False)

    def _link_parts(self, node: Node) -> None:
        """Make the results of a split or slice views, if all their readers can take strides."""
        for value, axis, start in parts(node):
            placed = part_kind(node.x, axis)
            if placed is None or value in self.links or node.x.data is not None or value in self._outputs:
                continue  # outputs are all that is placed and made by a node
            rows = placed == "rows"
            if (not rows and self.dense(node.x)) or (
                (rows or last(value) == last(node.x)) and self._reads_strided(value)
            ):
                step = part_bytes(node.x, axis, placed) // max(node.x.type.dims[axis], 1)
                self.links[value] = Link(node.x, start * step, rows)

    def _link_in_place(self) -> None:
        """Let the result of an elementwise operator, a chain or an update overwrite an operand with no later reader. A
        result of the graph keeps its own memory: there the operand is made.
        """
        final = self._last_readers()
        self._found = dict(self._placed)
        for i, node in enumerate(self._graph.nodes):
            for k in overwritten(node, self._abilities[node]):
                operand = node.inputs[k]
                if operand is not None and self._overwrite(i, node, operand, final):
                    break

    def _last_readers(self) -> dict[Value, int]:
        """The number of the last node that reads each buffer; that behind the last where it is read after a run."""
        final: dict[Value, int] = {}
        growing = self._graph.growing
        reads = [(i, read_by(node)) for i, node in enumerate(self._graph.nodes)]
        kept = [v for v in self._graph.inputs if v not in growing]
        for i, values in (*reads, (len(reads), (*self._graph.outputs, *kept, *self._placed))):
            final.update((self.storage(value).root, i) for value in values if value.data is None)
        return final

    def _overwrite(self, i: int, node: Node, operand: Value, final: dict[Value, int]) -> bool:
        """Give the result of node i and an operand the same memory, if that can be."""
        root, growing = self.storage(operand).root, self._graph.growing
        made = operand in self._makers or operand in growing
        if not made or final[root] != i or not self._replaceable(node, operand):
            return False
        if root not in growing and self._placeable(node.out):
            self.links[node.out] = Link(operand, 0, False)
            final[root] = max(i, final.get(node.out, i))
            return True
        suits = root not in growing or OPS[node.op].updates  # which write behind what was fed
        if not suits or not self._can_replace(root, node.out):
            return False
        self.links[root] = Link(node.out, 0, False)
        self._made_in[root] = node.out
        return True

    def _can_replace(self, root: Value, result: Value) -> bool:
        """Whether the values in the buffer of `root` can be made in that of an output of the graph instead."""
        alone = result in self._outputs and result not in self.links and result not in self._placed
        fed = root in self._graph.growing and root not in self.links and root not in self._outputs
        return alone and (fed or self._placeable(root)) and root.type.nbytes == result.type.nbytes

    def _replaceable(self, node: Node, value: Value) -> bool:
        """Whether the result has the form of this operand, and no other input shares the memory, unless it may be
        overwritten too and has the same storage."""
        where = overwritten(node, self._abilities[node])
        if not same_form(value, node.out) or not self.dense(value):
            return False
        at = self.storage(value)
        for i, other in enumerate(node.inputs):
            if other is None or other.data is not None or self.storage(other).root is not at.root:
                continue
            if i not in where or not same_form(other, value) or self.storage(other) != at:
                return False
        return True


def overwritten(node: Node, can: Abilities) -> range:
    """The operands that the result may overwrite, because the kernel reads each of their elements only where it is
    about to write, or not at all."""
    op = OPS[node.op]
    if not can.in_place or not (op.updates or op.one_to_one_at is not None):
        return range(0)
    return range(1) if op.updates else range(op.one_to_one_at or 0, len(node.inputs))


def keeps_numbers(node: Node) -> bool:
    """Whether the node moves stored numbers unchanged from its operand (or operands) to its results."""
    values = [*(node.inputs if node.op == "concat" else node.inputs[:1]), *node.outputs]
    return node.op == "reinterpret" or len({None if v is None else (v.type.dtype, v.type.quant) for v in values}) == 1


def same_form(one: Value, other: Value) -> bool:
    """Whether the values have the same element type and shape."""
    return one.type.dtype == other.type.dtype and one.type.shape == other.type.shape


def part_kind(whole: Value, axis: int) -> str | None:
    """How a part of `whole` along `axis` is stored in it: "run" of bytes, "rows" (a slice of each), or None."""
    dims = whole.type.dims
    if all(d == 1 for d in dims[:axis]):
        return "run"
    return "rows" if axis == len(dims) - 1 else None


def part_bytes(part: Value, axis: int, kind: str) -> int:
    """The stride in bytes from one part to the next."""
    return part.type.nbytes if kind == "run" else part.type.dims[axis] * part.type.itemsize


def parts(node: Node) -> list[tuple[Value, int, int]]:
    """(part, axis, start) of each result of a split, or of a slice of one axis with step 1; else nothing."""
    if node.op == "split":
        axis, start, found = node.attrs["axis"] % len(node.x.type.dims), 0, []
        for value in node.outputs:
            found.append((value, axis, start))
            start += value.type.dims[axis]
        return found
    starts, axes, steps = node.const(1), node.const(3), node.const(4)
    if starts is None or (node.has(3) and axes is None) or (node.has(4) and (steps is None or np.any(steps != 1))):
        return []
    dims, out = node.x.type.dims, node.out.type.dims
    cut = [i for i in range(len(dims)) if dims[i] != out[i]]
    if len(cut) != 1 or node.out.type.size == 0:
        return []
    axis = cut[0]
    chosen = list(range(len(starts))) if axes is None else [int(a) % len(dims) for a in axes]
    start = int(starts[chosen.index(axis)])
    start = max(start + dims[axis], 0) if start < 0 else min(start, dims[axis])
    return [(node.out, axis, start)]


def _region(value: Value, at: Storage) -> tuple[int, int, int, int]:
    """(offset in its buffer, stride of rows, length of a row, end) of a value that is not empty, in bytes."""
    size = value.type.itemsize
    pitch, width = size * at.stride, size * last(value)
    return at.offset, pitch, width, at.offset + (row_count(value) - 1) * pitch + width


def row_count(value: Value) -> int:
    return value.type.size // max(last(value), 1)


def byte_strides(dims: Sequence[int], itemsize: int, row: int) -> tuple[int, ...]:
    """Byte strides of an array whose rows are `row` elements apart."""
    strides = [itemsize] if dims else []
    step = row * itemsize
    for extent in reversed(dims[1:-1]):
        strides.append(step)
        step *= extent
    if len(dims) > 1:
        strides.append(step)
    return tuple(reversed(strides))

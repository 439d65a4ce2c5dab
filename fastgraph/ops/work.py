"""The cost of the NumPy references, which folding of constants asks for first: elements touched and bytes held."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ..ir import Graph, Node, TensorType, Value, captured
from .registry import OPS

CALL = 1 << 12
"""The fixed work of a call of a reference: what NumPy does in the microseconds that a call takes."""

REAL = 8
"""The most bytes in which references hold an element: an f64."""

TEXT = 64
"""Bytes of a string object and of its entries in lists and arrays, without characters; also how many times slower than
a number it is."""

ENDLESS = 1 << 62

LAYERS = frozenset("gemm einsum rnn gru lstm lstm_sequence attention block_dense linear_attention svdf".split())
"""Operators that compute products of matrices, beside those that have weights by `Op.weights`."""

FOUND = {"compress": 1, "non_zero": 8, "unique": 4}
"""Operators whose results' extents only their operands' data decide: at most so many numbers for each element."""

Work = Callable[[Node], tuple[int, int]]
"""An operator's `work`: (work, elements held) beyond the elements of its operands and results."""


def work_of(node: Node) -> tuple[int, int]:
    """(elements touched and multiply-adds, bytes held at once) of a node whose types are concrete.

    An estimate: right within a small factor for what is large, never far too low. Nodes that hold graphs whose types
    are not known cost more than any limit.
    """
    most = FOUND.get(node.op, 0)
    values = [v for v in (*node.inputs, *(node.outputs if not most else ())) if v is not None]
    values += [v for inner in node.graphs for v in captured(inner)]
    if any(not v.type.concrete for v in values):
        return ENDLESS, ENDLESS
    touched = sum(_size(v.type) for v in values) * (1 + most)
    held = REAL * touched + sum(_string_bytes(node, v) for v in values)
    graphs = node.graphs
    if graphs:
        work, inside = (max(parts) for parts in zip(*map(_graph, graphs), strict=True))
        return CALL + touched + _most_rounds(node) * work, held + inside
    own = OPS[node.op].work
    more, beside = own(node) if own is not None else (0, 0)
    return CALL + touched + more, held + REAL * beside


def is_heavy(node: Node) -> bool:
    """Whether a node is a layer of products, or holds one: what native code computes many times faster than NumPy."""
    return (
        node.op in LAYERS
        or OPS[node.op].weights is not None
        or any(is_heavy(each) for inner in node.graphs for each in inner.nodes)
    )


def _size(kind: TensorType) -> int:
    return kind.size * TEXT if kind.dtype == object else kind.size


def _graph(graph: Graph) -> tuple[int, int]:
    """(work, elements held) of a graph: the sum over its nodes, as if all values were held at once."""
    costs = [work_of(node) for node in graph.nodes]
    return sum(work for work, _ in costs), sum(held for _, held in costs)


def _most_rounds(node: Node) -> int:
    """The most rounds in which a node runs its graphs; of a scan at most the greatest extent of its last input."""
    if node.op == "if":
        return 1
    if node.op == "loop":
        count = node.const(0)
        return ENDLESS if count is None else max(int(count.reshape(-1)[0]), 0)
    last = node.inputs[-1]
    return max(last.type.dims, default=1) if last is not None else 1


def _string_bytes(node: Node, value: Value) -> int:
    """Bytes of a value's strings, if each were as long as the longest of the constant inputs together."""
    if value.type.dtype != object:
        return 0
    texts = [v.data for v in node.inputs if v is not None and v.data is not None and v.type.dtype == object]
    return value.type.size * 4 * sum(max((len(str(s)) for s in text.flat), default=0) for text in texts)


def _dims(node: Node, index: int) -> tuple[int, ...]:
    value = node.input(index)
    return () if value is None else value.type.dims


def products(first: int, second: int) -> Work:
    """A matrix product of two operands: for each result as many multiply-adds as rows are long."""

    def work(node: Node) -> tuple[int, int]:
        a, b = _dims(node, first), _dims(node, second)
        long = a[0] if node.attrs.get("trans_a") and a else a[-1] if a else 1
        return node.out.type.size * max(long, 1), prod(a) + prod(b)

    return work


def window(weights: int | None = None, spreads: bool = False) -> Work:
    """A window over an image [N, spatial..., C]: one multiply-add per tap and result, from a padded copy of the image.
    `weights`: their input; `spreads`: taps are counted per input element, not per result."""

    def work(node: Node) -> tuple[int, int]:
        spatial = _dims(node, 0)[1:-1]
        held = _dims(node, weights) if weights is not None else ()
        kernel = held[1:-1] or tuple(node.attrs.get("kernel_shape") or (1,) * len(spatial))
        a = node.attrs
        steps = a.get("strides") or (1,) * len(kernel)
        apart = a.get("dilations") or (1,) * len(kernel)
        image = spatial if spreads else node.out.type.dims[1:-1]
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(image, kernel, steps, apart, strict=False)]
        planes = (_dims(node, 0)[:1] or (1,))[0] * max(_dims(node, 0)[-1:] + node.out.type.dims[-1:])
        results = prod(_dims(node, 0)) if spreads else node.out.type.size
        channels = 1 if not held else held[0] if spreads else held[-1]
        return results * channels * prod(kernel) + prod(kernel) * CALL, prod(max(r, 1) for r in reach) * planes

    return work


def einsum(node: Node) -> tuple[int, int]:
    """Every combination of all subscripts."""
    terms = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    extents: dict[str, int] = {}
    rest = 1
    for term, value in zip(terms, node.inputs, strict=False):
        dims = () if value is None else value.type.dims
        head, _, tail = term.partition("...")
        named = [*zip(head, dims, strict=False), *zip(reversed(tail), reversed(dims), strict=False)]
        extents.update((c, max(d, extents.get(c, 1))) for c, d in named)
        rest = max(rest, prod(dims[len(head) : len(dims) - len(tail)]))
    return prod(extents.values()) * rest, 0


def resize(node: Node) -> tuple[int, int]:
    """A product with a matrix [out, in] along each axis that changes."""
    x, y = _dims(node, 0), node.out.type.dims
    changed = [(n, m) for n, m in zip(x, y, strict=True) if n != m]
    between = prod(map(max, x, y))
    nearest = node.attrs.get("mode", "nearest") == "nearest"
    return (0, between) if nearest else (between * sum(map(max, changed)), between + 4 * sum(n * m for n, m in changed))


def squares(node: Node) -> tuple[int, int]:
    """The work of at most one step for each pair of elements."""
    square = sum(v.type.size for v in (*node.inputs, *node.outputs) if v is not None) ** 2
    return square, square // 8


def scores(node: Node) -> tuple[int, int]:
    """Queries times keys, and weights times values."""
    keys = sum(v.type.dims[-2] for v in (*node.inputs[1:2], *node.inputs[4:5]) if v is not None)
    queries = prod(_dims(node, 0))
    return (queries + node.out.type.size) * keys, queries * keys


def gates(node: Node) -> tuple[int, int]:
    """All weights for each step of each sequence."""
    steps, weights = prod(_dims(node, 0)[:2]), prod(_dims(node, 1)) + prod(_dims(node, 2))
    return steps * weights, steps * max(sum(_dims(node, 1)), 1)


def in_python(node: Node) -> tuple[int, int]:
    """A loop of Python's over elements."""
    return 1000 * sum(v.type.size for v in (*node.inputs, *node.outputs) if v is not None and v.type.concrete), 0


def neighbors(node: Node) -> tuple[int, int]:
    """`size` elements for each result."""
    return node.out.type.size * int(node.attrs.get("size", 1)), 0


def nbytes(array: np.ndarray) -> int:
    """Bytes of an array and of its strings."""
    if array.dtype != object:
        return array.nbytes
    return array.nbytes + sum(TEXT + 4 * len(str(s)) for s in {id(s): s for s in array.flat}.values())

"""Features turned by their positions' angles, as elementwise steps on parts of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep

F32, F16 = np.dtype(np.float32), np.dtype(np.float16)


@rule("common", "rotary_embedding")
def rotary_embedding(state: Sweep, node: Node) -> bool:
    """Given ``y = rotary_embedding(x, cos, sin)``; result ``concat(a * cos - b * sin, a * sin + b * cos, rest)``, where
    a and b are halves of what is turned of x, or neighbors. f16 is computed in f32.
    """
    if not all(v is None or v.type.concrete for v in node.inputs) or node.x.type.dtype not in (F32, F16):
        return False
    if not node.x.type.size:
        return False
    x, cos, sin = (_wide(state, node, v) for v in node.inputs[:3])
    dims = x.type.dims
    if len(dims) == 3:
        heads = attr(node, "num_heads")
        x = shaped(state, node, x, (*dims[:2], heads, dims[2] // heads))
    angles = [_angles(state, node, v, len(dims) == 3) for v in (cos, sin)]
    half, size = cos.type.dims[-1], x.type.dims[-1]
    apart = bool(attr(node, "interleaved"))
    pairs, rest = _pairs(state, node, x, half, apart), size - 2 * half

    def product(i: int, j: int) -> Value:
        return state.add("mul", [pairs[i], angles[j]], pairs[i].type, node)

    real = state.add("sub", [product(0, 0), product(1, 1)], pairs[0].type, node)
    imaginary = state.add("add", [product(0, 1), product(1, 0)], pairs[0].type, node)
    turned = [_woven(state, node, real, imaginary)] if apart else [real, imaginary]
    parts = [*turned, *([_part(state, node, x, 2 * half, size)] if rest else [])]
    y = state.add("concat", list(parts), x.type, node, axis=3) if len(parts) > 1 else parts[0]
    y = shaped(state, node, y, dims)
    if node.out.type.dtype != F32:
        y = state.add("cast", [y], node.out.type, node, to=node.out.type.dtype)
    state.replace(node.out, y)
    return True


def _wide(state: Sweep, node: Node, value: Value | None) -> Value:
    assert value is not None
    if value.type.dtype == F32:
        return value
    return state.add("cast", [value], TensorType(F32, value.type.shape), node, to=F32)


def _angles(state: Sweep, node: Node, cache: Value, rows_first: bool) -> Value:
    """Of each row, as [images, rows, 1, angles] or [images, 1, rows, angles]."""
    positions = node.inputs[3] if node.has(3) else None
    if positions is not None:
        dims = (*positions.type.dims, cache.type.dims[-1])
        cache = state.add("gather", [cache, positions], cache.type.with_shape(dims), node, axis=0)
    images, rows, angles = cache.type.dims
    return shaped(state, node, cache, (images, rows, 1, angles) if rows_first else (images, 1, rows, angles))


def _part(state: Sweep, node: Node, x: Value, start: int, end: int, step: int = 1) -> Value:
    """Elements start..end of each row."""
    numbers = [constant(node.out, np.array([n], np.int64), "part") for n in (start, end, 3, step)]
    type_ = x.type.with_shape((*x.type.dims[:-1], -(-(end - start) // step)))
    return state.add("slice", [x, *numbers], type_, node)


def _pairs(state: Sweep, node: Node, x: Value, half: int, apart: bool) -> Sequence[Value]:
    if apart:
        return [_part(state, node, x, i, 2 * half, step=2) for i in (0, 1)]
    return [_part(state, node, x, i * half, (i + 1) * half) for i in (0, 1)]


def _woven(state: Sweep, node: Node, even: Value, odd: Value) -> Value:
    """The elements of rows of both in turn."""
    *lead, n = even.type.dims
    rows = [shaped(state, node, v, (*lead, 1, n)) for v in (even, odd)]
    both = state.add("concat", list(rows), even.type.with_shape((*lead, 2, n)), node, axis=3)
    return shaped(state, node, turn(state, node, both, (0, 1, 2, 4, 3)), (*lead, 2 * n))

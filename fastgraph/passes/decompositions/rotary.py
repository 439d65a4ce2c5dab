"""Rotary position embedding as elementwise steps on parts of rows."""

from __future__ import annotations

from ...ir import FLOAT16, FLOAT32, FLOAT64, Node, Value
from ...ops.registry import attr
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("common", "rotary_embedding")
def rotary_embedding(g: Sweep, node: Node) -> bool:
    """Given ``y = rotary_embedding(x, cos, sin)``; result ``concat(a * cos - b * sin, a * sin + b * cos, rest)``, where
    a and b are the halves of the rotated features of x, or its even and odd ones. f16 is computed in f32."""
    dtype = node.x.type.dtype
    if not known(*node.inputs[:3], dtypes=[FLOAT16, FLOAT32, FLOAT64]) or node.has(3) and not known(node.inputs[3]):
        return False
    x, cos, sin = (v if dtype == FLOAT64 else g.cast(v, FLOAT32) for v in node.inputs[:3] if v is not None)
    flat, neighbors = len(x.type.dims) == 3, bool(attr(node, "interleaved"))
    if flat:
        heads, (*lead, n) = attr(node, "num_heads"), x.type.dims
        x = g.shape(x, *lead, heads, n // heads)
    half, size = cos.type.dims[-1], x.type.dims[-1]
    if neighbors:
        a, b = (g.cut(x, 3, i, 2 * half, 2) for i in (0, 1))
    else:
        a, b = g.cut(x, 3, 0, half), g.cut(x, 3, half, 2 * half)
    cos, sin = (_angles(g, node, v, flat) for v in (cos, sin))
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    turned = [_interleaved(g, real, imaginary)] if neighbors else [real, imaginary]
    rest = [g.cut(x, 3, 2 * half, size)] if size > 2 * half else []
    return g.becomes(g.cast(g.shape(g.join([*turned, *rest], axis=3), *node.x.type.dims), node.out.type.dtype))


def _angles(g: Sweep, node: Node, cache: Value, rows_first: bool) -> Value:
    """cos or sin for each row, as [images, rows, 1, angles] or [images, 1, rows, angles]."""
    if node.has(3):
        cache = g.pick(cache, node.inputs[3])
    images, rows, angles = cache.type.dims
    return g.shape(cache, images, rows, 1, angles) if rows_first else g.shape(cache, images, 1, rows, angles)


def _interleaved(g: Sweep, even: Value, odd: Value) -> Value:
    """The elements of two rows interleaved."""
    *lead, n = even.type.dims
    both = g.join([g.shape(v, *lead, 1, n) for v in (even, odd)], axis=3)
    return g.shape(g.transpose(both, 0, 1, 2, 4, 3), *lead, 2 * n)

"""Chains of elementwise steps: over f32, and where operands or results are stored numbers."""

from __future__ import annotations

from typing import Any

from ....ir import Node, Value
from ....kernels.pointwise.elementwise_shape import Loops
from ..elements import element
from ..registry import Emit, is_f32, lowers
from .calls import fits, inputs_of, joined_rows, loops_of, row_steps, together
from .chains import Chain, Rounding, call_stored, chain_of, emit_stored, readable, writable


def _match(node: Node) -> bool:
    return is_f32(node) and node.out.type.size > 0 and fits(node)


@lowers("fused", match=_match, strided_in=True, strided_out=True, in_place=True)
def fused(e: Emit, node: Node, _: Any) -> None:
    loops, xs = loops_of(e, node, inputs_of(node))
    params = {"chain": node.attrs["chain"], "kinds": loops.kinds}
    e.kernel("elementwise", params, loops.args(e.address(node.out)), loops.operands(xs))


def _match_stored(node: Node) -> bool:
    values = inputs_of(node)
    if all(v.type.quant is None for v in (*values, *node.outputs)):
        return False
    return writable(node.out) and all(map(readable, values)) and fits(node)


@lowers("fused", match=_match_stored, strided_in=True, strided_out=True, in_place=True)
def fused_stored(e: Emit, node: Node, _: Any) -> None:
    """A chain over quantized values: two fused multiply-adds for a sum of two."""
    chain, rounding = chain_of(node)
    if not _scales_channels(e, node, chain, rounding):
        call_stored(e, node, chain, rounding)


PRODUCT = (("sub", 0, 2), ("sub", 1, 3), ("mul", 5, 6), ("mul", 7, 4))
"""What `chains.product` makes of two quantized tensors, with the numbers zero point, zero point, factor."""


def _scales_channels(e: Emit, node: Node, chain: Chain, rounding: Rounding) -> bool:
    """Squeeze and excite: bytes times one row of bytes, which becomes f32 factors first, for some rows at a time."""
    x, w = (chain.tensors + [None, None])[:2]
    if chain.steps != PRODUCT or not isinstance(x, Value) or not isinstance(w, Value):
        return False
    loops, (x_at, w_at) = loops_of(e, node, [x, w])
    steps = row_steps(loops)
    if steps is None or sorted(steps) != [0, loops.dims[-1]]:
        return False
    zx, zw, factor = chain.numbers
    if steps[0] == 0:
        x, x_at, zx, w, w_at, zw = w, w_at, zw, x, x_at, zx
    rows, cols = loops.dims[-2:]
    many = together(rows, cols, 4 * e.tier.lanes)
    factors = e.scratch(4 * many * cols)
    repeated = Loops((1, 1, 1, many, cols), (0, 0, 0, cols, 1), ((0, 0, 0, 0, 1),))
    emit_stored(e, (("sub", 0, 1), ("mul", 3, 2)), (zw, factor), repeated, ("f32", factors), [(element(w), w_at)])
    scaled = joined_rows(rows, cols, many, [cols, 0])
    xs = [(element(x), x_at), ("f32", factors)]
    y = element(node.out), e.address(node.out)
    emit_stored(e, (("sub", 0, 2), ("mul", 3, 1)), (zx,), scaled, y, xs, rounding)
    return True

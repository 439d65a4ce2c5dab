"""Chains of elementwise steps, comparisons and selection, over f32 and over stored numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ....kernels.pointwise.elementwise_shape import Loops
from ..elements import element
from ..registry import Emit, Narrow, is_f32, lowers
from ..walk import Out
from .calls import call_walk, fits, joined_loops, joined_rows, loops_of, row_steps, together
from .chains import Chain, as_read, call_stored, chain_of, f32, held, readable, real, writable


def _match(node: Node) -> bool:
    return is_f32(node) and node.out.type.size > 0 and fits(node)


def _narrow(e: Emit, node: Node, _: Any) -> Narrow:
    """bfloat16 of as many elements as the result has: the rest is not much."""
    whole = (i for i, v in enumerate(node.inputs) if v is not None and v.type.size == node.out.type.size)
    return Narrow(frozenset(whole), gives=True, follows=True)


@lowers("fused", match=_match, strided_in=True, strided_out=True, in_place=True, narrow=_narrow)
def fused(e: Emit, node: Node, _: Any) -> None:
    loops, xs = joined_loops(e, node, node.operands, longest=4 * e.tier.lanes)
    sources = [(element(value), x) for value, x in zip(node.operands, xs, strict=True)]
    call_walk(e, node.attrs["chain"], loops, e.address(node.out), sources, Out(element(node.out)))


def _match_stored(node: Node) -> bool:
    values = node.operands
    if all(v.type.quant is None for v in (*values, *node.outputs)):
        return False
    return writable(node.out) and all(map(readable, values)) and fits(node)


@lowers("fused", match=_match_stored, strided_in=True, strided_out=True, in_place=True)
def fused_stored(e: Emit, node: Node, _: Any) -> None:
    """A chain over quantized values; the sum of two takes two fused multiply-adds."""
    chain, out = chain_of(node)
    if not _scales_channels(e, node, chain, out):
        call_stored(e, node, chain, out)


def _scales_channels(e: Emit, node: Node, chain: Chain, out: Out) -> bool:
    """Squeeze and excite: bytes times one row of bytes, which becomes f32 factors first, for some rows at a time."""
    x, w = (chain.tensors + [None, None])[:2]
    match chain.steps:  # as `chains.product` makes them of two quantized tensors
        case (("sub", 0, zx), ("sub", 1, zw), ("mul", 2, 3), ("mul", 4, factor)):
            pass
        case _:
            return False
    if not isinstance(x, Value) or not isinstance(w, Value):
        return False
    loops, (x_at, w_at) = loops_of(e, node, [x, w])
    steps = row_steps(loops)
    if steps is None or sorted(steps) != [0, loops.dims[-1]]:
        return False
    if steps[0] == 0:
        x, x_at, zx, w, w_at, zw = w, w_at, zw, x, x_at, zx
    rows, cols = loops.dims[-2:]
    many = together(rows, cols, 4 * e.tier.lanes)
    factors = e.scratch(4 * many * cols)
    repeated = Loops((1, 1, 1, many, cols), (0, 0, 0, cols, 1), ((0, 0, 0, 0, 1),))
    call_walk(e, (("sub", 0, zw), ("mul", 1, factor)), repeated, factors, [(element(w), w_at)])
    scaled = joined_rows(rows, cols, many, [cols, 0])
    xs = [(element(x), x_at), ("f32", factors)]
    call_walk(e, (("sub", 0, zx), ("mul", 2, 1)), scaled, e.address(node.out), xs, out)
    return True


COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")


def _compares(node: Node) -> bool:
    return all(map(readable, node.operands)) and _is_truth(node.out) and node.out.type.size > 0 and fits(node)


def _is_truth(value: Value) -> bool:
    return value.type.concrete and value.type.dtype == np.bool_


@lowers(*COMPARISONS, match=_compares, strided_in=True, strided_out=True)
def truth(e: Emit, node: Node, _: Any) -> None:
    """1 or 0, computed on reals."""
    chain = Chain()
    chain.step(node.op, *(real(chain, as_read(v)) for v in node.operands))
    call_stored(e, node, chain, Out("bool"))


def _selects(node: Node) -> bool:
    if not all(node.inputs):
        return False
    condition, *both = node.operands
    return _is_truth(condition) and all(map(readable, both)) and writable(node.out) and fits(node)


@lowers("where", match=_selects, strided_in=True, strided_out=True)
def where(e: Emit, node: Node, _: Any) -> None:
    chain = Chain()
    chosen = chain.step("where", *(real(chain, as_read(v)) for v in node.operands))
    if node.out.type.quant is not None:
        chain.step("mul", chosen, f32(1 / node.out.type.quant.scale[0]))
    call_stored(e, node, chain, held(node))

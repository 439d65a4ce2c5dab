"""Convolutions, dense layers and products by a constant matrix: each kind imports its candidates when it is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import Node
from ....ir.types import BFLOAT16
from ....kernels.isa.tiers import BF16, has
from ...choose import Candidate, choose
from ...layer import Integers, Layer, Reals, chain_of, chained_layer, extra_values, integer_layer, real_layer
from ..emit import Rows
from ..registry import Emit, Narrow, last, lowers, moved


def _narrow(e: Emit, node: Node, layer: Layer[Reals]) -> Narrow:
    """Where tiles of bf16 compute a layer it reads in bfloat16 what it multiplies, and what it adds first. Depthwise
    ones pass it on, where they end without operands."""
    if e.precision != "bfloat16" or not _in_tiles(e):
        return Narrow()
    from ..epilogue import ending
    from .layer_f32 import CANDIDATES

    layer = layer._replace(ldx=last(node.x), ldy=last(node.out))
    name = choose((*CANDIDATES, *_in_tiles(e)), layer, e.tier).name
    (chain, kinds), extras = chain_of(node), extra_values(node)
    found = ending(chain, len(kinds))
    at = found.addend if found is not None else None
    if name == "depthwise" and found is not None and not isinstance(at, int):
        return moved(e, node, layer)
    if name != "amx_real":
        return Narrow()
    if not isinstance(at, int) or kinds[at - 1] != "full":
        return Narrow(frozenset({0}), gives=True)
    return Narrow(frozenset({0, node.inputs.index(extras[at - 1], 1)}), gives=True)


@lowers("dense", "conv", match=real_layer, strided_in=True, strided_out=True, in_place=True, narrow=_narrow)
def layer_f32(e: Emit, node: Node, layer: Layer[Reals], rows: Rows | None = None) -> None:
    from .layer_f32 import CANDIDATES

    narrow = BFLOAT16 in (node.x.type.dtype, node.out.type.dtype) and layer.form != "depthwise"
    _emit(e, node, layer, rows, (*(() if narrow else CANDIDATES), *_in_tiles(e)))


def _in_tiles(e: Emit) -> Sequence[Candidate[Layer[Reals]]]:
    """Candidates with products of bf16, on CPUs that have them."""
    if not e.tier.tiles or not has(BF16):
        return ()
    from . import layer_amx

    return layer_amx.CANDIDATES.get(e.precision, ())


@lowers("dense", "conv", "matmul", match=integer_layer, strided_in=True, strided_out=True)
def layer_int8(e: Emit, node: Node, layer: Layer[Integers], rows: Rows | None = None) -> None:
    from .layer_int8 import CANDIDATES

    _emit(e, node, layer, rows, CANDIDATES)


@lowers("dense", "conv", "matmul", match=chained_layer, strided_in=True, strided_out=True)
def layer_real(e: Emit, node: Node, layer: Layer[Integers], rows: Rows | None = None) -> None:
    from .layer_real import CANDIDATES

    _emit(e, node, layer, rows, CANDIDATES)


def _emit(e: Emit, node: Node, layer: Layer[Any], rows: Rows | None, candidates: Sequence[Candidate[Any]]) -> None:
    """The steps of a layer, or of some rows of its result, by the cheapest candidate."""
    if rows is None:
        layer = layer._replace(ldx=e.stride(node.x), ldy=e.stride(node.out))
        rows = Rows(e.address(node.x), e.address(node.out))
    choose(candidates, layer, e.tier).emit(e, node, layer, rows)

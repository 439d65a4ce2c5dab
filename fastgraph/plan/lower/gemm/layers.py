"""Convolutions, dense layers and products by a constant matrix: each kind imports its candidates when it is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import Node
from ....ir.types import BFLOAT16
from ....kernels.isa.tiers import multiplies_pairs, multiplies_tiles
from ...choose import Candidate, choose
from ...layer import Integers, Layer, Reals, chain_of, chained_layer, extra_values, integer_layer, real_layer
from ..emit import Rows
from ..registry import Emit, Narrow, last, lowers, moved


def _narrow(e: Emit, node: Node, layer: Layer[Reals]) -> Narrow:
    """Layers of products of bf16 read what they multiply in bfloat16, unless its channels are odd, and what they add
    first. Depthwise ones pass it on, where they end without operands."""
    if e.precision != "bfloat16" or not _of_bf16(e):
        return Narrow()
    from ..epilogue import ending

    layer = layer._replace(ldx=last(node.x), ldy=last(node.out))
    name = choose(_candidates(e), layer, e.tier).name
    (chain, kinds), extras = chain_of(node), extra_values(node)
    found = ending(chain, len(kinds))
    at = found.addend if found is not None else None
    if name == "depthwise" and found is not None and not isinstance(at, int):
        return moved(e, node, layer)
    if name not in ("amx_real", "dot_bf16", "conv_bf16"):
        return Narrow()
    reads, adds = ({0}, True) if name == "amx_real" else _reads_bf16(e, layer)
    if adds and isinstance(at, int) and kinds[at - 1] == "full":
        reads.add(node.inputs.index(extras[at - 1], 1))
    return Narrow(frozenset(reads), gives=True)


@lowers("dense", "conv", match=real_layer, strided_in=True, strided_out=True, in_place=True, narrow=_narrow)
def layer_f32(e: Emit, node: Node, layer: Layer[Reals], rows: Rows | None = None) -> None:
    narrow = BFLOAT16 in (node.x.type.dtype, node.out.type.dtype) and layer.form != "depthwise"
    _emit(e, node, layer, rows, _of_bf16(e) if narrow else _candidates(e))


def _reads_bf16(e: Emit, layer: Layer[Reals]) -> tuple[set[int], bool]:
    """Whether x and what is added first may be in bf16: place 0 for x."""
    from .layer_bf16 import element_of, reads_bf16

    return {0} if reads_bf16(layer, e.tier) else set(), element_of(layer, e.tier) == "bf16"


def _candidates(e: Emit) -> Sequence[Candidate[Layer[Reals]]]:
    from .layer_f32 import CANDIDATES

    found = _of_bf16(e)
    return (*CANDIDATES, *found) if e.tier.tiles else (*found, *CANDIDATES)


def _of_bf16(e: Emit) -> Sequence[Candidate[Layer[Reals]]]:
    """Candidates with products of bf16, on CPUs that have them."""
    if multiplies_tiles(e.tier):
        from . import layer_amx

        return layer_amx.CANDIDATES.get(e.precision, ())
    if e.precision == "bfloat16" and multiplies_pairs(e.tier):
        from . import layer_bf16

        return layer_bf16.CANDIDATES
    return ()


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

"""Convolutions, dense layers and products by a constant matrix: each kind imports its candidates when it is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import Node
from ....ir.types import BFLOAT16
from ....kernels.isa.tiers import multiplies_pairs, multiplies_tiles
from ....ops.chain import SUM
from ...choose import Candidate, choose
from ...layer import Integers, Layer, Reals, chain_of, chained_layer, extra_values, integer_layer, real_layer
from ..emit import Rows
from ..registry import Emit, Narrow, last, lowers, moved


def _narrow(e: Emit, node: Node, layer: Layer[Reals]) -> Narrow:
    """Layers of products of bf16 read what they multiply in bfloat16, unless its channels are odd, and what they add
    first. Windows of one channel pass it on, and those of few give it, where they end without operands; beside tiles,
    where pairs are no faster than f32, these pass it on, too."""
    if e.precision != "bfloat16" or not _of_bf16(e):
        return Narrow()
    from ..epilogue import ending
    from .layer_bf16 import element_of, reads_bf16
    from .layer_f32 import groups

    name = _chosen(e, node).name
    (chain, kinds), extras = chain_of(node), extra_values(node)
    found = ending(chain, len(kinds))
    at = found.addend if found is not None else None
    kept = found is not None and not isinstance(at, int)
    paired = name == "grouped" and groups(layer, e.tier, narrow=True) is not None
    if paired and not e.tier.tiles:
        return Narrow(frozenset({0}), gives=kept, rounds=frozenset({0}))
    if name in ("depthwise", "grouped"):
        return moved(e, node, layer) if kept and (paired or name == "depthwise") else Narrow()
    if name not in ("amx_real", "dot_bf16", "conv_bf16"):
        return Narrow()
    tiles, reads = name == "amx_real", set[int]()
    if tiles or reads_bf16(layer, e.tier):
        reads.add(0)
    if (tiles or element_of(layer, e.tier) == "bf16") and isinstance(at, int) and kinds[at - 1] == "full":
        reads.add(node.inputs.index(extras[at - 1], 1))
    return Narrow(frozenset(reads), gives=True, rounds=frozenset({0}))


def _chosen(e: Emit, node: Node) -> Candidate[Layer[Reals]]:
    """The cheapest candidate for a node, as it is before values share memory."""
    if node not in e.chosen:
        layer = _stored(e, node, e.match(node)[1])._replace(ldx=last(node.x), ldy=last(node.out))
        e.chosen[node] = choose(_candidates(e), layer, e.tier)
    return e.chosen[node]


@lowers("dense", "conv", match=real_layer, strided_in=True, strided_out=True, in_place=True, narrow=_narrow)
def layer_f32(e: Emit, node: Node, layer: Layer[Reals], rows: Rows | None = None) -> None:
    """Some rows of a layer are computed as the whole would be: how many they are depends on threads."""
    whole = rows is not None or BFLOAT16 in (node.x.type.dtype, node.out.type.dtype)
    _emit(e, node, _stored(e, node, layer), rows, _candidates(e), _chosen(e, node) if whole else None)


def _stored(e: Emit, node: Node, layer: Layer[Reals]) -> Layer[Reals]:
    """The layer with what is known of x before values become bfloat16: what no such layer computed stays f32."""
    return layer._replace(narrow=node.x in e.after_bf16)


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


def _integers(node: Node) -> Layer[Integers] | None:
    if SUM not in node.attrs:
        return integer_layer(node)
    from .residual import summing_layer

    return summing_layer(node)


def _joined(e: Emit, node: Node, layer: Layer[Integers], total: Node) -> Node | None:
    from .residual import joined

    return joined(e, node, layer, total)


@lowers("dense", "conv", "matmul", match=_integers, strided_in=True, strided_out=True, in_place=True, joins=_joined)
def layer_int8(e: Emit, node: Node, layer: Layer[Integers], rows: Rows | None = None) -> None:
    from .layer_int8 import CANDIDATES

    if SUM not in node.attrs:
        _emit(e, node, layer, rows, CANDIDATES)
        return
    from .residual import TILES, with_addend

    _emit(e, node, with_addend(e, node, layer, rows.start if rows else 0), rows, TILES)


@lowers("dense", "conv", "matmul", match=chained_layer, strided_in=True, strided_out=True)
def layer_real(e: Emit, node: Node, layer: Layer[Integers], rows: Rows | None = None) -> None:
    from .layer_ranged import CANDIDATES, by_type

    _emit(e, node, layer, rows, CANDIDATES, None, by_type(e, node, layer))


def _emit(
    e: Emit, node: Node, layer: Layer[Any], rows: Rows | None, candidates: Sequence[Candidate[Any]],
    chosen: Candidate[Any] | None = None, *more: Any,
) -> None:  # fmt: skip
    """The steps of a layer, or of some rows of its result, by the candidate that is chosen, else by the cheapest; more:
    what it takes beside.
    """
    if rows is None:
        layer = layer._replace(ldx=e.stride(node.x), ldy=e.stride(node.out))
        rows = Rows(e.address(node.x), e.address(node.out))
    (chosen or choose(candidates, layer, e.tier)).emit(e, node, layer, rows, *more)

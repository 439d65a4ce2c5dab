"""Dense layers of weights in a few bits."""

from __future__ import annotations

from typing import Any

from ....freedoms import free, threshold
from ....ir import FLOAT32, Node
from ....kernels.gemm.pick_blocks import (
    BYTES,
    NV,
    group_bytes,
    is_few,
    pack_blocks,
    per_word,
    rounded_rows,
    row_bytes,
    tile_height,
)
from ....kernels.isa.tiers import Tier, multiplies_tiles
from ....ops.registry import attr
from ...layer import chain_of
from ..epilogue import epilogue
from ..registry import Emit, lowers, row_count


def _coded(node: Node) -> bool:
    """Whether codes, scales and zero points are constants, all else is f32, and rows are whole words of codes."""
    constants, others = node.inputs[1:4], [node.x, node.out, *node.inputs[4:]]
    if any(v is not None and v.data is None for v in constants) or not node.x.type.size or not node.out.type.size:
        return False
    if any(v is None or not v.type.concrete or v.type.dtype != FLOAT32 for v in others):
        return False
    per = per_word(node.attrs["bits"])
    return node.x.type.dims[-1] % per == 0 and node.attrs["block"] % per == 0


def _rounds(tier: Tier, node: Node) -> bool:
    """Whether rows are rounded to bytes: where the file lets them be, and bytes are faster than f32."""
    return bool(attr(node, "rounds")) and tier.byte_dot and node.attrs["block"] % BYTES == 0


def _on_tiles(e: Emit, node: Node, m: int) -> bool:
    """Whether products of bf16 in tiles, which hold all bits of f32, compute so many rows."""
    if not multiplies_tiles(e.tier) or e.precision == "float32-fma" or not free("amx_blocks"):
        return False
    from ....kernels.amx.pick_codes import LEAST_ROWS, suit

    scales = node.const(2)
    return m >= threshold("tiles_least", LEAST_ROWS) and scales is not None and suit(node.attrs["block"], scales)


@lowers("block_dense", match=_coded, strided_in=True, strided_out=True)
def block_dense(e: Emit, node: Node, _: bool) -> None:
    bits, block = node.attrs["bits"], node.attrs["block"]
    numbers = node.const(1), node.const(2), node.const(3)
    k, (n, blocks) = node.x.type.dims[-1], node.operands[2].type.dims
    images = node.out.type.dims[0] if "image" in chain_of(node)[1] else 1
    m = row_count(node.out) // images
    rounded = rounded_rows(e.tier, m, k, blocks) if _rounds(e.tier, node) else 0
    group = group_bytes(e.tier, bits, block, blocks, node.has(3))
    packed = e.packed(pack_blocks, e.tier, *numbers, bits, rounded > 0)
    ends: dict[str, Any] = {"a": node.x, "lda": e.stride(node.x), "b": packed, "c": node.out, "ldc": e.stride(node.out)}
    sizes = {"m": m, "n": n, "k": k, "batch": images, "block": block // per_word(bits), "group": group}
    own = {**ends, **sizes, "zeros": int(node.has(3)), **epilogue(e, node)}
    if not rounded and _on_tiles(e, node, m):
        from ....kernels.amx.pack_amx import configuration
        from ....kernels.amx.pack_real import MT
        from ....kernels.amx.pick_codes import NT, pick_codes

        fields = pick_codes(m, k, block)
        own |= {"config": configuration(MT, NT, fields["rows"]), **fields}
        e.kernel("amx_blocks", {"bits": bits}, {**own, "scratch": e.scratch(fields["scratch_bytes"] * e.threads)})
        return
    few = rounded > 0 or is_few(e.tier, m)
    scratch = rounded * row_bytes(k, blocks) if few else 4 * (1 + k) * NV * e.tier.lanes
    how: dict[str, Any] = {"height": tile_height(e.tier, m, rounded > 0), "few": int(few), "rounded": rounded}
    how |= {"scratch_bytes": scratch, "scratch": e.scratch(scratch * e.threads)}
    e.kernel("dot_blocks", {"bits": bits}, {**own, **how})

"""Pools; and sums and means of bytes over neighboring axes, which are windows over all of them."""

from __future__ import annotations

from math import prod

import numpy as np

from ....cpus import near_bytes
from ....ir import Node
from ....ir.types import BFLOAT16
from ....kernels.window.pick import Window, lies_across, plan_pool, pool_int8_args, window_args
from ....ops.window import is_near
from ...layer import window
from ...quantized import bounds, clamps_only, per_tensor, quant, zero_point
from ..emit import Rows
from ..epilogue import epilogue
from ..pointwise.along import reduced
from ..registry import Emit, Narrow, Slot, is_f32, last, lowers, moved

OPS = {"max_pool": "max", "average_pool": "average", "lp_pool": "lp", "reduce_mean": "average", "reduce_sum": "sum"}


def _f32(node: Node) -> Window | None:
    if node.op == "average_pool" and max(node.attrs.get("dilations") or (1,)) > 1 and any(node.attrs["pads"]):
        # The kernel divides by the elements of a window, and such a one may have none.
        return None
    plain = is_f32(node) and len(node.outputs) == 1 and len(node.x.type.dims) <= 5
    full = plain and node.out.type.size > 0 and node.x.type.size > 0 and is_near(node)
    return window(node) if full and (node.op != "lp_pool" or node.attrs.get("p", 2) in (1, 2)) else None


def _narrow(e: Emit, node: Node, where: Window) -> Narrow:
    """The largest of rounded numbers is the rounded largest. There is no such kernel with pixels in lanes."""
    if last(node.out) == 1:
        return Narrow()
    return moved(e, node, where) if node.op == "max_pool" and not node.attrs.get("chain") else Narrow()


@lowers(
    "max_pool", "average_pool", "lp_pool", match=_f32, strided_in=True, strided_out=True, in_place=True, narrow=_narrow
)
def pool(e: Emit, node: Node, where: Window, rows: Rows | None = None, strides: tuple[int, int] | None = None) -> None:
    """rows, strides: some rows of the result, where these and what they read lie; the window is of these then."""
    x, y = (node.x, node.out) if rows is None else (rows.x, rows.y)
    ldx, ldy = strides or (e.stride(node.x), e.stride(node.out))
    ends: dict[str, Slot] = {"x": x, "ldx": ldx, "y": y, "ldy": ldy}
    share = where.images * prod(where.out) * last(node.out) / node.out.type.size
    if node.x.type.dtype == BFLOAT16:
        e.kernel("pool_bf16", {}, {**window_args(e.tier, "pool_bf16", {}, where, e.threads), **ends}, share=share)
        return
    op = OPS[node.op] + (str(node.attrs.get("p", 2)) if node.op == "lp_pool" else "")
    # A slice of one channel has the order of sums of the others, so that results are the same on any number of threads.
    whole = last(node.out) == 1 and not node.attrs.get("chain")
    across = whole and lies_across(where, ldx, ldy)
    name, params = ("pool_any", {"op": op}) if across else plan_pool(e.tier, where, op)
    if name == "pool_any":
        ends["across"] = int(across)
    ends["include_pad"] = int(bool(node.attrs.get("count_include_pad", 0)))
    shape = window_args(e.tier, name, params, where, e.threads, near_bytes())
    e.kernel(name, params, {**shape, **ends, **epilogue(e, node, in_place=True)}, share=share)


def _bytes(node: Node) -> bool:
    """Whether x and the only result are u8 with one scale each, not empty, and the chain only clamps."""
    if len(node.outputs) != 1 or not per_tensor(node.x, np.uint8) or not per_tensor(node.out, np.uint8):
        return False
    return node.x.type.size > 0 and node.out.type.size > 0 and clamps_only(node)


def _sums_fit(node: Node, n: int) -> bool:
    """Whether the sum of n bytes, each less a zero point, is an int32, and what is next to a half stays."""
    return n <= (1 << 23 if node.attrs.get("ties") is None else 1 << 13)


def _quantized(node: Node) -> Window | None:
    if not _bytes(node) or len(node.x.type.dims) > 4 or not is_near(node):
        return None
    if not _sums_fit(node, prod(node.attrs["kernel_shape"])):
        return None
    averages = node.op == "average_pool" and node.attrs.get("ties") is None
    return window(node) if averages or quant(node.x) == quant(node.out) else None


@lowers("max_pool", "average_pool", match=_quantized, strided_in=True, strided_out=True)
def quantized_pool(e: Emit, node: Node, where: Window) -> None:
    _pool_bytes(e, node, where, e.stride(node.x), e.stride(node.out))


def _reduces(node: Node) -> Window | None:
    """A window over the whole extent of the axes."""
    shape = reduced(node) if _bytes(node) else None
    if shape is None or not _sums_fit(node, shape[1]):
        return None
    outer, n, inner = shape
    if n == 1:  # as channels
        outer, inner = 1, outer * inner
    return Window(images=outer, channels=inner, size=(1, 1, n), kernel=(1, 1, n), out=(1, 1, 1))


@lowers("reduce_mean", "reduce_sum", match=_reduces)
def quantized_reduce(e: Emit, node: Node, where: Window) -> None:
    _pool_bytes(e, node, where, where.channels, where.channels)


def _pool_bytes(e: Emit, node: Node, where: Window, ldx: int, ldy: int) -> None:
    op = OPS[node.op]
    ratio, zeros = quant(node.x).scale[0] / quant(node.out).scale[0], (zero_point(node.x), zero_point(node.out))
    if (ties := node.attrs.get("ties")) is not None:
        # Measured from there, sums that are a little greater than they are turn halves away from it, and no others.
        zeros = (zeros[0] + round(ties / quant(node.x).scale[0]),) * 2
        ratio = 1 + 2.0**-22
    low, high = bounds(node)
    shape = pool_int8_args(e.tier, op, where, e.threads, ratio, bool(node.attrs.get("count_include_pad", 0)))
    ends: dict[str, Slot] = {"x": node.x, "ldx": ldx, "y": node.out, "ldy": ldy, "low": low, "high": high}
    own = {**shape, **ends, "zero_x": zeros[0], "zero_point": zeros[1]}
    e.kernel("pool_int8", {"op": "sum" if op == "average" else op}, own)

"""Sliding windows: convolution (its depthwise form here, the rest in product.py) and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.window.pick import Window, plan_depthwise, plan_pool, window_record
from .product import Rows, all_rows, extra_kinds, extra_places, has_constants, is_depthwise, parameters, three
from .product import conv as dense_conv
from .registry import Emit, is_f32, last, lowers, row_count

POOLS = {"max_pool": "max", "average_pool": "average", "lp_pool": "lp"}


FAR = 1 << 15
"""Strides, dilations and pads from here on are left to the reference: kernels make scratch and addresses of them."""


def is_near(node: Node) -> bool:
    """Whether all numbers of a node's window are small."""
    names = ("strides", "dilations", "pads", "output_padding")
    return all(n is None or 0 <= n < FAR for name in names for n in node.attrs.get(name) or ())


def _convolves(node: Node) -> bool:
    return has_constants(node) and len(node.x.type.dims) <= 5 and is_near(node)


@lowers("conv", match=_convolves, strided_in=True, strided_out=True, in_place=True)
def conv(e: Emit, node: Node, _: Any) -> None:
    if is_depthwise(node):
        depthwise(e, node, all_rows(e, node), window(node))
    else:
        dense_conv(e, node)


def depthwise(e: Emit, node: Node, rows: Rows, where: Window) -> None:
    """Each output channel sees one input channel; `where` is the window over the rows at hand."""
    weights, bias = parameters(node)
    chain, kinds, multiplier = node.attrs.get("chain", ()), extra_kinds(node), last(node.out) // last(node.x)
    name, params = plan_depthwise(e.tier, where, multiplier, chain, kinds)
    places = extra_places(e, node, rows.start)
    record = window_record(
        e.tier, name, params, where, x=rows.x, ldx=rows.ldx, y=rows.y, ldy=rows.ldy,
        weights=e.packed((node, "weights"), lambda: np.moveaxis(weights[..., 0], 0, -1)),
        bias=e.packed((node, "bias"), lambda: np.zeros(last(node.out), np.float32) if bias is None else bias),
        extras=places, threads=e.threads,
    )  # fmt: skip
    e.call(name, params, record, rows.count / row_count(node.out))


def _pools(node: Node) -> bool:
    if node.op == "average_pool" and max(node.attrs.get("dilations") or (1,)) > 1 and any(node.attrs["pads"]):
        # The kernel divides by the elements of a window, and such a one may have none.
        return False
    plain = is_f32(node) and len(node.outputs) == 1 and len(node.x.type.dims) <= 5
    full = plain and node.out.type.size > 0 and node.x.type.size > 0 and is_near(node)
    return full and (node.op != "lp_pool" or node.attrs.get("p", 2) in (1, 2))


@lowers("max_pool", "average_pool", "lp_pool", match=_pools, strided_in=True, strided_out=True, in_place=True)
def pool(e: Emit, node: Node, _: Any) -> None:
    op = POOLS[node.op] + (str(node.attrs.get("p", 2)) if node.op == "lp_pool" else "")
    where = window(node)
    chain, include = node.attrs.get("chain", ()), bool(node.attrs.get("count_include_pad", 0))
    kinds, places = (extra_kinds(node), extra_places(e, node)) if chain else ((), [])
    name, params = plan_pool(e.tier, where, op, include, chain, kinds)
    record = window_record(
        e.tier, name, params, where, x=e.address(node.x), ldx=e.stride(node.x), y=e.address(node.out),
        ldy=e.stride(node.out), extras=places, threads=e.threads,
    )  # fmt: skip
    e.call(name, params, record)


def window(node: Node) -> Window:
    """The node's window in three dimensions, leading ones added."""
    a, x, out = node.attrs, node.x.type.dims, node.out.type.dims
    kernel = parameters(node)[0].shape[1:-1] if node.op == "conv" else a["kernel_shape"]
    rank = len(x) - 2
    return Window(
        images=x[0], channels=out[-1], size=three(x[1:-1]), kernel=three(kernel), out=three(out[1:-1]),
        strides=three(a["strides"]), dilations=three(a.get("dilations", (1,) * rank)),
        pads=three(a["pads"][:rank], 0), ends=three(a["pads"][rank:], 0),
    )  # fmt: skip

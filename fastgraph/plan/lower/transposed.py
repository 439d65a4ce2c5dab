"""Transposed convolution: every input pixel times every tap's weights, then the products summed where they overlap."""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...kernels.pack import pack_weights
from ...kernels.pick_dot import dot_record, pick_dot
from ...ops.conv import transposed_window
from .product import extra_kinds, extra_places, parameters, three
from .registry import Emit, is_f32, last, lowers, row_count


def _transposes(node: Node) -> bool:
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    plain = is_f32(node) and w is not None and w.data is not None and (b is None or b.data is not None)
    return plain and len(node.x.type.dims) <= 5 and node.out.type.size > 0 and node.x.type.size > 0


@lowers("conv_transpose", accepts=_transposes, strided_in=True, strided_out=True, in_place=True)
def conv_transpose(e: Emit, node: Node) -> None:
    weights, bias = parameters(node)
    x, out, groups = node.x, node.out, node.attrs["groups"]
    c, n, taps, m = weights.shape[-1], last(out) // groups, int(np.prod(weights.shape[1:-1])), row_count(x)
    matrix = weights.reshape(groups, n, taps, c).transpose(0, 2, 1, 3).reshape(groups, taps * n, c)
    products = e.scratch(4 * groups * m * taps * n)
    lda = e.stride(x)
    for piece in pick_dot(e.tier, m, taps * n, c, groups, e.threads, (), (), lda):
        part = slice(piece.start, piece.start + piece.columns)
        packed = pack_weights(matrix[:, part], None, piece.nv, e.tier.lanes)
        record = dot_record(
            piece, a=e.address(x), lda=lda, b=e.constant(packed), c=products, ldc=taps * n, m=m, k=c, batch=groups,
            a_stride=c, b_stride=packed[0].size, c_stride=m * taps * n,
        )  # fmt: skip
        e.call("dot", piece.params, record)
    _fold(e, node, products, bias, n)


def _fold(e: Emit, node: Node, products: object, bias: np.ndarray | None, n: int) -> None:
    x, out, w = node.x.type.dims, node.out.type.dims, node.inputs[1]
    assert w is not None
    begin, _, a = transposed_window(node, x[1:-1], w.type.dims[1:-1])
    row = 4 * three(out[1:-1])[2] * n
    per_thread = -(-row // 64) * 64
    args = {
        "t": products, "y": e.address(node.out), "ldy": e.stride(node.out),
        "bias": e.constant(np.zeros(out[-1], np.float32) if bias is None else bias),
        "scratch": e.scratch(per_thread * e.threads), "scratch_bytes": per_thread,
        "images": x[0], "sets": node.attrs["groups"], "n": n,
    }  # fmt: skip
    triples = {
        ("d", "h", "w"): three(x[1:-1]), ("out_d", "out_h", "out_w"): three(out[1:-1]),
        ("k_d", "k_h", "k_w"): three(w.type.dims[1:-1]), ("stride_z", "stride_y", "stride_x"): three(a["strides"]),
        ("dilation_z", "dilation_y", "dilation_x"): three(a["dilations"]),
        ("pad_z", "pad_y", "pad_x"): three(begin, 0),
    }  # fmt: skip
    for names, values in triples.items():
        args |= dict(zip(names, values, strict=True))
    chain, kinds, places = node.attrs.get("chain", ()), extra_kinds(node), extra_places(e, node)
    more = [slot for place in places for slot in place]
    e.kernel("fold", {"chain": chain, "extras": kinds}, args, more)  # type: ignore[arg-type]

"""Windows of convolutions and pools, as kernels take them: in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Node
from ...kernels.gemm.pick_conv import Triple
from ...kernels.window.pick import Window

FAR = 1 << 15
"""Strides, dilations and pads from here on are left to the reference: kernels make scratch and addresses of them."""


def is_near(node: Node) -> bool:
    """Whether all numbers of a node's window are small."""
    for name in ("strides", "dilations", "pads", "output_padding"):
        for n in node.attrs.get(name) or ():
            if n is not None and not 0 <= n < FAR:
                return False
    return True


def three(values: Sequence[int], fill: int = 1) -> Triple:
    """Three spatial numbers, from up to three."""
    full = (fill,) * (3 - len(values)) + tuple(int(v) for v in values)
    return full[0], full[1], full[2]


def window(node: Node) -> Window:
    """The node's window in three dimensions, leading ones added."""
    a, x, out = node.attrs, node.x.type.dims, node.out.type.dims
    kernel = node.inputs[1].type.dims[1:-1] if node.op == "conv" else a["kernel_shape"]  # type: ignore[union-attr]
    rank = len(x) - 2
    return Window(
        images=x[0], channels=out[-1], size=three(x[1:-1]), kernel=three(kernel), out=three(out[1:-1]),
        strides=three(a["strides"]), dilations=three(a.get("dilations", (1,) * rank)),
        pads=three(a["pads"][:rank], 0), ends=three(a["pads"][rank:], 0),
    )  # fmt: skip

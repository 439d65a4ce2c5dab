"""Convolutions of few channels behind a transpose to channels last: each channel is a slice of a volume, as it lies."""

from __future__ import annotations

from math import prod

import numpy as np

from ..ir import Node
from ..ops.shape import permutation
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .fuse import of_few_channels

WORK = 300
"""Most products for each number of x: beside more, the transpose takes little of the time, and longer runs of taps save
as much.

No pass knows the tier. On Granite Rapids, one thread, with the transpose's time: 3x3/2 of 3 or 4 channels into 8 to 32,
96 to 224 pixels a side, 0.71 to 0.94, into 64 0.93 to 1.02, 5x5/2 0.83 to 0.99, 7x7/2 into 16 0.92 to 0.99, 3x3 0.95 to
0.99. Beyond: 7x7/2 into 32 1.04 to 1.39, 5x5/2 of 4 channels into 32 1.04 to 1.08."""
COLUMNS, PRODUCTS = 32, 100
"""Outputs of a pixel and products of each from which on AMX tiles may be faster, which need the channels of a pixel
beside one another. Tiles of bf16 always are, as they store bf16: without them, a detector whose first layer is 3x3/2
into 16 took 1.04 to 1.06 of the time."""


@rule("channel_slices", "conv")
def channel_slices(g: Sweep, node: Node) -> bool:
    """Given ``y = conv(transpose(x, 0, 2, 3, 1), w)``, where nothing else reads the transpose; result
    ``y = reshape(conv(reshape(x, n, c, h, w, 1), w))``: a volume, of which the window sees all slices."""
    turn, w, a = g.sole_maker(node.x), node.y, node.attrs
    if not of_few_channels(node) or len(node.inputs) > 3:
        return False
    if turn is None or turn.op != "transpose" or permutation(turn) != (0, 2, 3, 1):
        return False
    if w.data is None or a["groups"] > 1 or not known(node.x, w, node.out, dtypes=[np.float32]) or not _pays(g, node):
        return False
    n, height, width, c = w.type.dims
    images, *size, _ = node.out.type.dims
    taps = g.shape(g.transpose(w, 0, 3, 1, 2), n, c, height, width, 1)
    where = {name: (1, *a[name]) for name in ("strides", "dilations")}
    where |= {"pads": (0, *a["pads"][:2], 0, *a["pads"][2:])}
    if a.get("kernel_shape"):
        where["kernel_shape"] = c, height, width
    g.drop(turn)
    x = g.shape(turn.x, *turn.x.type.dims, 1)
    kind = node.out.type.with_shape((images, 1, *size, n))
    return g.becomes(g("conv", x, taps, *node.inputs[2:], type=kind, **{**a, **where}))


def _pays(g: Sweep, node: Node) -> bool:
    """Whether the convolution takes less time so than with the transpose. A window of one tap is a dense layer."""
    n, *kernel, c = node.y.type.dims
    if prod(kernel) == 1:
        return False
    on_tiles = g.graph.precision != "float32" or (n >= COLUMNS and prod(kernel) * c >= PRODUCTS)
    return not on_tiles and n * prod(kernel) <= WORK * prod(node.attrs["strides"])

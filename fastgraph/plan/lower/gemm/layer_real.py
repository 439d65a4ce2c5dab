"""Candidates for layers of bytes whose results are reals with a chain: the kernels of layers whose input is rounded at
run time, for a range that is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_int8 import Words
from ....kernels.gemm.pick_dot import Product
from ....kernels.gemm.pick_dynamic import pick_conv_dynamic, pick_dot_dynamic
from ....kernels.gemm.pick_int8 import word_of
from ...choose import Candidate
from ...layer import Integers, Layer, RowPart
from ...quantized import scales
from ..emit import Rows
from ..epilogue import product_ending
from ..registry import Emit
from . import layer_amx_dynamic
from .calls import conv_calls, dot_calls
from .layer_int8 import cycles, packed


def _range(e: Emit, node: Node, layer: Layer[Integers]) -> dict[str, Any]:
    """The slots of rows.RANGES for the quantization of x."""
    found = e.packed(_range_bytes, float(scales(node.x, 1)[0]), layer.zero)
    return {"ranges": found, "per_image": 0, "per_row": 0}


def _range_bytes(scale: float, zero: int) -> np.ndarray:
    """One range, as gemm.rows.RANGE_BYTES says."""
    step = np.array([scale, 0, 1 / scale, zero - 128], np.float32)
    step.view(np.int32)[1] = -zero
    return step


def _dot(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    images, k, ending = layer.window.images, layer.numbers.weights[0].size, product_ending(e, node, rows.start)
    m = layer.pixels // images
    product = Product(m, layer.n, k, images, layer.ldx, bool(ending["later"]))
    pieces = pick_dot_dynamic(e.tier, product, e.threads, False, layer.numbers.rowsum(e.tier))
    sizes = {"m": m, "k": -(-k // 4), "batch": images, "a_stride": m * layer.ldx, "c_stride": m * layer.ldy}
    pack = packed(e, layer, Arrangement(), Words(k))
    dot_calls(e, layer, rows, "dot_dynamic", pieces, pack, **sizes, **_range(e, node, layer), **ending)


def _conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    g, how = layer.merged(e.tier)
    g, pieces = pick_conv_dynamic(e.tier, g, e.threads, layer.numbers.rowsum(e.tier))
    own = {"fill": word_of(layer.zero), **_range(e, node, layer), **product_ending(e, node, rows.start)}
    conv_calls(e, layer, rows, "conv_dynamic", pieces, RowPart(g, how), packed(e, layer, how, Words(g.run)), **own)


def _tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    layer_amx_dynamic.multiply(e, node, layer, rows, **_range(e, node, layer))


CANDIDATES = (
    Candidate("dot_dynamic", lambda layer, tier: layer.form == "dense", cycles, _dot),
    Candidate("conv_dynamic", lambda layer, tier: layer.form == "conv", cycles, _conv),
    layer_amx_dynamic.candidate(_tiles),
)

"""Candidates for layers of bytes whose results are reals with a chain: the kernels of layers whose input is rounded at
run time, for a range that is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.gemm.pick_int8 import word_of
from ...layer import Integers, Layer
from ...quantized import scales
from ..emit import Rows
from ..epilogue import product_ending
from ..registry import Emit
from . import layer_ranged


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
    ending = product_ending(e, node, rows.start)
    layer_ranged.dot(e, layer, rows, layer.window.images, ending, _range(e, node, layer))


def _conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    layer_ranged.conv(e, node, layer, rows, _range(e, node, layer), word_of(layer.zero))


def _tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    layer_ranged.tiles(e, node, layer, rows, _range(e, node, layer))


CANDIDATES = layer_ranged.candidates(_dot, _conv, _tiles)

"""Rows of the table for depthwise convolution, pools and means, of f32 and of bytes. All tensors are channels last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record
from ..core.table import Row
from ..gemm.rows import STORED, STORED_U8, STORES
from ..isa.tiers import Tier
from ..pointwise.rows import EPILOGUE

MAPS = Record(
    x="address of x [n, h, w, channels]",
    ldx="elements from pixel to pixel of x",
    y="address of y [n, out_h, out_w, c]",
    ldy="elements from pixel to pixel of y",
    n="images", h="rows of x", w="columns of x", c="channels of y", out_h="rows of y", out_w="columns of y",
)  # fmt: skip
WINDOW = Record(
    k_h="rows of the window", k_w="columns of it",
    stride_y="rows of x from output to output", stride_x="columns likewise",
    dilation_y="rows of x from tap to tap", dilation_x="columns likewise",
)  # fmt: skip
PADS = Record(pad_y="rows of padding above x", pad_x="columns of padding before it")
BAND = Record(band="rows of y computed for a block of channels before the next; any number >= 1 gives the same bits")

DEPTH = Record(
    d="planes of x [n, d, h, w, channels]", out_d="planes of y [n, out_d, out_h, out_w, c]", k_d="planes of the window",
    stride_z="planes of x from output to output", dilation_z="planes from tap to tap",
    pad_z="planes of padding before x",
)  # fmt: skip

PARAMETERS = Record(weights="address of weights [window..., c], dense", bias="address of bias [c]")
REPEATED = Record(multiplier="channels of y that read a channel of x, one behind the other")
FAR_PADS = Record(
    far_pad_z="planes of padding after x", far_pad_y="rows of padding below it", far_pad_x="columns of padding after it"
)
"""Padding that averages may count."""

WINDOWS = MAPS + WINDOW + PADS + DEPTH + BAND + Record(block="channels computed for a row before the next row")
DEPTHWISE = WINDOWS + PARAMETERS + EPILOGUE
DEPTHWISE_ANY = WINDOWS + PARAMETERS + REPEATED + EPILOGUE
POOLED = WINDOWS + FAR_PADS + Record(include_pad="1: an average counts the padded image's places")
POOL = POOLED + EPILOGUE
"""f32 kernels. y overlaps nothing else, but an operand of the epilogue with its rows may be y."""

ZERO_X = Record(zero_x="the zero point of x")
PACKED = Record(packed="address of the constants that pick_depthwise_int8.pack_depthwise_int8 makes")

DEPTHWISE_INT8 = WINDOWS + Record(fill="address of zero points of x, read beside it") + PACKED + STORED
DEPTHWISE_INT8_ACROSS = MAPS + PADS + ZERO_X + PACKED + STORED + Record(
    scratch="address of scratch of all threads",
    scratch_bytes="bytes of it that each thread has",
    line="bytes from padded line to line in scratch",
    plane="bytes of a plane of a line: there is one for each remainder of columns by the stride",
    lines="lines that are kept",
    period="vectors of y after which the packed constants repeat",
)  # fmt: skip
DEPTHWISE_INT8_ANY = WINDOWS + PARAMETERS + REPEATED + ZERO_X + Record(multipliers="address of [c] f32") + STORED
"""The weights are int32 less their zero points, as pick_depthwise_int8.halves makes them, and the bias is int32."""
POOL_INT8 = POOLED + Record(
    average="1: sums are divided by their count", ratio="scale of x by scale of y: the bits of an f64"
) + ZERO_X + STORED_U8  # fmt: skip
"""Kernels of u8 x; y is bytes, where no parameter says otherwise, and overlaps nothing else."""


def _has_depthwise(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Wide tiles are for the most common window; sums of two vectors want many registers. Windows of one column have no
    other tap that outputs could be apart by.
    """
    if params["size"] == 1 and params["stride"] > 1:
        return False
    return (params["size"] == 3 or params["tile"] == 7) and (params["vectors"] == 1 or tier.registers >= 32)


def _has_any(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Channels that are repeated come one vector at a time."""
    return params["vectors"] == 1 or not params["repeated"]


def _has_pool(tier: Tier, params: Mapping[str, Any]) -> bool:
    """The most common windows."""
    common = {(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)} | ({(3, 3), (5, 1)} if params["op"] == "max" else set())
    return (params["size"], params["stride"]) in common


_UNROLLED: dict[str, tuple[Any, ...]] = {"size": (3, 5), "stride": (1, 2), "wide": (False, True)}


def _bytes_fit(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Whether the tier multiplies weights of bytes, unless they are wide, and a piece of a vector has 16 bytes. As few
    channels as make four pieces are for kernels of 3x3 only.
    """
    pieces = params.get("pieces", 1)
    return (params["wide"] or tier.byte_dot) and 4 * tier.lanes >= 16 * pieces and (pieces < 4 or params["size"] == 3)


ROWS = (
    Row("depthwise", "window.depthwise", "make_depthwise", DEPTHWISE,
        {"size": (1, 3, 5, 7), "stride": (1, 2), "tile": (7, 8), "vectors": (1, 2)}, _has_depthwise, product=True),
    Row("depthwise_any", "window.depthwise_any", "make_depthwise_any", DEPTHWISE_ANY,
        {"vectors": (1, 2), "repeated": (False, True)}, _has_any, product=True),
    Row("pool", "window.pool", "make_pool", POOL,
        {"op": ("max", "average"), "size": (1, 2, 3, 5), "stride": (1, 2, 3)}, _has_pool),
    Row("pool_any", "window.pool_any", "make_pool_any", POOL, {"op": ("max", "average", "lp1", "lp2")}),
    Row("depthwise_int8", "window.depthwise_int8", "make_depthwise", DEPTHWISE_INT8,
        {**_UNROLLED, "pieces": (1, 2, 4)}, _bytes_fit, product=True),
    Row("depthwise_int8_across", "window.depthwise_int8_across", "make_depthwise_across", DEPTHWISE_INT8_ACROSS,
        _UNROLLED, _bytes_fit, product=True),
    Row("depthwise_int8_window", "window.depthwise_int8_window", "make_depthwise_window", DEPTHWISE_INT8,
        {"wide": (False, True)}, _bytes_fit, product=True),
    Row("depthwise_int8_any", "window.depthwise_any", "make_depthwise_any_int8", DEPTHWISE_INT8_ANY,
        {"out": tuple(STORES)}, product=True),
    Row("pool_int8", "window.pool_int8", "make_pool", POOL_INT8,
        {"op": ("max", "sum")}),
)  # fmt: skip

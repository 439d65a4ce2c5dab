"""The row of the table for convolutions and dense layers on AMX tiles."""

from __future__ import annotations

from ..core.table import Row

AMX_CONV_ARGS = (
    "x", "w", "y", "table", "config", "scratch", "scratch_bytes", "work", "images", "sets", "out_d", "out_h",
    "out_w", "n", "n_set", "ldy", "zero_point", "low", "high", "x_image", "x_set", "x_z", "x_y", "x_first", "d",
    "h", "k_d", "stride_z", "dilation_z", "pad_z", "stride_y", "pad_y", "fill", "reach", "step_y", "move_y", "left",
    "pixels", "run", "x_step", "pixel_step", "right", "band_z", "band_y", "rs", "gs", "lines", "rows", "across",
    "band", "prefetch", "direct", "by_columns",
)  # fmt: skip
"""What pick_amx.amx_record works out; slots that gemm.rows.CONV has too mean the same. Strides are in bytes, but
ldy (a row of y) in elements of y.

w: pack_amx's panels; table: [lines] int64 byte offsets of a pixel's lines of 64 bytes; config: the 64 bytes of
pack_amx.configuration, for tiles of `rows` pixels, `across` of which make a row of the output; scratch: for each
thread scratch_bytes, from `work` on those of pack_amx.WORK. band: tiles of a band, of whole rows unless `direct`.
zero_point, low, high: as rows_int8.STORED. prefetch: cache lines of the next panel's weights fetched beside each
line of 64 bytes.
"""

ROWS = (Row("amx_conv", "amx.conv", "make_amx_conv", ("mt", "nt", "out"), AMX_CONV_ARGS),)

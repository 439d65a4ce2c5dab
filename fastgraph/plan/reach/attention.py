"""Names for the records of attention: `few`, the f32 of a `panel` of keys or values, `columns` of values in whole
panels, bytes of a `line` of a query; and the shape of its tiles."""

from __future__ import annotations

import numpy as np

from ...kernels.amx.pack_amx import configuration
from ...kernels.attention.pick_attention import LINE, NV, PANEL
from .call import KNOWN, Call, need, parts, reaches


def _panel(c: Call) -> int:
    return PANEL if c.kernel in ("attention_tiles", "attention_pairs") else (1 if c.record().few else NV) * c.lanes


KNOWN["few"] = lambda c: c.kernel == "attention_few"
KNOWN["panel"] = _panel
KNOWN["columns"] = lambda c: parts(c.record().e, c.record().panel) * c.record().panel
KNOWN["line"] = lambda c: parts(c.record().d, PANEL) * LINE


@reaches("attention_tiles")
def attention_tiles(c: Call) -> None:
    """Tiles are configured by a constant."""
    shape = bytes(c.table("config", 64, np.uint8))
    need(shape == configuration(2, 2, c.record().tile).tobytes(), "tiles of other shapes")

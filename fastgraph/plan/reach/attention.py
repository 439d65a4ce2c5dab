"""Names for the records of attention: `few`, the f32 of a `panel` of keys or values, `columns` of values in whole
panels."""

from __future__ import annotations

from ...kernels.attention.pick_attention import NV
from .call import KNOWN, parts

KNOWN["few"] = lambda c: c.kernel == "attention_few"
KNOWN["panel"] = lambda c: (1 if c.record().few else NV) * c.lanes
KNOWN["columns"] = lambda c: parts(c.record().e, c.record().panel) * c.record().panel

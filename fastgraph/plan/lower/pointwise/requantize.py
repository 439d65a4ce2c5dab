"""Changes of quantization: between stored numbers, and from and to f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ....ops.reals import flips
from ..quantized import LARGE, TINY, per_tensor, quant, zero_point
from ..registry import Emit, lowers
from .calls import call_of_one, fits
from .chains import Chain, call_stored, f32, held, product, readable, writable
from .table import has_vbmi, look_up


def _match(node: Node) -> bool:
    x, out = node.x, node.out
    if not writable(out) or x.data is not None or out.type.dims != x.type.dims:
        return False
    return (x.type.quant is not None or out.type.quant is not None) and readable(x) and fits(node)


@lowers("requantize", match=_match, strided_in=True, strided_out=True, in_place=True)
def requantize(e: Emit, node: Node, _: Any) -> None:
    """Rounded once: (x - zx) * (sx / sy) between quantized values, x / sy from f32, (x - zx) * sx to f32."""
    x, out = node.x, node.out
    if flips(x.type, out.type):
        call_of_one(e, node, "flip", {})
        return
    if all(per_tensor(v, np.uint8, np.int8) for v in (x, out)) and has_vbmi(e):
        look_up(e, node, _table(x, out))
        return
    chain = Chain()
    if x.type.quant is None:
        # Runs take a subnormal scale for zero, and 0 / 0 is no number.
        most = np.inf
        chain.step("div", chain.tensor(x), f32(max(quant(out).scale[0], TINY)))
    else:
        most = product(chain, [x], 1.0 if out.type.quant is None else quant(out).scale[0])
    call_stored(e, node, chain, held(node, most))


def _table(x: Value, out: Value) -> np.ndarray:
    """What the elementwise kernel makes of each stored byte."""
    assert x.type.dtype is not None and out.type.dtype is not None
    stored = np.arange(256).astype(np.uint8).view(x.type.dtype)
    factor = np.float32(min(quant(x).scale[0] / quant(out).scale[0], LARGE))
    with np.errstate(all="ignore"):
        real = (stored.astype(np.float32) - np.float32(zero_point(x))) * factor
    limits = np.iinfo(out.type.dtype)
    return np.clip(np.rint(real.astype(np.float64)) + zero_point(out), limits.min, limits.max).astype(out.type.dtype)

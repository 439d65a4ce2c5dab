"""onnxruntime's LSTM with weights of 8 bits, which its quantize_dynamic writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Quantization, Value
from ...ops.recurrent import ROUNDS_INPUT
from .call import Call
from .contrib import contrib
from .rewrites import REWRITES

_lstm: Any = REWRITES["LSTM"]


@contrib(
    "DynamicQuantizeLSTM: X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point"
    " -> Y? Y_h? Y_c? | activation_alpha:floats? activation_beta:floats? activations:strs? clip:float?"
    " direction=forward hidden_size:int? input_forget=0"
)
def lstm(c: Call, x: Value, w: Value, r: Value, *inputs: Any, **attrs: Any) -> list[Value]:
    """An lstm that rounds its input and its state, where its weights are bytes around 0.0; else one of the reals that
    they stand for.
    """
    *others, w_scale, w_zero, r_scale, r_zero = inputs
    stored, found = _bytes(c, w, w_scale, w_zero), _bytes(c, r, r_scale, r_zero)
    told = attrs["activation_alpha"] or attrs["activation_beta"]
    if stored is None or found is None or len(found) > 1 and told:
        reals = (_reals(c, w, w_scale, w_zero), _reals(c, r, r_scale, r_zero))
        return _lstm(c, x, *reals, *others, layout=0, **attrs)
    attrs |= {"layout": 0, "dynamic": ROUNDS_INPUT}
    if len(found) == 1:
        return _lstm(c, x, stored[0], found[0], *others, **attrs)
    return _each_way(c, attrs, x, stored, found, others)


def _each_way(
    c: Call, attrs: dict[str, Any], x: Value, w: list[Value], r: list[Value], others: list[Value | None]
) -> list[Value]:
    """A layer for each direction, as weights have scales of their own; the results beside one another."""

    def halves(value: Value | None) -> list[Any]:
        return [None] * 2 if value is None else c.several("split", 2, value, [1, 1], axis=0)

    bias, lengths, h, cell, peephole = others
    lengths_twice, names, ways = [lengths, lengths], attrs["activations"] or [], []
    operands = zip(w, r, halves(bias), lengths_twice, *map(halves, (h, cell, peephole)), strict=True)
    for d, (direction, own) in enumerate(zip(("forward", "reverse"), operands, strict=True)):
        named = {"direction": direction, "activations": names[3 * d : 3 * d + 3] or None}
        ways.append(_lstm(c, x, *own, **attrs | named))
    return [c.join(pair, axis=0 if i else 1) for i, pair in enumerate(zip(*ways, strict=True))]


def _bytes(c: Call, r: Value, r_scale: Value, r_zero: Value | None) -> list[Value] | None:
    """Weights of each direction as int8 [1, gates * hidden, k], quantized; None: they are none."""
    stored, scale, zero = r.data, r_scale.data, None if r_zero is None else r_zero.data
    if stored is None or scale is None or stored.ndim != 3 or (r_zero is not None and zero is None):
        return None
    ways, _, columns = stored.shape
    offset = np.zeros(1, np.int16) if zero is None else zero.astype(np.int16)
    if {scale.size, offset.size} - {1, ways, ways * columns} or scale.size < ways:
        c.fail(f"expected scales and zero points by direction, or by direction and column, found {scale.shape}")
    centered = stored.astype(np.int16) - offset.reshape(min(ways, offset.size), 1, -1)
    if centered.min(initial=0) < -128 or centered.max(initial=0) > 127:
        return None
    found = []
    for d in range(ways):
        scales = tuple(scale.reshape(ways, -1)[d].astype(float).tolist())
        quant = Quantization(scales, (0,) * len(scales), 1 if len(scales) > 1 else None)
        found.append(c.const(np.ascontiguousarray(centered[d : d + 1].astype(np.int8).transpose(0, 2, 1)), quant))
    return found


def _reals(c: Call, stored: Value, scale: Value, zero: Value | None) -> Value:
    """[directions, gates * hidden, k] from [directions, k, gates * hidden]; parameters by direction, or column too."""

    def spread(value: Value) -> Value:
        axes = {0: [], 1: [1, 2], 2: [1]}.get(c.rank(value))
        if axes is None:
            c.fail(f"expected scales and zero points by direction, or by direction and column, found {value.type}")
        return c("unsqueeze", value, axes) if axes else value

    real = c.cast(stored, np.float32)
    real = real if zero is None else real - c.cast(spread(zero), np.float32)
    return c.transpose(real * spread(scale), 0, 2, 1)

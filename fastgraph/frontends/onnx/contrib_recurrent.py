"""onnxruntime's LSTM with weights of 8 bits, which its quantize_dynamic writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Quantization, Value
from ..core.common import ints
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST
from .rewrites import REWRITES


@contrib(
    "DynamicQuantizeLSTM: X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point"
    " -> Y? Y_h? Y_c? | activation_alpha:floats? activation_beta:floats? activations:strs? clip:float?"
    " direction=forward hidden_size:int? input_forget=0"
)
def lstm(call: Call, attrs: Attrs) -> Any:
    """An lstm that rounds its state, where its recurrent weights are bytes around 0.0; else one of the reals that they
    stand for. onnxruntime rounds the input as well.
    """
    attrs, w = {**attrs, "layout": 0}, _reals(call, call.x(1), call.x(8), call.input(9))
    found, others = _bytes(call), [call.input(i) for i in range(3, 8)]
    if found is None or len(found) > 1 and (attrs["activation_alpha"] or attrs["activation_beta"]):
        call.inputs = [call.x(0), w, _reals(call, call.x(2), call.x(10), call.input(11)), *others]
        return REWRITES["LSTM"](call, attrs)
    attrs["dynamic"] = 1
    if len(found) == 1:
        call.inputs = [call.x(0), w, found[0], *others]
        return REWRITES["LSTM"](call, attrs)
    return _each_way(call, attrs, w, found, others)


def _each_way(call: Call, attrs: Attrs, w: Value, r: list[Value], others: list[Value | None]) -> list[Value]:
    """A layer for each direction, as recurrent weights have scales of their own; the results beside one another."""

    def halves(value: Value | None) -> list[Any]:
        return [None] * 2 if value is None else call.add_many("split", [value, ints(call, [1, 1])], {"axis": 0}, 2)

    b, h, c, p = (halves(others[i]) for i in (0, 2, 3, 4))
    ws, names, x = halves(w), attrs["activations"] or [], call.x(0)
    ways = []
    for d, direction in enumerate(("forward", "reverse")):
        call.inputs = [x, ws[d], r[d], b[d], others[1], h[d], c[d], p[d]]
        own = {**attrs, "direction": direction, "activations": names[3 * d : 3 * d + 3] or None}
        ways.append(REWRITES["LSTM"](call, own))
    pairs = zip(*ways, strict=True)
    return [call.add("concat", list(pair), axis=0 if i else 1) for i, pair in enumerate(pairs)]


def _bytes(call: Call) -> list[Value] | None:
    """Recurrent weights of each direction as int8 [1, gates * hidden, hidden], quantized; None: they are none."""
    stored, scale, zero = call.x(2).data, call.x(10).data, call.input(11)
    if stored is None or scale is None or stored.ndim != 3 or (zero is not None and zero.data is None):
        return None
    ways, _, columns = stored.shape
    offset = np.zeros(1, np.int16) if zero is None or zero.data is None else zero.data.astype(np.int16)
    if {scale.size, offset.size} - {1, ways, ways * columns} or scale.size < ways:
        call.fail(f"expected scales and zero points by direction, or by direction and column, found {scale.shape}")
    centered = stored.astype(np.int16) - offset.reshape(min(ways, offset.size), 1, -1)
    if centered.min(initial=0) < -128 or centered.max(initial=0) > 127:
        return None
    found = []
    for d in range(ways):
        scales = tuple(scale.reshape(ways, -1)[d].astype(float).tolist())
        quant = Quantization(scales, (0,) * len(scales), 1 if len(scales) > 1 else None)
        found.append(call.const(np.ascontiguousarray(centered[d : d + 1].astype(np.int8).transpose(0, 2, 1)), quant))
    return found


def _reals(call: Call, stored: Value, scale: Value, zero: Value | None) -> Value:
    """[directions, gates * hidden, k] from [directions, k, gates * hidden]; parameters by direction, or column too."""
    to: Any = {**CAST, "to": np.dtype(np.float32)}

    def spread(value: Value) -> Value:
        axes = {0: [], 1: [1, 2], 2: [1]}.get(call.rank(value))
        if axes is None:
            call.fail(f"expected scales and zero points by direction, or by direction and column, found {value.type}")
        return call.add("unsqueeze", [value, call.const(np.array(axes, np.int64))]) if axes else value

    real = call.add("cast", [stored], **to)
    if zero is not None:
        real = call.add("sub", [real, call.add("cast", [spread(zero)], **to)])
    return call.add("transpose", [call.add("mul", [real, spread(scale)])], perm=(0, 2, 1))

"""onnxruntime's LSTM with weights of 8 bits, which its quantize_dynamic writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
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
    """An lstm of the reals that the weights stand for; onnxruntime rounds inputs and states to 8 bits as well."""
    w, r = (_weights(call, call.x(at), call.x(8 + 2 * i), call.input(9 + 2 * i)) for i, at in enumerate((1, 2)))
    call.inputs = [call.x(0), w, r, *(call.input(i) for i in range(3, 8))]
    return REWRITES["LSTM"](call, {**attrs, "layout": 0})


def _weights(call: Call, stored: Value, scale: Value, zero: Value | None) -> Value:
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

"""Recurrent layers. Semantics: tflite/kernels/{lstm, lstm_eval, unidirectional_sequence_lstm,
bidirectional_sequence_lstm, basic_rnn, unidirectional_sequence_rnn, bidirectional_sequence_rnn, svdf,
experimental/unidirectional_sequence_gru, gru_cell}.cc; GRU: Circle's, as onert-micro computes it.

Their states are variable tensors: read before the first step and written after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import FLOAT32, Quantization, TensorType, Value
from .call import Call
from .common import computed, reals_of, same_dtype
from .tensors import type_of

LAYER_NORM_BITS = 10
"""Biases of normalized gates are in steps of the norm's, divided by two to this power."""

RNN_NAMES = {"NONE": "Affine", "RELU": "Relu", "RELU6": "relu6", "RELU_N1_TO_1": "relu_n1_to_1", "TANH": "Tanh"}
"""Activations as the canonical `rnn` calls them."""

_UNIDIRECTIONAL = {"w": 1, "r": 5, "peephole": 9, "bias": 12, "projection": 16, "h": 18, "c": 19, "norm": 20}
_BIDIRECTIONAL = (
    {"w": 1, "r": 5, "peephole": 9, "bias": 12, "projection": 16, "h": 35, "c": 36, "extra": 40},
    {"w": 18, "r": 22, "peephole": 26, "bias": 29, "projection": 33, "h": 37, "c": 38, "extra": 44},
)
"""Where the inputs of an LSTM begin, of both directions in the second."""

Optional = Value | None


def reals(c: Call, bias: Optional, *scaled: Optional, shift: int = 0) -> Optional:
    """A bias that stands for reals: where the file leaves out its scale, that of the products of `scaled`."""
    if bias is None or bias.type.quant is not None or bias.type.dtype is None or bias.type.dtype.kind != "i":
        return bias
    quants = [v.type.quant for v in scaled if v is not None]
    if bias.data is None or any(q is None or q.axis is not None for q in quants):
        c.fail(f"expected a scale of the bias {bias}, found {bias.type} without one")
    scale = float(np.prod([q.scale[0] for q in quants if q is not None])) / (1 << shift)
    return c.const(bias.data, Quantization((scale,), (0,)))


def _lstm(
    c: Call, x: Value, at: dict[str, int], out: Value, reverse: int = 0, time_major: int = 0, extra: Optional = None
) -> None:
    """Write one direction of an LSTM, with inputs where `at` says. `extra` is fed beside x, with weights of its own."""
    h, cell = c.x(at["h"]), c.x(at["c"])
    weights, recurrent = ([c.input(at[name] + g) for g in range(4)] for name in "wr")
    norms = [c.input(at["norm"] + g) if "norm" in at else None for g in range(4)]
    biases: list[Optional] = []
    for g in range(4):
        bias, norm = c.input(at["bias"] + g), norms[g]
        like: list[Optional] = [x, weights[g]] if norm is None else [norm]
        biases.append(reals(c, bias, *like, shift=0 if norm is None else LAYER_NORM_BITS))
    projection = c.input(at["projection"])
    hidden = type_of(*c.scope.tensor(c.intermediates[4])) if projection is not None and c.intermediates[4:] else None
    if hidden is not None and hidden.quant is None:
        hidden = None  # what is projected is not rounded
    if extra is not None:
        x = _beside(c, x, extra)
        weights = [w if w is None else _beside(c, w, c.x(at["extra"] + g)) for g, w in enumerate(weights)]
    peepholes = [c.input(at["peephole"] + g) for g in range(3)]
    scaled = [projection] if hidden is None else [projection, Value("", hidden)]
    projection_bias = reals(c, c.input(at["projection"] + 1), *scaled)
    computed(c, x, *weights, *recurrent, *peepholes, *norms, projection)
    if c.activation == "SIGN_BIT":
        c.unsupported("with a SIGN_BIT activation")
    after = [c.fresh(h.type), c.fresh(cell.type)]
    c.add(
        "lstm_sequence",
        [x, h, cell, *weights, *recurrent, *peepholes, *biases, projection, projection_bias, *norms],
        [out, *after], activation=c.activation.lower(), cell_clip=c.options.cell_clip, proj_clip=c.options.proj_clip,
        time_major=time_major, reverse=reverse, hidden_type=hidden,
        state_type=h.type if h.type.quant is not None else None,
        dynamic=int(_rounds_its_state(x, recurrent, [projection, *norms])),
        cell_type=cell.type if cell.type.quant is not None else None,
    )  # fmt: skip
    c.write_state(at["h"], after[0])
    c.write_state(at["c"], after[1])


def _rounds_its_state(x: Value, recurrent: Sequence[Optional], rare: Sequence[Optional]) -> bool:
    """Whether only the weights of a layer are quantized; those with something `rare` are computed on reals."""
    stored = all(v is None or (v.type.quant is not None and len(v.type.shape or ()) == 2) for v in recurrent)
    return stored and x.type.quant is None and all(v is None for v in rare)


def _beside(c: Call, a: Value, b: Value) -> Value:
    """Two values side by side along the last axis, as reals where they are quantized."""
    quantized = a.type.quant is not None or b.type.quant is not None
    return c("concat", a, b, type=TensorType(FLOAT32 if quantized else a.type.dtype), axis=-1)


def lstm(c: Call, x: Value, *_: Value | None) -> None:
    if c.options.kernel_type == "BASIC":
        c.count((5, 5), (4, 4))
        _basic_lstm(c, *(c.x(i) for i in range(5)))
        return
    sequence_lstm(c, x)


def sequence_lstm(c: Call, x: Value, *_: Value | None, time_major: int = 0) -> None:
    c.count((20, 24))
    _lstm(c, x, _UNIDIRECTIONAL, c.outputs[0], time_major=time_major)


def _basic_lstm(c: Call, x: Value, h: Value, w: Value, bias: Value, state: Value) -> None:
    """One step with all gates in one product of x and h side by side; gives what it works with as well."""
    same_dtype(c, x, h)
    computed(c, x, h, w, state)
    out, state_out, joined, gates = c.outputs
    if c.activation != "TANH":
        c.unsupported(f"of the BASIC kind with activation {c.activation}; only TANH is defined")
    if state.type.shape is None or len(state.type.shape) != 2 or not isinstance(state.type.shape[1], int):
        c.fail(f"expected a state [batch, units], found {state.type}")
    c.add("concat", [x, h], [joined], axis=-1)
    c.add("gemm", [joined, w, reals(c, bias, x, w)], [gates], trans_b=1)
    take, new, forget, show = _parts(c, gates, -1, *[state.type.shape[1]] * 4)
    take, new, forget, show = c.sigmoid(take), c.tanh(new), c.sigmoid(forget), c.sigmoid(show)
    c.into(take * new + forget * state, state_out)
    c.into(show * c.tanh(state_out), out)
    for index, value in ((1, out), (4, state_out)):
        if c.is_variable(index):
            c.write_state(index, value)


def _parts(c: Call, x: Value, axis: int, *sizes: int) -> list[Value]:
    """Parts of these extents along an axis, as reals."""
    made = [c.fresh(reals_of(x)) for _ in sizes]
    c.add("split", [x, c.vector(*sizes)], made, axis=axis)
    return made


def bidirectional_lstm(c: Call, *_: Optional) -> None:
    c.count((39, 48), (1, 2))

    def write(x: Value, extra: Optional, out: Value, backward: int) -> None:
        time_major = int(c.options.time_major)
        _lstm(c, x, _BIDIRECTIONAL[backward], out, reverse=backward, time_major=time_major, extra=extra)

    _both_ways(c, 39, 41, write)


def _both_ways(c: Call, extra: int, weights: int, write: Callable[[Value, Optional, Value, int], None]) -> None:
    """Write forward and backward over time; input `extra` is the input of the backward direction, or, with weights of
    its own, an auxiliary input of both.
    """
    other, own, merged = c.input(extra), c.input(weights) is None, c.options.merge_outputs
    if not merged and len(c.outputs) != 2:
        c.fail(f"expected an output for each direction, found {len(c.outputs)}")
    outs = [c.fresh(c.outputs[0].type.with_shape(None)) for _ in range(2)] if merged else c.outputs
    for backward, out in enumerate(outs):
        write(other if other is not None and own and backward else c.x(), None if own else other, out, backward)
    if merged:
        c.add("concat", outs, c.outputs[:1], axis=-1)


def rnn_step(c: Call, x: Value, w: Value, r: Value, bias: Value, h: Value) -> None:
    """h = activation(x w' + h r' + bias), and the state is h."""
    of_state = c("gemm", h, r, bias, trans_b=1)
    c.give(c("gemm", x, w, trans_b=1) + of_state)
    c.write_state(4, c.outputs[0])


def sequence_rnn(c: Call, x: Value, *_: Value) -> None:
    _rnn(c, x, 1, c.outputs[0])


def bidirectional_rnn(c: Call, *_: Optional) -> None:
    def write(x: Value, extra: Optional, out: Value, backward: int) -> None:
        _rnn(c, x, 5 if backward else 1, out, "reverse" if backward else "forward", extra, 10 + backward)

    _both_ways(c, 9, 10, write)


def _rnn(
    c: Call, x: Value, at: int, out: Value, direction: str = "forward", extra: Optional = None, place: int = 0
) -> None:
    """Write one direction; its weights, recurrent weights, bias and state are the inputs from `at` on. `extra` is fed
    beside x, with the weights at `place`.
    """
    w, r, bias, h = (c.x(at + i) for i in range(4))
    if extra is not None:
        x, w = _beside(c, x, extra), _beside(c, w, c.x(place))
    if c.activation not in RNN_NAMES:
        c.unsupported(f"with a {c.activation} activation")
    both = c.join([bias, bias - bias], 0)
    layout = 0 if c.options.time_major else 1
    operands, how = [x, *(_stacked(c, v) for v in (w, r, both))], (RNN_NAMES[c.activation],)
    y, after = _recurrent(c, "rnn", operands, h, out, layout, direction=direction, activations=how)
    c.write_state(at + 3, after)


def _stacked(c: Call, value: Value) -> Value:
    """As the only one along a new first axis, in reals."""
    return c("unsqueeze", value, c.vector(0), type=reals_of(value))


def _recurrent(
    c: Call, op: str, inputs: list[Value], h: Value, out: Value | None, layout: int, **attrs: Any
) -> tuple[Value, Value]:
    """Write one direction of a canonical `rnn` or `gru`; (y, last state) without the axis of directions."""
    kind, axis = TensorType(FLOAT32), c.vector(layout)
    results = [c.fresh(kind), c.fresh(kind)]
    c.add(op, [*inputs, None, c("unsqueeze", h, axis, type=kind)], results, layout=layout, **attrs)
    y = c.add("squeeze", [results[0], c.vector(2 if layout else 1)], None if out is None else [out], type=kind)
    return y, c("squeeze", results[1], axis, type=h.type)


def svdf(c: Call, x: Value, feature: Value, time: Value, bias: Optional, state: Value, rank: int) -> None:
    computed(c, x, feature, time, state)
    after = c.fresh(state.type)
    bias = reals(c, bias, state, time)
    c.settle(["activated", "any"], "svdf", [x, state, feature, time, bias], [c.outputs[0], after], rank=rank)
    c.write_state(4, after)


def sequence_gru(c: Call, x: Value, h: Value, gates: Value, gate_bias: Value, candidate: Value, bias: Value) -> None:
    """x [T, B, I]; gates (reset, update) and candidate have weights for x and h side by side."""
    features, units = (v.type.shape[-1] if v.type.shape else None for v in (x, h))
    if not isinstance(features, int) or not isinstance(units, int):
        c.fail(f"expected an input [time, batch, features] and a state [batch, units], found {x.type} and {h.type}")
    reset, update = _parts(c, gates, 0, units, units)
    of_x, of_h = zip(*(_parts(c, w, 1, features, units) for w in (update, reset, candidate)), strict=True)
    reset_bias, update_bias = _parts(c, gate_bias, 0, units, units)
    biases = c.join([update_bias, reset_bias, bias, c.const(np.zeros(3 * units, np.float32))], 0)
    inputs = [x, *(_stacked(c, v) for v in (c.join(of_x, 0), c.join(of_h, 0), biases))]
    _, last = _recurrent(c, "gru", inputs, h, c.outputs[0], 0)
    c.add("identity", [last], [c.outputs[1]])


def gru(c: Call, x: Value, w: Value, b: Optional, r: Value, bias: Optional, h: Value, layout: int, steps: int) -> None:
    """Circle's: weights named "hidden" are those of x, those named "input" are the state's (3 H rows: update, reset,
    candidate). The result has the state's shape, unless all steps are asked for.
    """
    if r.type.shape is None or not isinstance(r.type.shape[0], int):
        c.fail(f"expected weights [3 * units, units], found {r.type}")
    nothing = c.const(np.zeros(r.type.shape[0], np.float32))
    inputs = [x, *(_stacked(c, v) for v in (w, r, c.join([b or nothing, bias or nothing], 0)))]
    out = c.outputs[0]
    _, last = _recurrent(c, "gru", inputs, h, out if steps else None, layout, linear_before_reset=1)
    if not steps:
        c.give(c("reshape", last, c.vector(*out.type.dims), allowzero=1) if out.type.concrete else last)

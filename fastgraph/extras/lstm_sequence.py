"""An LSTM layer with all that TensorFlow Lite's has. Semantics: tflite/kernels/lstm_eval.cc.

`state_type`, `cell_type`: what a quantized state is stored as. Each step rounds it, so that what the next step reads is
what a device that stores it would read. `hidden_type`: what the output is rounded to before its projection.
`dynamic`: the output is rounded to 8 bits, row by row, before it is multiplied by recurrent weights.

A kernel (lstm_kernel.py) has layers without a projection, normalized gates, diagonal weights and weights that are no
constants; all others are a scan over time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir import FLOAT32, Node, TensorType, Value
from ..ir.build import constant
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import attr, define, fail
from ..ops.work import squares
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .scans import scanned

INPUT, FORGET, CELL, OUTPUT = range(4)
H, C, W, R, PEEPHOLE, BIAS, PROJECTION, PROJECTION_BIAS, NORM = 1, 2, 3, 7, 11, 14, 18, 19, 20
"""Where the inputs begin, x being 0: the states, then weights, peepholes, biases and norms by gate, in the order
input, forget, cell, output. Without weights for the input gate, it is 1 - forget.
"""

PEEPHOLES = {INPUT: PEEPHOLE, FORGET: PEEPHOLE + 1, OUTPUT: PEEPHOLE + 2}

EPSILON = 1e-8
"""Added to the variance by layer normalization."""


ACTIVATIONS: dict[str, Callable[[Sweep, Value], Value]] = {
    "none": lambda g, x: x,
    "relu": lambda g, x: g("relu", x),
    "relu_n1_to_1": lambda g, x: g.clip(x, -1, 1),
    "relu6": lambda g, x: g.clip(x, 0, 6),
    "tanh": Sweep.tanh,
    "sigmoid": Sweep.sigmoid,
}


def _infer_lstm(node: Node, types: Types) -> list[TensorType]:
    x, w, h, c = types[0], types[W + FORGET], types[H], types[C]
    check.operand(node, x, "x 2-3")
    for index in (W + FORGET, W + CELL, W + OUTPUT, R + FORGET, R + CELL, R + OUTPUT):
        if types[index] is None:
            fail(node, f"input {index}, a weight that every LSTM has, is absent")
    if (types[W] is None) != (types[R] is None):
        fail(node, "the input gate has weights of the input or of the state, but not both")
    check.operand(node, w, "weights 2")
    check.operand(node, h, "output_state 2")
    check.operand(node, c, "cell_state 2")
    for index, t in enumerate(types):
        check.operand(node, t, f"input_{index} f")
    check.one_of(node, "activation", attr(node, "activation"), ACTIVATIONS)
    _check_weights(node, types)
    width = h.shape[1] if h.shape else None
    y = None if x.shape is None else (*x.shape[:-1], width)
    return [TensorType(x.dtype, y), TensorType(h.dtype, h.shape), TensorType(c.dtype, c.shape)]


def _check_weights(node: Node, types: Types) -> None:
    """ModelError unless the extents of weights and states that are known fit together."""
    x, h, c = types[0].shape, types[H].shape, types[C].shape
    units = c[1] if c else None
    sizes = {"input": x[-1] if x else None, "state": h[1] if h else None}

    def agree(index: int, *wanted: Any) -> None:
        check.shape(node, types[index], f"input {index}", *wanted)

    for gate in range(4):
        agree(W + gate, units, sizes["input"])
        diagonal = types[R + gate] is not None and types[R + gate].shape and len(types[R + gate].shape) == 1
        agree(R + gate, *((units,) if diagonal else (units, sizes["state"])))
        agree(BIAS + gate, units)
        agree(NORM + gate, units)
    for index in range(PEEPHOLE, PEEPHOLE + 3):
        agree(index, units)
    agree(PROJECTION, sizes["state"], units)
    agree(PROJECTION_BIAS, sizes["state"])
    late = len(x) == 2 or not attr(node, "time_major") if x else True
    agree(H, x[0 if late else 1] if x else None, sizes["state"])
    agree(C, x[0 if late else 1] if x else None, units)
    if types[PROJECTION] is None and sizes["state"] != units and isinstance(sizes["state"], int):
        fail(node, f"without a projection the states must be equally wide, found {sizes['state']} and {units}")


define(
    "lstm_sequence", _infer_lstm, inputs=(3, 24),
    attrs={
        "activation": "tanh", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": 0, "reverse": 0, "state_type": None,
        "cell_type": None, "hidden_type": None, "dynamic": 0,
    },
    work=squares,
)  # fmt: skip


class Group(NamedTuple):
    """Gates that are computed together, whose sums lie side by side; what they have is [gates, units], or None."""

    gates: tuple[int, ...]
    peephole: Value | None
    norm: Value | None
    bias: Value | None


class Layer(NamedTuple):
    """What all steps share. r: [gates * units, width], or transposed where it is no constant, or a diagonal for each
    gate, [gates, units]."""

    node: Node
    groups: Sequence[Group]
    r: Value
    diagonal: bool
    projection: Value | None
    projection_bias: Value | None


@rule("rare", "lstm_sequence", quantized=True)
def lstm_sequence(g: Sweep, node: Node) -> bool:
    """A layer that is not the kernel's, as a scan in f32."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if not all(v.type.concrete and v.type.size and (v.type.quant or v.type.dtype == FLOAT32) for v in values):
        return False
    inputs = [node.input(i) for i in range(NORM + 4)]
    recurrent = [v for v in inputs[R : R + 4] if v is not None]
    fixed = all(v is None or v.data is not None for v in inputs[W:])
    plain = inputs[PROJECTION] is None and not any(inputs[NORM:]) and all(len(v.type.dims) == 2 for v in recurrent)
    symmetric = not attr(node, "dynamic") or all(map(_symmetric, recurrent))
    return not (fixed and plain and symmetric) and by_scan(g, node)


def _symmetric(w: Value) -> bool:
    """Whether weights are bytes around 0.0, which the kernel that rounds its state takes."""
    quant, zero = w.type.quant, 128 if w.type.dtype == np.uint8 else 0
    return quant is not None and w.type.dtype in (np.int8, np.uint8) and all(z == zero for z in quant.zero_point)


@rule("reference", "lstm_sequence")
def by_scan(g: Sweep, node: Node) -> bool:
    """Given ``y, h, c = lstm_sequence(x, h0, c0, ..)``; result the inputs of all steps times their weights, and a scan
    over time. One step needs no scan.
    """
    layer = _layer(g, node)
    if layer is None:
        return False
    dims = node.x.type.dims
    x, h, c = (_real(g, node.input(i)) for i in (0, H, C))
    assert x is not None and h is not None and c is not None
    late = len(dims) == 3 and not attr(node, "time_major")
    batch, units = c.type.dims
    times = x.type.size // (batch * dims[-1])
    if late and times > 1:
        x = g.transpose(x, 1, 0, 2)
    sums = _of_input(g, layer, g.shape(x, times * batch, dims[-1]))
    if times == 1:
        h, c = _step(g, layer, h, c, sums)
        y = h
    else:

        def step(inner: Sweep, h: Value, c: Value, sums: Value) -> list[Value]:
            h, c = _step(inner, layer, h, c, sums)
            return [h, c, h]

        steps = g.shape(sums, times, batch, sums.type.dims[1])
        h, c, y = scanned(g, [h, c], [steps], step, bool(attr(node, "reverse")))
        y = g.transpose(y, 1, 0, 2) if late else y
    results = zip((g.shape(y, *node.out.type.dims), h, c), node.outputs, strict=True)
    return g.becomes(*(_stored(g, value, out.type) for value, out in results))


def _layer(g: Sweep, node: Node) -> Layer | None:
    """The layer's parameters as reals; None for one that has diagonal weights beside others, or a projection."""
    inputs = [node.input(i) for i in range(NORM + 4)]
    gates = [i for i in range(4) if inputs[W + i] is not None]
    diagonal = {len(v.type.dims) == 1 for v in inputs[R : R + 4] if v is not None}
    if len(diagonal) > 1 or (True in diagonal and inputs[PROJECTION] is not None):
        return None
    groups = _groups(g, gates)
    order = [i for group in groups for i in group.gates]
    r = _joined(g, [inputs[R + i] for i in order])
    assert r is not None
    if True in diagonal:
        r = g.shape(r, len(order), r.type.dims[0] // len(order))
    elif r.data is None:
        r = g.transpose(r, 1, 0)
    projection, bias = (_real(g, inputs[i]) for i in (PROJECTION, PROJECTION_BIAS))
    if projection is not None and projection.data is None:
        projection = g.transpose(projection, 1, 0)
    return Layer(node, groups, r, True in diagonal, projection, bias)


def _groups(g: Sweep, gates: list[int]) -> list[Group]:
    """Gates by the state of the cell that their peepholes see (none, the one before the step, the one after it), and by
    whether they are normalized.
    """
    kinds: dict[tuple[bool, bool, bool], list[int]] = {}
    for i in gates:
        peeps = i in PEEPHOLES and g.node.input(PEEPHOLES[i]) is not None
        kinds.setdefault((peeps, peeps and i == OUTPUT, g.node.input(NORM + i) is not None), []).append(i)

    def lines(places: list[int]) -> Value | None:
        found = _joined(g, [g.node.input(place) for place in places])
        return None if found is None else g.shape(found, len(places), found.type.dims[0] // len(places))

    groups = []
    for (peeps, _, normed), each in kinds.items():
        peephole = lines([PEEPHOLES[i] for i in each]) if peeps else None
        norm = lines([NORM + i for i in each]) if normed else None
        groups.append(Group(tuple(each), peephole, norm, lines([BIAS + i for i in each])))
    return groups


def _joined(g: Sweep, values: Sequence[Value | None]) -> Value | None:
    """Values one after another along the first axis, as reals; zeros for those that are absent, None if all are."""
    there = next((_real(g, v) for v in values if v is not None), None)
    if there is None:
        return None
    none = g.number(np.zeros(there.type.dims, there.type.dtype))
    parts = [_real(g, v) or none for v in values]
    stored = [v.data for v in parts if v.data is not None]
    if len(stored) == len(parts):
        return parts[0] if len(parts) == 1 else constant(g.node.out, np.concatenate(stored), "joined")
    return g("concat", *parts, axis=0)


def _real(g: Sweep, value: Value | None) -> Value | None:
    """The f32 that a quantized value stands for."""
    return value and g.reals(value)


def _stored(g: Sweep, value: Value, kind: TensorType) -> Value:
    """A value of reals as a type stores them."""
    if kind.quant is None:
        return value
    return g("requantize", value, type=kind.with_shape(value.type.dims))


def _product(g: Sweep, x: Value, w: Value, bias: Value | None = None) -> Value:
    """x times a constant [outputs, k], or a value [k, outputs]; plus a bias."""
    if w.data is not None and bias is not None and bias.data is not None:
        return g("dense", x, w, bias)
    y = g("matmul" if w.data is None else "dense", x, w)
    return y if bias is None else y + bias


def _of_input(g: Sweep, layer: Layer, x: Value) -> Value:
    """[rows, gates * units] of all steps' inputs; with the biases of the gates that no norm comes between."""
    order = [i for group in layer.groups for i in group.gates]
    w = _joined(g, [layer.node.input(W + i) for i in order])
    assert w is not None
    none = g.number(np.zeros(w.type.dims[0] // len(order), w.type.dtype))
    normed = [layer.node.input(NORM + i) is not None for i in order]
    biases = [none if has else layer.node.input(BIAS + i) or none for i, has in zip(order, normed, strict=True)]
    bias = None if all(v is none for v in biases) else _joined(g, biases)
    return _product(g, x, w if w.data is not None else g.transpose(w, 1, 0), bias)


def _step(g: Sweep, layer: Layer, h: Value, c: Value, sums: Value) -> tuple[Value, Value]:
    """The states after a step. sums: [batch, gates * units], those of the input."""
    node, act = layer.node, ACTIVATIONS[attr(layer.node, "activation")]
    sums = _with_state(g, layer, _by_row(g, h) if attr(node, "dynamic") else h, sums)
    gates: dict[int, Value] = {}
    start, last = 0, None
    for group in layer.groups:
        width = len(group.gates) * c.type.dims[1]
        part = g.cut(sums, 1, start, start + width)
        if group.peephole is not None and OUTPUT in group.gates:
            last = group, part
        else:
            gates |= _values(g, group, part, c)
        start += width
    forget = g.sigmoid(gates[FORGET])
    take = g.sigmoid(gates[INPUT]) if INPUT in gates else -forget + 1
    c = forget * c + take * act(g, gates[CELL])
    c = _rounded(g, _clipped(g, c, attr(node, "cell_clip")), attr(node, "cell_type"))
    if last is not None:
        gates |= _values(g, *last, c)
    h = g.sigmoid(gates[OUTPUT]) * act(g, c)
    if layer.projection is not None:
        h = _product(g, _rounded(g, h, attr(node, "hidden_type")), layer.projection, layer.projection_bias)
        h = _clipped(g, h, attr(node, "proj_clip"))
    return _rounded(g, h, attr(node, "state_type")), c


def _with_state(g: Sweep, layer: Layer, h: Value, sums: Value) -> Value:
    """Sums of the input and of the state before."""
    if not layer.diagonal:
        return sums + _product(g, h, layer.r)
    batch, units = h.type.dims
    return sums + g.shape(g.shape(h, batch, 1, units) * layer.r, *sums.type.dims)


def _values(g: Sweep, group: Group, sums: Value, c: Value) -> dict[int, Value]:
    """The gates of a group before their activation, each [batch, units]."""
    (batch, units), count = c.type.dims, len(group.gates)
    if count > 1 and (group.peephole is not None or group.norm is not None):
        sums, c = g.shape(sums, batch, count, units), g.shape(c, batch, 1, units)
    if group.peephole is not None:
        sums = sums + c * group.peephole
    if group.norm is not None:
        ones = np.ones(units, c.type.dtype)
        sums = g("layer_normalization", sums, ones, axis=-1, epsilon=EPSILON) * group.norm
        sums = sums if group.bias is None else sums + group.bias
    if count == 1:
        return {group.gates[0]: sums}
    sums = g.shape(sums, batch, count * units)
    return {gate: g.cut(sums, 1, i * units, (i + 1) * units) for i, gate in enumerate(group.gates)}


def _clipped(g: Sweep, x: Value, limit: float) -> Value:
    return g.clip(x, -limit, limit) if limit > 0 else x


def _rounded(g: Sweep, x: Value, kind: TensorType | None) -> Value:
    """The reals nearest to x that a value of a type can hold."""
    if kind is None or kind.quant is None:
        return x
    return g.requantize(_stored(g, x, kind), x.type)


def _by_row(g: Sweep, h: Value) -> Value:
    """Rows rounded to multiples of a 127th of their greatest magnitude."""
    step = g.largest(abs(h), [1], keep=True) / 127
    return g.choose(g.equal(step, 0), 0, g("round", h / step) * step)

"""TensorFlow Lite's lstm, where it has what no kernel knows: a projection, normalized gates, diagonal weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...ir import Graph, Node, TensorType, Value
from ...ir.build import constant
from ...ops.lstm_sequence import (
    BIAS,
    CELL,
    EPSILON,
    FORGET,
    INPUT,
    NORM,
    OUTPUT,
    PEEPHOLE,
    PROJECTION,
    PROJECTION_BIAS,
    C,
    H,
    R,
    W,
)
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from ..explicit_quantization import requantized
from .writing import Steps, operand, scanned

F32 = np.dtype(np.float32)
PEEPHOLES = {INPUT: PEEPHOLE, FORGET: PEEPHOLE + 1, OUTPUT: PEEPHOLE + 2}

ACTIVATIONS: dict[str, Callable[[Steps, Value], Value]] = {
    "none": lambda do, x: x,
    "relu": lambda do, x: do("relu", x),
    "relu_n1_to_1": lambda do, x: do("clip", x, -1, 1),
    "relu6": lambda do, x: do("clip", x, 0, 6),
    "tanh": lambda do, x: do("tanh", x),
    "sigmoid": lambda do, x: do("sigmoid", x),
}


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
def lstm_sequence(state: Sweep, node: Node) -> bool:
    """Given ``y, h, c = lstm_sequence(x, h0, c0, ..)`` with a projection, norms, weights that are no constants, or
    diagonal ones; result the inputs of all steps times their weights, and a scan over time. One step needs no scan.
    """
    layer = _layer(state, node)
    if layer is None:
        return False
    do, dims = Steps(state, node), node.x.type.dims
    x, h, c = (_real(do, operand(node, i)) for i in (0, H, C))
    assert x is not None and h is not None and c is not None
    late = len(dims) == 3 and not attr(node, "time_major")
    batch, units = c.type.dims
    times = x.type.size // (batch * dims[-1])
    if late and times > 1:
        x = do.turn(x, 1, 0, 2)
    sums = _of_input(do, layer, do.shape(x, times * batch, dims[-1]))
    if times == 1:
        h, c = _step(do, layer, h, c, sums)
        y = h
    else:
        steps = do.shape(sums, times, batch, sums.type.dims[1])
        h, c, y = scanned(do, [h, c], [steps], _round(layer, h.type, c.type, steps.type), bool(attr(node, "reverse")))
        y = do.turn(y, 1, 0, 2) if late else y
    results = zip((do.shape(y, *node.out.type.dims), h, c), node.outputs, strict=True)
    return do.becomes(*(_stored(do, value, out.type) for value, out in results))


def _layer(state: Sweep, node: Node) -> Layer | None:
    """The layer's parameters in f32; None for one that is the kernel's, or has something else."""
    inputs = [operand(node, i) for i in range(NORM + 4)]
    there = [v for v in (*inputs, *node.outputs) if v is not None]
    if not all(v.type.concrete and v.type.size and (v.type.quant or v.type.dtype == F32) for v in there):
        return None
    gates = [g for g in range(4) if inputs[W + g] is not None]
    diagonal = {len(v.type.dims) == 1 for v in inputs[R : R + 4] if v is not None}
    opened = any(v is not None and v.data is None for v in inputs[W:])
    more = opened or any(v is not None for v in (inputs[PROJECTION], *inputs[NORM:]))
    more = more or bool(attr(node, "dynamic")) and not all(_symmetric(v) for v in inputs[R : R + 4] if v is not None)
    if len(diagonal) > 1 or not (more or True in diagonal) or (True in diagonal and inputs[PROJECTION] is not None):
        return None
    do = Steps(state, node)
    groups = _groups(do, gates)
    order = [g for group in groups for g in group.gates]
    r = _joined(do, [inputs[R + g] for g in order])
    assert r is not None
    if True in diagonal:
        r = do.shape(r, len(order), r.type.dims[0] // len(order))
    elif r.data is None:
        r = do.turn(r, 1, 0)
    projection, bias = (_real(do, inputs[i]) for i in (PROJECTION, PROJECTION_BIAS))
    if projection is not None and projection.data is None:
        projection = do.turn(projection, 1, 0)
    return Layer(node, groups, r, True in diagonal, projection, bias)


def _symmetric(w: Value) -> bool:
    """Whether weights are bytes around 0.0, which the kernel that rounds its state takes."""
    quant, zero = w.type.quant, 128 if w.type.dtype == np.uint8 else 0
    return quant is not None and w.type.dtype in (np.int8, np.uint8) and all(z == zero for z in quant.zero_point)


def _groups(do: Steps, gates: list[int]) -> list[Group]:
    """Gates by what they look at (no cell, the one before the step, the one after it), and whether they have norms."""
    kinds: dict[tuple[bool, bool, bool], list[int]] = {}
    for g in gates:
        peeps = g in PEEPHOLES and operand(do.node, PEEPHOLES[g]) is not None
        kinds.setdefault((peeps, peeps and g == OUTPUT, operand(do.node, NORM + g) is not None), []).append(g)

    def lines(values: list[Value | None]) -> Value | None:
        found = _joined(do, values)
        return None if found is None else do.shape(found, len(values), found.type.dims[0] // len(values))

    return [
        Group(
            tuple(each), lines([operand(do.node, PEEPHOLES[g]) for g in each]) if peeps else None,
            lines([operand(do.node, NORM + g) for g in each]) if normed else None,
            lines([operand(do.node, BIAS + g) for g in each]),
        )
        for (peeps, _, normed), each in kinds.items()
    ]  # fmt: skip


def _joined(do: Steps, values: Sequence[Value | None]) -> Value | None:
    """Values one after another along the first axis, in f32; zeros for those that are absent, None if all are."""
    there = next((v for v in values if v is not None), None)
    if there is None:
        return None
    none = constant(do.node.out, np.zeros(there.type.dims, F32), "none")
    parts = [_real(do, v) or none for v in values]
    stored = [v.data for v in parts if v.data is not None]
    if len(stored) == len(parts):
        return parts[0] if len(parts) == 1 else constant(do.node.out, np.concatenate(stored), "joined")
    return do("concat", *parts, axis=0)


def _real(do: Steps, value: Value | None) -> Value | None:
    """The f32 that a value stands for."""
    if value is None or value.type.quant is None:
        return value
    return requantized(do.state, value, TensorType(F32, value.type.shape))


def _stored(do: Steps, value: Value, kind: TensorType) -> Value:
    """A value of f32 as one of another type that stands for it."""
    if kind.quant is None:
        return value
    return do.state.add("requantize", [value], kind.with_shape(value.type.dims), do.node)


def _product(do: Steps, x: Value, w: Value, bias: Value | None = None) -> Value:
    """x times a constant [outputs, k], or a value [k, outputs]; plus a bias."""
    if w.data is not None and bias is not None and bias.data is not None:
        return do("dense", x, w, bias)
    y = do("matmul" if w.data is None else "dense", x, w)
    return y if bias is None else do("add", y, bias)


def _of_input(do: Steps, layer: Layer, x: Value) -> Value:
    """[rows, gates * units] of all steps' inputs; with the biases of the gates that no norm comes between."""
    w = _joined(do, [operand(layer.node, W + g) for group in layer.groups for g in group.gates])
    assert w is not None
    units = w.type.dims[0] // sum(len(group.gates) for group in layer.groups)
    none = constant(do.node.out, np.zeros(units, F32), "none")
    biases = [
        none if operand(layer.node, NORM + g) is not None else operand(layer.node, BIAS + g) or none
        for group in layer.groups for g in group.gates
    ]  # fmt: skip
    bias = None if all(v is none for v in biases) else _joined(do, biases)
    return _product(do, x, w if w.data is not None else do.turn(w, 1, 0), bias)


def _round(layer: Layer, h: TensorType, c: TensorType, steps: TensorType) -> Graph:
    """The body of the scan."""
    kinds = {"h": h, "c": c, "sums": steps.with_shape(steps.dims[1:])}
    values = [Value(f"{layer.node.out.name}.{name}", kind) for name, kind in kinds.items()]
    body = Graph(f"{layer.node.out.name}.round", values, [], [], "")
    inner = Sweep(body)
    inner.node = layer.node
    do = Steps(inner, layer.node)
    h_after, c_after = _step(do, layer, *values)
    body.outputs = [h_after, c_after, h_after]
    body.nodes = inner.written()
    return body


def _step(do: Steps, layer: Layer, h: Value, c: Value, sums: Value) -> tuple[Value, Value]:
    """The states after a step. sums: [batch, gates * units], those of the input."""
    node, act = layer.node, ACTIVATIONS[attr(layer.node, "activation")]
    state_type, cell_type, hidden_type = (attr(node, name) for name in ("state_type", "cell_type", "hidden_type"))
    sums = _with_state(do, layer, _by_row(do, h) if attr(node, "dynamic") else h, sums)
    gates: dict[int, Value] = {}
    start, last = 0, None
    for group in layer.groups:
        width = len(group.gates) * c.type.dims[1]
        part = do.cut(sums, 1, start, start + width) if width < sums.type.dims[1] else sums
        if group.peephole is not None and OUTPUT in group.gates:
            last = group, part
        else:
            gates |= _values(do, group, part, c)
        start += width
    forget = do("sigmoid", gates[FORGET])
    take = do("sigmoid", gates[INPUT]) if INPUT in gates else do("add", do("neg", forget), 1)
    c = do("add", do("mul", forget, c), do("mul", take, act(do, gates[CELL])))
    c = _rounded(do, _clipped(do, c, attr(node, "cell_clip")), cell_type)
    if last is not None:
        gates |= _values(do, *last, c)
    h = do("mul", do("sigmoid", gates[OUTPUT]), act(do, c))
    if layer.projection is not None:
        h = _product(do, _rounded(do, h, hidden_type), layer.projection, layer.projection_bias)
        h = _clipped(do, h, attr(node, "proj_clip"))
    return _rounded(do, h, state_type), c


def _with_state(do: Steps, layer: Layer, h: Value, sums: Value) -> Value:
    """Sums of the input and of the state before."""
    if not layer.diagonal:
        return do("add", sums, _product(do, h, layer.r))
    batch, units = h.type.dims
    return do("add", sums, do.shape(do("mul", do.shape(h, batch, 1, units), layer.r), *sums.type.dims))


def _values(do: Steps, group: Group, sums: Value, c: Value) -> dict[int, Value]:
    """What the gates of a group are before their activation, each [batch, units]."""
    (batch, units), count = c.type.dims, len(group.gates)
    if count > 1 and (group.peephole is not None or group.norm is not None):
        sums, c = do.shape(sums, batch, count, units), do.shape(c, batch, 1, units)
    if group.peephole is not None:
        sums = do("add", sums, do("mul", c, group.peephole))
    if group.norm is not None:
        ones = constant(do.node.out, np.ones(units, F32), "ones")
        sums = do("mul", do("layer_normalization", sums, ones, axis=-1, epsilon=EPSILON), group.norm)
        sums = sums if group.bias is None else do("add", sums, group.bias)
    if count == 1:
        return {group.gates[0]: sums}
    sums = do.shape(sums, batch, count * units)
    return {g: do.cut(sums, 1, i * units, (i + 1) * units) for i, g in enumerate(group.gates)}


def _clipped(do: Steps, x: Value, limit: float) -> Value:
    return do("clip", x, -limit, limit) if limit > 0 else x


def _rounded(do: Steps, x: Value, kind: TensorType | None) -> Value:
    """The reals nearest to x that a value of a type can hold."""
    if kind is None or kind.quant is None:
        return x
    return requantized(do.state, _stored(do, x, kind), x.type)


def _by_row(do: Steps, h: Value) -> Value:
    """Rows rounded to multiples of a 127th of their greatest magnitude."""
    step = do("div", do.reduce("reduce_max", do("abs", h), [1], keep=True), 127)
    return do.where(do("equal", step, 0), 0, do("mul", do("round", do("div", h, step)), step))

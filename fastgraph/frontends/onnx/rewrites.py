"""Operators of ai.onnx whose canonical form is not just their own with all defaults written out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Graph, Node, Value
from .call import Call, Rule


def _constant(c: Call, **attrs: Any) -> Value:
    given = {name: value for name, value in attrs.items() if value is not None}
    if len(given) != 1:
        c.fail(f"expected exactly one of {sorted(attrs)}, found {sorted(given) or 'none'}")
    ((name, data),) = given.items()
    dtypes = {"float": np.float32, "int": np.int64, "string": object}
    value = c.const(data, dtype=dtypes.get(name.removeprefix("value_").rstrip("s")))
    c.made.append(value)
    return c.in_format(value, c.formats.get(name, ""))


def _constant_of_shape(c: Call, x: Value, value: np.ndarray | None) -> Value:
    number = np.zeros(1, np.float32) if value is None else value
    if number.size != 1:
        c.fail(f"expected its attribute 'value' with one element, found shape {list(number.shape)}")
    return c("constant_of_shape", x, value=number.reshape(1))


def _non_max_suppression(c: Call, *_: Value, **attrs: Any) -> Value:
    """The boxes of each class, in as many places as there may be; then those that there are."""
    places, _n = c.several("non_max_suppression", 2, *c.inputs, **attrs)
    return c("listed_places", places)


def _dropout(c: Call, x: Value, ratio: Value | None, training: Value | None, **attrs: Any) -> list[Value]:
    keeps = ratio is not None and ratio.data is not None and ratio.data.size == 1 and not ratio.data.any()
    if training is not None and not keeps and (training.data is None or training.data.any()):
        return c.several("dropout", len(c.outputs), *c.inputs, **attrs)
    return [x, c("constant_of_shape", c.extents(x), value=np.ones(1, bool))] if len(c.outputs) > 1 else [x]


def _formatted(op: str, attr: str = "", like: int = -1) -> Rule:
    """Operators that round to an element type: `format` names the type when NumPy lacks it.

    The type is that of the attribute, else of input `like`.
    """

    def rule(c: Call, *_: Value, **attrs: Any) -> Value:
        told = attrs.get(attr) is not None
        name = c.formats.get(attr, "") if told else c.format_of(c.input(like) if like >= 0 else None)
        return c.in_format(c(op, *c.inputs, **attrs, format=name), name)

    return rule


def _bit_cast(c: Call, x: Value, to: np.dtype) -> Value:
    name = c.formats.get("to", "")
    return c.in_format(c("bit_cast", x, to=to, format=name, from_format=c.format_of(x)), name)


def _recurrent(op: str, *activations: str) -> Rule:
    def rule(c: Call, *inputs: Any, **attrs: Any) -> list[Value]:
        counts = {"forward": 1, "reverse": 1, "bidirectional": 2}
        if attrs["direction"] not in counts:
            c.fail(f"expected direction as one of {sorted(counts)}, found {attrs['direction']!r}")
        directions = counts[attrs["direction"]]
        names, count = attrs["activations"] or activations * directions, len(activations) * directions
        if op == "rnn" and len(names) == 2:  # the schema's default, which one direction may have too
            names = names[:count]
        if len(names) != count:
            c.fail(f"expected {count} activations, found {len(names)}")
        attrs["activations"] = names
        for name in ("activation_alpha", "activation_beta"):
            attrs[name] = attrs[name] or ()
        recurrence = inputs[2].data
        if attrs["hidden_size"] is None and recurrence is not None and recurrence.ndim == 3:
            attrs["hidden_size"] = recurrence.shape[2]
        states = [_begun(c, state, inputs[4], attrs["layout"]) for state in inputs[5:7]]
        return c.several(op, len(c.outputs), *inputs[:5], *states, *inputs[7:], **attrs)

    return rule


def _begun(c: Call, state: Value | None, lengths: Value | None, layout: int) -> Value | None:
    """An initial state, zeros in the rows that have no steps: their last states are zeros, as in onnxruntime."""
    if state is None or lengths is None or lengths.data is not None and lengths.data.all():
        return state
    steps = c.reshape(c.cast(lengths, bool), -1, 1, *[1] * layout)
    return c.choose(steps, state, 0.0)


def _check_body(c: Call, name: str, body: Graph, inputs: int, outputs: int) -> None:
    if len(body.inputs) != inputs:
        c.fail(f"expected {inputs} inputs of its graph {name!r}, found {len(body.inputs)}")
    if len(body.outputs) < outputs:
        c.fail(f"expected {outputs} outputs of its graph {name!r}, found {len(body.outputs)}")


def _if(c: Call, condition: Value, **branches: Graph) -> list[Value]:
    count = max(len(c.outputs), *(len(branch.outputs) for branch in branches.values()))
    for name, branch in branches.items():
        _check_body(c, name, branch, 0, count)
    return c.several("if", count, condition, **branches)


def _loop(c: Call, *inputs: Value | None, body: Graph) -> list[Value]:
    _check_body(c, "body", body, len(inputs), 1 + max(len(inputs) - 2, len(c.outputs)))
    return c.several("loop", len(body.outputs) - 1, *inputs, body=body)


def _scan(c: Call, *inputs: Value | None, body: Graph, num_scan_inputs: int, **attrs: Any) -> list[Value]:
    states = len(inputs) - num_scan_inputs
    if num_scan_inputs < 1 or states < 0:
        c.fail(f"expected num_scan_inputs from 1 to {len(inputs)}, found {num_scan_inputs}")
    _check_body(c, "body", body, len(inputs), max(states, len(c.outputs)))
    attrs |= {"body": body, "num_scan_inputs": num_scan_inputs}
    for kind, count in (("input", num_scan_inputs), ("output", len(body.outputs) - states)):
        for name in (f"scan_{kind}_axes", f"scan_{kind}_directions"):
            attrs[name] = attrs[name] or (0,) * count
            if len(attrs[name]) != count:
                c.fail(f"expected {count} items in its attribute {name!r}, found {len(attrs[name])}")
    if c.version >= 9:
        return c.several("scan", len(body.outputs), *inputs, **attrs)
    # operator set 8 scanned every member of a batch: a scan over the batch around the scan
    members = [Value(f"{c.name}:in{i}") for i in range(len(inputs))]
    results = [Value(f"{c.name}:out{i}") for i in range(len(body.outputs))]
    whole = Graph(c.name, members, results, [Node("scan", list(members), results, attrs, c.name)])
    outer: dict[str, Any] = {"body": whole, "num_scan_inputs": len(members)}
    for kind, values in (("input", members), ("output", results)):
        outer |= {f"scan_{kind}_{name}": (0,) * len(values) for name in ("axes", "directions")}
    return c.several("scan", len(results), *inputs, **outer)


def _sequence_map(c: Call, *inputs: Value, body: Graph) -> list[Value]:
    _check_body(c, "body", body, len(inputs), len(c.outputs))
    return c.several("sequence_map", len(body.outputs), *inputs, body=body)


REWRITES: dict[str, Rule] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda c, x: x,
    "NonMaxSuppression": _non_max_suppression,
    "Dropout": _dropout,
    "Cast": _formatted("cast", "to"),
    "CastLike": _formatted("cast_like", like=1),
    "QuantizeLinear": _formatted("quantize_linear", "output_dtype", like=2),
    "BitCast": _bit_cast,
    "RNN": _recurrent("rnn", "Tanh"),
    "GRU": _recurrent("gru", "Sigmoid", "Tanh"),
    "LSTM": _recurrent("lstm", "Sigmoid", "Tanh", "Tanh"),
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}

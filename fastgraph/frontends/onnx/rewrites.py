"""Operators of ai.onnx whose canonical form is not just their own with all defaults written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import Graph, Node, Value
from .call import Call, shape_of

Attrs = dict[str, Any]
Rule = Callable[[Call, Attrs], Value | list[Value]]


def _constant(call: Call, attrs: Attrs) -> Value:
    given = {name: value for name, value in attrs.items() if value is not None}
    if len(given) != 1:
        call.fail(f"expected exactly one of {sorted(attrs)}, found {sorted(given) or 'none'}")
    ((name, data),) = given.items()
    dtypes = {"float": np.float32, "int": np.int64, "string": object}
    kind = name.removeprefix("value_").rstrip("s")
    value = call.const(data, dtype=dtypes.get(kind))
    if call.formats.get(name):
        call.reader.formats[value] = call.formats[name]
    call.made.append(value)
    return value


def _constant_of_shape(call: Call, attrs: Attrs) -> Value:
    value = np.zeros(1, np.float32) if attrs["value"] is None else attrs["value"]
    if value.size != 1:
        call.fail(f"expected its attribute 'value' with one element, found shape {list(value.shape)}")
    return call.add("constant_of_shape", [call.x(0)], value=value.reshape(1))


def _non_max_suppression(call: Call, attrs: Attrs) -> Value:
    """The boxes of each class, in as many places as there may be; then those that there are."""
    places, _ = call.add_many("non_max_suppression", call.inputs, attrs, 2)
    return call.add("listed_places", [places])


def _identity(call: Call, attrs: Attrs) -> Value:
    return call.x(0)


def _dropout(call: Call, attrs: Attrs) -> list[Value]:
    ratio, training = call.input(1), call.input(2)
    keeps = ratio is not None and ratio.data is not None and ratio.data.size == 1 and not ratio.data.any()
    if training is not None and not keeps and (training.data is None or training.data.any()):
        return call.add_many("dropout", call.inputs, attrs, len(call.outputs))
    outputs = [call.x(0)]
    if len(call.outputs) > 1:
        outputs.append(call.add("constant_of_shape", [shape_of(call, call.x(0))], value=np.ones(1, bool)))
    return outputs


def _gemm(call: Call, attrs: Attrs) -> Value:
    trans = {"trans_a": attrs["transA"], "trans_b": attrs["transB"]}
    return call.add("gemm", call.inputs, alpha=attrs["alpha"], beta=attrs["beta"], **trans)


def _formatted(op: str, attr: str = "", like: int = -1) -> Rule:
    """Operators that round to an element type: `format` names the type when numpy lacks it.

    The type is that of the attribute, else of input `like`.
    """

    def rule(call: Call, attrs: Attrs) -> Value:
        source = call.input(like) if like >= 0 else None
        name = call.formats.get(attr, "") if attrs.get(attr) is not None else ""
        if attrs.get(attr) is None and source is not None:
            name = call.reader.formats.get(source, "")
        value = call.add(op, call.inputs, **attrs, format=name)
        if name:
            call.reader.formats[value] = name
        return value

    return rule


def _bit_cast(call: Call, attrs: Attrs) -> Value:
    source = call.reader.formats.get(call.x(0), "")
    name = call.formats.get("to", "")
    value = call.add("bit_cast", call.inputs, **attrs, format=name, from_format=source)
    if name:
        call.reader.formats[value] = name
    return value


def _simplified(call: Call, attrs: Attrs) -> Value:
    """What onnxruntime calls RMSNormalization in graphs that it optimized."""
    return call.add("rms_normalization", call.inputs, **attrs)


def _split(call: Call, attrs: Attrs) -> list[Value]:
    return call.add_many("split", call.inputs, attrs, len(call.outputs))


def _recurrent(op: str, *activations: str) -> Rule:
    def rule(call: Call, attrs: Attrs) -> list[Value]:
        counts = {"forward": 1, "reverse": 1, "bidirectional": 2}
        if attrs["direction"] not in counts:
            call.fail(f"expected direction as one of {sorted(counts)}, found {attrs['direction']!r}")
        directions = counts[attrs["direction"]]
        names, count = attrs["activations"] or activations * directions, len(activations) * directions
        if op == "rnn" and len(names) == 2:  # the schema's default, which one direction may have too
            names = names[:count]
        if len(names) != count:
            call.fail(f"expected {count} activations, found {len(names)}")
        attrs["activations"] = names
        for name in ("activation_alpha", "activation_beta"):
            attrs[name] = attrs[name] or ()
        recurrence = call.x(2).data
        if attrs["hidden_size"] is None and recurrence is not None and recurrence.ndim == 3:
            attrs["hidden_size"] = recurrence.shape[2]
        return call.add_many(op, call.inputs, attrs, len(call.outputs))

    return rule


def _check_body(call: Call, name: str, body: Graph, inputs: int | None, outputs: int) -> None:
    if inputs is not None and len(body.inputs) != inputs:
        call.fail(f"expected {inputs} inputs of its graph {name!r}, found {len(body.inputs)}")
    if len(body.outputs) < outputs:
        call.fail(f"expected {outputs} outputs of its graph {name!r}, found {len(body.outputs)}")


def _if(call: Call, attrs: Attrs) -> list[Value]:
    count = max(len(call.outputs), *(len(branch.outputs) for branch in attrs.values()))
    for name, branch in attrs.items():
        _check_body(call, name, branch, 0, count)
    return call.add_many("if", call.inputs, attrs, count)


def _loop(call: Call, attrs: Attrs) -> list[Value]:
    body = attrs["body"]
    inputs = call.inputs + [None] * (2 - len(call.inputs))
    _check_body(call, "body", body, len(inputs), 1 + max(len(inputs) - 2, len(call.outputs)))
    return call.add_many("loop", inputs, attrs, len(body.outputs) - 1)


def _scan(call: Call, attrs: Attrs) -> list[Value]:
    body, scanned = attrs["body"], attrs["num_scan_inputs"]
    states = len(call.inputs) - scanned
    if scanned < 1 or states < 0:
        call.fail(f"expected num_scan_inputs from 1 to {len(call.inputs)}, found {scanned}")
    _check_body(call, "body", body, len(call.inputs), max(states, len(call.outputs)))
    stacked = len(body.outputs) - states
    for name, count in (("scan_input_axes", scanned), ("scan_input_directions", scanned),
                        ("scan_output_axes", stacked), ("scan_output_directions", stacked)):  # fmt: skip
        attrs[name] = attrs[name] or (0,) * count
        if len(attrs[name]) != count:
            call.fail(f"expected {count} items in its attribute {name!r}, found {len(attrs[name])}")
    if call.version >= 9:
        return call.add_many("scan", call.inputs, attrs, len(body.outputs))
    # operator set 8 scanned every member of a batch: a scan over the batch around the scan
    slices = [Value(f"{call.name}:in{i}") for i in range(len(call.inputs))]
    results = [Value(f"{call.name}:out{i}") for i in range(len(body.outputs))]
    whole = Graph(call.name, slices, results, [Node("scan", list(slices), results, attrs, call.name)])
    ins, outs = (0,) * len(slices), (0,) * len(results)
    outer = {"body": whole, "num_scan_inputs": len(slices)}
    outer |= {"scan_input_axes": ins, "scan_input_directions": ins}
    outer |= {"scan_output_axes": outs, "scan_output_directions": outs}
    return call.add_many("scan", call.inputs, outer, len(results))


def _sequence_map(call: Call, attrs: Attrs) -> list[Value]:
    body = attrs["body"]
    _check_body(call, "body", body, len(call.inputs), len(call.outputs))
    return call.add_many("sequence_map", call.inputs, attrs, len(body.outputs))


REWRITES: dict[str, Rule] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "NonMaxSuppression": _non_max_suppression,
    "Dropout": _dropout,
    "Gemm": _gemm,
    "Cast": _formatted("cast", "to"),
    "CastLike": _formatted("cast_like", like=1),
    "QuantizeLinear": _formatted("quantize_linear", "output_dtype", like=2),
    "BitCast": _bit_cast,
    "SimplifiedLayerNormalization": _simplified,
    "Split": _split,
    "RNN": _recurrent("rnn", "Tanh"),
    "GRU": _recurrent("gru", "Sigmoid", "Tanh"),
    "LSTM": _recurrent("lstm", "Sigmoid", "Tanh", "Tanh"),
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}

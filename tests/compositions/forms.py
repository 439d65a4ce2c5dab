"""A composition in one of the forms that files have, with what other engines make of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Unimplemented
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

from tests.circle.write import litert
from tests.nets import by_onnxruntime, by_reference, graph_of

from . import nodes, rules_tflite, write_mil
from .check import Subject
from .composition import Composition, Op
from .quantized import Scheme, params
from .write_dynamic import Dynamic
from .write_mil import Mil
from .write_onnx import Writer
from .write_qdq import Quantized
from .write_qoperator import Operators
from .write_tflite import Declined, Flat

MOST = 1e4
"""A network that makes larger numbers shows rounding and nothing else."""


def says(form: str, net: Composition) -> bool:
    """Whether the form has all operators of the composition; some of them not with all attributes."""
    kinds = {op.kind for op in net.ops}
    if not form.startswith("onnx"):
        written = rules_tflite.KINDS if not form.startswith("mil") else write_mil.KINDS
        if not kinds <= set(written) or not form.startswith("mil") and of_volumes(net):
            return False
    return form.endswith("f32") or form == "mil f16" or not exact(net)


def of_volumes(net: Composition) -> bool:
    """Whether a value has places along three axes: flat files turn images only."""
    shapes = net.shapes()
    return any(op.kind in WINDOWS and len(shapes[op.inputs[0]]) == 5 for op in net.ops)


WINDOWS = {"conv", "conv_transpose", "max_pool", "average_pool", "lp_pool", "resize", "batch_norm", "instance_norm"}


def onnx_f32(net: Composition) -> Subject:
    feeds = net.feeds()
    values = trace(net, feeds)
    expected = [values[name] for name in net.outputs]
    source = Writer(net).model().SerializeToString()
    return Subject(source, feeds, {"onnxruntime": expected}, largest(values), engine=of_onnxruntime)


def trace(net: Composition, feeds: dict[str, np.ndarray], half: bool = False) -> dict[str, np.ndarray]:
    """Every value of the network, by onnxruntime, or by our references where it can't; of constants in f16."""
    names = list(dict.fromkeys([*net.made(), *net.outputs]))
    source = Writer(replace(net, open=""), half).model(names).SerializeToString()
    found = of_onnxruntime(source, feeds).get("onnxruntime")
    values = feeds | dict(zip(names, by_reference(graph_of(source), feeds) if found is None else found, strict=True))
    if nodes.undecided(net, values, 2e-6 * largest(values)):
        raise Declined("a number between two whole ones")
    if saturated(net, values) and any(op.kind == "select" for op in nodes.every(net)):
        raise Declined("the sign of a GELU that is 0 where a file writes it out")
    for op in net.ops:
        if op.kind == "inside":
            _rounds(op, values, half)
    return values


def _rounds(op: Op, values: dict[str, np.ndarray], half: bool) -> None:
    """Declined where numbers are too large within the rounds of a loop, calls of a function, or a branch."""
    for net in op.attrs["nets"]:
        (name,), x = net.inputs, values[op.inputs[op.attrs["how"] == "if"]]
        for _ in range(op.attrs.get("trips", 1)):
            x = trace(net, {name: x}, half)[net.outputs[0]]


def saturated(net: Composition, values: dict[str, np.ndarray]) -> bool:
    """Whether a GELU is taken of so small numbers that 1 + erf(x) is 0 in f32."""
    made = (op.outputs[0] for op in net.ops if op.kind == "gelu")
    return any(np.abs(values[name]).min(initial=1) < 1e-6 for name in made)


def of_onnxruntime(source: bytes, feeds: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Nothing where onnxruntime says that it can't run what it takes for a valid file."""
    try:
        return {"onnxruntime": by_onnxruntime(source, feeds)}
    except (RuntimeException, Unimplemented):
        return {}


def largest(values: dict[str, np.ndarray]) -> float:
    """Of all numbers; Declined where it is no number."""
    found = float(np.max([1.0, *(np.abs(v).max() for v in values.values() if v.dtype.kind == "f")]))
    if not found < MOST:
        raise Declined(f"numbers of {found:.2g}")
    return found


def qdq(scheme: Scheme, writer: type[Quantized] = Quantized) -> Callable[[Composition], Subject]:
    def form(net: Composition) -> Subject:
        feeds = net.feeds()
        _exact(net)
        values = trace(net, feeds)
        scale = largest(values)
        found = params(net, values, scheme)
        source = writer(net, found, scheme).model().SerializeToString()
        steps = [found[name].scale if name in found else 0.0 for name in net.outputs]
        return Subject(source, feeds, of_onnxruntime(source, feeds), scale, steps, engine=of_onnxruntime)

    return form


def onnx_dynamic(net: Composition) -> Subject:
    feeds = net.feeds()
    _exact(net)
    scale = largest(trace(net, feeds))
    source = Dynamic(net).model().SerializeToString()
    expected = of_onnxruntime(source, feeds)
    return Subject(source, feeds, expected, scale, [0.0] * len(net.outputs), engine=of_onnxruntime)


def _exact(net: Composition) -> None:
    """Which of two numbers is larger may depend on a unit, where those that were computed are rounded to few bits."""
    if exact(net):
        raise Declined("comparisons of rounded numbers")


def exact(net: Composition) -> bool:
    return any(
        op.kind == "arg" or (op.kind == "select" or nodes.exact(op)) and op.inputs[0] not in net.inputs
        for op in nodes.every(net)
    )


def flat(schema: str, numbers: str) -> Callable[[Composition], Subject]:
    """What LiteRT makes of the file; of one in f32, what onnxruntime made of the composition too."""

    def form(net: Composition) -> Subject:
        feeds = net.feeds()
        values = trace(net, feeds)
        scale = largest(values)
        found = params(net, values, Scheme(signed=True, apart=False)) if numbers == "int8" else {}
        if numbers != "f32":
            _exact(net)
        file = Flat(net, schema, numbers, found)
        source = file.bytes()
        given = {
            name: array.astype(np.int32) if net.inputs[name].below
            else file.params[name].stored(file.turned(array), True) if file.edges and name in file.params
            else file.turned(array)
            for name, array in feeds.items()
        }  # fmt: skip
        expected = {}
        if numbers in ("f32", "f16"):
            expected["onnxruntime"] = [values[name].transpose(file.order(name)) for name in net.outputs]
        expected |= by_litert(net, source, given) if schema == "tflite" else {}
        steps = [found[name].scale if name in found else 0.0 for name in net.outputs] if numbers != "f32" else []
        if file.edges:
            steps = [float(name in found) for name in net.outputs]
        return Subject(source, given, expected, scale, steps, 8.0)

    return form


def by_litert(net: Composition, source: bytes, feeds: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Nothing where LiteRT does not take the file."""
    try:
        return {"LiteRT": litert(source, [list(feeds.values())])[0]}
    except (RuntimeError, ValueError):
        return {}


def mil(dtype: Any) -> Callable[[Composition], Subject]:
    """Programs in f16 are computed in f32, so that only their constants and edges are rounded."""

    def form(net: Composition) -> Subject:
        half = dtype is np.float16
        feeds = {
            name: array.astype(np.int32) if net.inputs[name].below else array.astype(dtype)
            for name, array in net.feeds().items()
        }
        wide = {
            name: array.astype(np.int64 if array.dtype.kind == "i" else np.float32) for name, array in feeds.items()
        }
        values = trace(net, wide, half)
        scale = largest(values)
        expected = [values[name].astype(dtype) for name in net.outputs]
        steps = [2.0**-10 * float(np.abs(values[name]).max(initial=0)) for name in net.outputs] if half else []
        return Subject(Mil(net, dtype).bytes(), feeds, {"onnxruntime": expected}, scale, steps)

    return form


FORMS: dict[str, Callable[[Composition], Subject]] = {
    "onnx f32": onnx_f32,
    "onnx u8": qdq(Scheme()),
    "onnx s8": qdq(Scheme(signed=True)),
    "onnx u8 whole": qdq(Scheme(weights="u8", per_channel=False)),
    "onnx operators u8": qdq(Scheme(), Operators),
    "onnx operators s8": qdq(Scheme(signed=True, weights="s8"), Operators),
    "onnx dynamic": onnx_dynamic,
    "tflite f32": flat("tflite", "f32"),
    "circle f32": flat("circle", "f32"),
    "tflite f16": flat("tflite", "f16"),
    "tflite int8": flat("tflite", "int8"),
    "circle int8": flat("circle", "int8"),
    "tflite dynamic": flat("tflite", "dynamic"),
    "mil f32": mil(np.float32),
    "mil f16": mil(np.float16),
}

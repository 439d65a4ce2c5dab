"""A composition in one of the forms that files have, with what other engines make of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from circle.write import litert
from nets import session

from .check import Subject
from .composition import Composition
from .quantised import Scheme, params
from .write_onnx import Writer
from .write_qdq import Quantised
from .write_tflite import TO_LAST, Declined, Flat

MOST = 1e4
"""A network that makes larger numbers shows rounding and nothing else."""


def onnx_f32(net: Composition) -> Subject:
    feeds = net.feeds()
    values = trace(net, feeds)
    expected = [values[name] for name in net.outputs]
    return Subject(Writer(net).model().SerializeToString(), feeds, {"onnxruntime": expected}, largest(values))


def trace(net: Composition, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of the network, by onnxruntime."""
    names = list(dict.fromkeys([*net.made(), *net.outputs]))
    model = Writer(net).model(names)
    return feeds | dict(zip(names, session(model.SerializeToString()).run(None, feeds), strict=True))


def largest(values: dict[str, np.ndarray]) -> float:
    found = max([1.0, *(float(np.abs(v).max()) for v in values.values() if v.dtype.kind == "f")])
    if not found < MOST:
        raise Declined(f"numbers of {found:.2g}")
    return found


def qdq(scheme: Scheme) -> Callable[[Composition], Subject]:
    def form(net: Composition) -> Subject:
        feeds = net.feeds()
        values = trace(net, feeds)
        scale = largest(values)
        found = params(net, values, scheme)
        source = Quantised(net, found, scheme).model().SerializeToString()
        steps = [found[name].scale if name in found else 0.0 for name in net.outputs]
        return Subject(source, feeds, {"onnxruntime": session(source).run(None, feeds)}, scale, steps)

    return form


def flat(schema: str, numbers: str) -> Callable[[Composition], Subject]:
    """What LiteRT makes of the file; of one in f32, what onnxruntime made of the composition too."""

    def form(net: Composition) -> Subject:
        feeds = net.feeds()
        values = trace(net, feeds)
        scale = largest(values)
        found = params(net, values, Scheme(signed=True)) if numbers == "int8" else {}
        file = Flat(net, schema, numbers, found)
        source = file.bytes()
        given = {
            name: array.astype(np.int32) if net.inputs[name].below
            else np.ascontiguousarray(array.transpose(TO_LAST)) if array.ndim == 4 else array
            for name, array in feeds.items()
        }  # fmt: skip
        expected = {}
        if numbers in ("f32", "f16"):
            expected["onnxruntime"] = [values[name].transpose(file.order(name)) for name in net.outputs]
        expected |= by_litert(net, source, given) if schema == "tflite" else {}
        steps = [found[name].scale if name in found else 0.0 for name in net.outputs] if numbers != "f32" else []
        return Subject(source, given, expected, scale, steps, 4.0)

    return form


def by_litert(net: Composition, source: bytes, feeds: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Nothing where LiteRT does not take the file."""
    try:
        return {"LiteRT": litert(source, [list(feeds.values())])[0]}
    except (RuntimeError, ValueError):
        return {}


FORMS: dict[str, Callable[[Composition], Subject]] = {
    "onnx f32": onnx_f32,
    "onnx u8": qdq(Scheme()),
    "onnx s8": qdq(Scheme(signed=True)),
    "onnx u8 whole": qdq(Scheme(weights="u8", per_channel=False)),
    "tflite f32": flat("tflite", "f32"),
    "circle f32": flat("circle", "f32"),
    "tflite f16": flat("tflite", "f16"),
    "tflite int8": flat("tflite", "int8"),
    "circle int8": flat("circle", "int8"),
    "tflite dynamic": flat("tflite", "dynamic"),
}

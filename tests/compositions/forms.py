"""A composition in one of the forms that files have, with what other engines make of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nets import session

from .check import Subject
from .composition import Composition
from .quantised import Scheme, params
from .write_onnx import Writer
from .write_qdq import Quantised

MOST = 1e4
"""A network that makes larger numbers shows rounding and nothing else."""


class Declined(Exception):
    """A format can't say it, or no engine is there to compare with."""


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


FORMS: dict[str, Callable[[Composition], Subject]] = {
    "onnx f32": onnx_f32,
    "onnx u8": qdq(Scheme()),
    "onnx s8": qdq(Scheme(signed=True)),
    "onnx u8 whole": qdq(Scheme(weights="u8", per_channel=False)),
}

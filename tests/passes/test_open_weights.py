"""Convolutions whose weights are made at run time are native, and what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.plan.program import HostStep
from tests.nets import Net, assert_close, by_onnxruntime, by_reference, graph_of

SOME = settings(max_examples=40, deadline=None)


def _drawn(data: Any, transposed: bool) -> tuple[Net, dict[str, np.ndarray]]:
    rank = data.draw(st.integers(1, 3))
    groups, each, made = data.draw(st.sampled_from([(1, 3, 4), (2, 2, 3), (4, 1, 1), (4, 1, 2)]))
    kernel, strides, dilations = ([data.draw(st.integers(1, most)) for _ in range(rank)] for most in (3, 3, 2))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [data.draw(st.integers(0, min(2, r - 1))) for r in (*reach, *reach)]
    spatial = [r + data.draw(st.integers(0, 4)) for r in reach]
    weights = (groups * each, made, *kernel) if transposed else (groups * made, each, *kernel)
    attrs = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads}
    if transposed:
        attrs["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    rng, net = np.random.default_rng(data.draw(st.integers(0, 99))), Net()
    shapes = {"x": (2, groups * each, *spatial), "w": weights, "b": (groups * made,)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    given = [net.input(name, shapes[name]) for name in "xwb"[: data.draw(st.integers(2, 3))]]
    net.output(net("ConvTranspose" if transposed else "Conv", *given, **attrs))
    return net, {name: feeds[name] for name in given}


@given(st.data(), st.booleans())
@SOME
def test_convolutions(data: Any, transposed: bool) -> None:
    net, feeds = _drawn(data, transposed)
    source = net.bytes()
    model = fg.load(source, threads=2)
    assert not [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]
    found = list(model.run(feeds).values())
    assert_close(found, by_reference(graph_of(source), feeds), 1e-4)
    assert_close(found, by_onnxruntime(source, feeds), 1e-4)

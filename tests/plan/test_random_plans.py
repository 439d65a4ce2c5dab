"""The native program agrees with the references and with onnxruntime on random networks, and its memory is safe."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from nets import assert_close, by_onnxruntime, by_reference, graph_of
from random_nets import Case, examples, magnitude, networks

import fastgraph as fg


@examples(60)
@given(networks())
def test_native_agrees(case: Case) -> None:
    source, feeds = case.source, case.feeds
    rtol = 3e-5 * magnitude(source, feeds)
    if not rtol < 1e3:
        return
    expected = by_onnxruntime(source, feeds)
    assert_close(by_reference(graph_of(source), feeds), expected, rtol, "reference")
    kept = {name: array.copy() for name, array in feeds.items()}
    model = fg.load(source, threads=1)
    first = list(model.run(feeds).values())
    assert_close(first, expected, rtol, "native")
    for name, array in kept.items():
        np.testing.assert_array_equal(feeds[name], array)
    again = list(model.run(feeds).values())
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)

"""The native program agrees with the references and with onnxruntime on random networks, and its memory is safe."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given

import fastgraph as fg
from tests.nets import assert_close, by_onnxruntime, by_reference, graph_of
from tests.plan.step_by_step import check_steps, poison
from tests.random_nets import Case, examples, magnitude, networks

pytestmark = pytest.mark.slow


@examples(50)
@given(networks())
def test_native_agrees(case: Case) -> None:
    """With poisoned memory, twice, on one and on three threads: always the same bits, and inputs stay."""
    source, feeds = case.source, case.feeds
    rtol = 3e-5 * magnitude(source, feeds)
    if not rtol < 1e3:
        return
    expected = by_onnxruntime(source, feeds)
    assert_close(by_reference(graph_of(source), feeds), expected, rtol, "reference")
    kept = {name: array.copy() for name, array in feeds.items()}
    model = fg.load(source, threads=1)
    poison(model.plan)
    first = list(model.run(feeds).values())
    assert_close(first, expected, rtol, "native")
    again = list(model.run(feeds).values())
    three = list(fg.load(source, threads=3).run(feeds).values())
    for a, b, c in zip(first, again, three, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    for name, array in kept.items():
        np.testing.assert_array_equal(feeds[name], array)
        np.testing.assert_array_equal(model.input(name), array, "execute changed an input")


@examples(50)
@given(networks())
def test_every_step_keeps_to_its_own(case: Case) -> None:
    rtol = 1e-4 * magnitude(case.source, case.feeds)
    if rtol < 1e3:
        check_steps(fg.load(case.source, threads=1).plan, case.feeds, partial(assert_close, rtol=rtol))

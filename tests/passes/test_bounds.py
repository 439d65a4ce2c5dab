"""Values whose extents hang on data are planned at the most that there may be: right for every extent, and native."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from tests.nets import by_onnxruntime
from tests.passes.bounded_nets import feeds, network

LEVELS = (-np.inf, -2.0, 0.0, 3.0, np.inf)
"""All counts, much, half, little, nothing."""


def outcome(run: Any) -> Any:
    try:
        return run()
    except Exception as error:
        return error


def same(found: Any, wanted: Any, what: str) -> None:
    """Outputs agree: integers just so, floats to the rounding of their sums."""
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, output {i}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        np.testing.assert_allclose(a, b, 1e-5, 1e-5, equal_nan=True, err_msg=f"{what}, output {i}")


@given(st.data(), st.sampled_from(["generic", "avx2", None]), st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_random_networks(data: Any, isa: str | None, threads: int) -> None:
    source = network(data.draw).bytes()
    model, plain = fg.load(source, isa=isa, threads=threads), fg.load(source, isa="numpy")
    for seed, level in enumerate(LEVELS):
        given_ = feeds(seed, level)
        found, wanted = (outcome(lambda m=m: list(m.run(given_).values())) for m in (model, plain))
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            assert isinstance(wanted, fg.FastgraphError) and isinstance(found, fg.FastgraphError), (found, wanted)
            continue
        same(found, wanted, f"level {level}, as NumPy has it")
        other = outcome(lambda: by_onnxruntime(source, given_))  # noqa: B023
        if not isinstance(other, Exception):
            # The mean of nothing is not said to be anything: 0 there, NaN here.
            known = [not np.isnan(a).any() for a in found]
            both = ([a for a, k in zip(arrays, known, strict=True) if k] for arrays in (found, other))
            same(*both, f"level {level}, as onnxruntime has it")

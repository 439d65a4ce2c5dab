"""Values whose extents hang on data are planned at the most that there may be: right for every extent, and native."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from tests.nets import by_onnxruntime
from tests.passes.bounded_nets import feeds, network

LEVELS = (-np.inf, -2.0, 0.0, 3.0, np.inf)
"""All counts, much, half, little, nothing."""


def outcome(run: Any, *given: Any) -> Any:
    try:
        return run(*given)
    except Exception as error:
        return error


def same(found: Any, wanted: Any, what: str) -> None:
    """Outputs agree: integers just so, floats to the rounding of their sums."""
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, output {i}: {a.shape}, not {b.shape}"
        np.testing.assert_allclose(a, b, 1e-5, 1e-5, equal_nan=True, err_msg=f"{what}, output {i}")


@given(st.data(), st.sampled_from(["generic", "avx2", None]), st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_random_networks(data: Any, isa: str | None, threads: int) -> None:
    source = network(data.draw).bytes()
    model, plain = fg.load(source, isa=isa, threads=threads), fg.load(source, isa="numpy")
    for seed, level in enumerate(LEVELS):
        fed = feeds(seed, level)
        found, wanted = list(model.run(fed).values()), list(plain.run(fed).values())
        same(found, wanted, f"level {level}, as NumPy has it")
        other = outcome(by_onnxruntime, source, fed)
        if not isinstance(other, Exception):
            # The mean of nothing is not said to be anything: 0 there, NaN here.
            known = [not np.isnan(a).any() for a in found]
            both = ([a for a, k in zip(arrays, known, strict=True) if k] for arrays in (found, other))
            same(*both, f"level {level}, as onnxruntime has it")

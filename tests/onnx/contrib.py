"""What the tests of onnxruntime's own operators share: a net run by it and here, and the steps that NumPy took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.plan.program import HostStep
from tests.nets import Net, by_onnxruntime

MS = "com.microsoft"
U8, S8, F32 = np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.float32)


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """All numbers of an integer type, or floats around 0."""
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def hosts(model: fg.Model) -> list[str]:
    """The operators that NumPy computes in a plan."""
    return [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]


def agree(net: Net, feeds: Mapping[str, Any], quanta: int = 1, rtol: float = 1e-5, numpy: Sequence[str] = ()) -> None:
    """The net gives what onnxruntime gives, and NumPy computes these operators of it.

    Integers of 8 bits may be `quanta` off, where one in fifty is: reals are rounded once here, and in f32 there.
    """
    expected = by_onnxruntime(net.bytes(), feeds)
    model = net.load()
    for want, have in zip(expected, model.run(dict(feeds)).values(), strict=True):
        compare(have, want, quanta, rtol)
    assert sorted(set(hosts(model))) == sorted(numpy)


def compare(have: np.ndarray, want: np.ndarray, quanta: int, rtol: float) -> None:
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(have, want, rtol=0, atol=rtol * max(1, float(np.abs(want).max(initial=0))))
    elif want.dtype in (U8, S8):
        off = np.abs(have.astype(int) - want.astype(int))
        assert off.max(initial=0) <= quanta and (off > 0).sum() <= max(1, off.size // 50), off.max(initial=0)
    else:
        np.testing.assert_array_equal(have, want)

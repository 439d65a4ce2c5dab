"""Chains over stored numbers: as they are read, computed with and rounded, between guard bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.pointwise.elementwise_shape import broadcast, loops, strides_of
from fastgraph.plan.lower.walk import Out
from tests.kernels.harness import each_tier
from tests.kernels.walking import TYPES, elementwise


def walked(chain: tuple, xs: list, out: Out, tier: Any, threads: int = 1, offset: int = 4, pad: int = 0) -> np.ndarray:
    """The result of a chain; rows of y and of whole operands lie `pad` elements apart."""
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    wide = [np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)]) if x.shape == shape else x for x in xs]
    strides = [broadcast(x.shape, strides_of(x.shape, w.shape[-1]), shape) for x, w in zip(xs, wide, strict=True)]
    plan = loops(shape, strides_of(shape, shape[-1] + pad), strides)
    assert plan is not None
    y = np.full((*shape[:-1], shape[-1] + pad), 7, TYPES[out.element])
    got = elementwise(chain, plan, y, wide, tier, threads, offset, out)
    assert y.dtype == got.dtype and (got[..., shape[-1] :] == y[..., shape[-1] :]).all()
    return got[..., : shape[-1]]


def added(a: float, b: float, c: float) -> tuple:
    """x * a + (w * b + c) of two tensors."""
    return (("fma", 1, b, c), ("fma", 0, a, 2))


def fma(tier: Any, a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c in f32 as the tier has it: the product of a byte and an f32 is exact in f64."""
    if tier.fma:
        return (np.asarray(a, float) * np.float32(b) + np.asarray(c, float)).astype(np.float32)
    return np.asarray(a, np.float32) * np.float32(b) + np.asarray(c, np.float32)


def stored(v: np.ndarray, zero: int, low: int, high: int, dtype: Any) -> np.ndarray:
    """clamp(rint(v) + zero, low, high)."""
    return np.clip(np.rint(v.astype(float)) + zero, low, high).astype(dtype)


def bytes_of(shape: tuple, seed: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).view(dtype)


SUMS = [("u8", "u8", "u8", "full", False), ("u8", "u8", "u8", "channel", True), ("s8", "u8", "s8", "row", True),
        ("s8", "s8", "u8", "full", False), ("s8", "s8", "s8", "full", True)]  # fmt: skip
"""Types of x, w and y, how w is spread, whether limits are narrower than y's type."""


@each_tier
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_sum_of_bytes_is_rounded_once(tier, draw_from):
    draw = draw_from.draw
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 150))
    one, other, out, spread, narrower = draw(st.sampled_from(SUMS))
    x = bytes_of((rows, cols), cols, TYPES[one])
    w = bytes_of({"full": (rows, cols), "channel": (1, cols), "row": (rows, 1)}[spread], rows, TYPES[other])
    a, b, c = (draw(st.floats(-3, 3, width=32)) for _ in range(3))
    dtype = TYPES[out]
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero, low = draw(st.integers(least, most)), draw(st.integers(least, most))
    low, high = (low, draw(st.integers(low, most))) if narrower else (least, most)
    how = {"threads": draw(st.integers(1, 3)), "offset": draw(st.sampled_from([0, 1, 4, 37])),
           "pad": draw(st.sampled_from([0, 3]))}  # fmt: skip
    got = walked(added(a, b, 100 * c), [x, w], Out(out, zero, low, high), tier, **how)
    want = stored(fma(tier, x, a, fma(tier, w, b, 100 * c)), zero, low, high, dtype)
    assert np.array_equal(got, want)


@each_tier
def test_in_place(tier):
    x, w = bytes_of((3, 777), 1), bytes_of((3, 777), 2)
    want = stored(fma(tier, x, 0.5, fma(tier, w, 0.25, -3)), 9, 0, 255, np.uint8)
    plan = loops((2331,), (1,), [(1,), (1,)])
    x, w = x.ravel(), w.ravel()
    got = elementwise(added(0.5, 0.25, -3.0), plan, x, [x, w], tier, 2, out=Out("u8", 9, 0, 255))
    assert np.array_equal(got, want.ravel())


@each_tier
@pytest.mark.parametrize("source", ["u8", "s8", "i16", "u16", "i32", "bool"])
def test_every_type_is_read_as_f32(tier, source):
    x = np.random.default_rng(0).integers(-40000, 40000, (2, 100)).astype(TYPES[source])
    for chain in ((), (("mul", 0, 1.0),)):
        assert np.array_equal(walked(chain, [x], Out(), tier, pad=1), x.astype(np.float32))


@each_tier
@pytest.mark.parametrize("out", ["u8", "s8", "i16", "bool"])
def test_any_f32_is_held_in_the_type(tier, out):
    x = np.float32(np.random.default_rng(0).standard_normal((2, 101)) * 300)
    x[0, :9] = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, 1.5, -0.5, -0.0]
    if out == "bool":
        assert np.array_equal(walked((), [x], Out(out), tier), x != 0)
        return
    limits = np.iinfo(TYPES[out])
    got = walked((), [x], Out(out, 3, limits.min, limits.max), tier)
    want = stored(np.nan_to_num(x.astype(float), nan=-np.inf), 3, limits.min, limits.max, TYPES[out])
    assert np.array_equal(got, want) and got[0, 0] == limits.min

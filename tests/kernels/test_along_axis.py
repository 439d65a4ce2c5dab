"""Reductions, softmax, normalizations and places of extremes along an axis against NumPy in f64."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_bf16 import rounded
from fastgraph.kernels.isa.tiers import BY_NAME, has_pairs
from tests.kernels.harness import drawn, each_tier, f32_bits, noise, run
from tests.kernels.walking import walk_of

REDUCE, SOFTMAX, NORM, EXTREME = map(row, ("reduce", "softmax", "norm", "arg_extreme"))
needs_pairs = pytest.mark.skipif(not has_pairs(BY_NAME["avx512"]), reason="no avx512bf16")
Meaning = Callable[..., np.ndarray]
REDUCTIONS: dict[str, Meaning] = {
    "sum": np.sum,
    "mean": np.mean,
    "sum_square": lambda x, axis: np.sum(x * x, axis),
    "sum_abs": lambda x, axis: np.sum(np.abs(x), axis),
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "log_sum_exp": lambda x, axis: np.logaddexp.reduce(x, axis=axis),
}


def same(call: Callable[[int], np.ndarray]) -> np.ndarray:
    """What a call gives on any number of threads."""
    first, *others = (call(threads) for threads in (1, 2, 3))
    assert all(first.tobytes() == other.tobytes() for other in others)
    return first


def shape_of(pick: Random) -> tuple[int, int, int]:
    """[outer, n, inner]: the last axis, or one before others."""
    if pick.choice((True, False)):
        return pick.randint(1, 50), pick.choice((pick.randint(1, 12), pick.randint(1, 129))), 1
    return pick.randint(1, 9), pick.randint(1, 20), pick.randint(1, 140)


def extremes() -> np.ndarray:
    x = noise(7, 70) * 5
    x[0, 3], x[1, 65], x[2], x[3, 10:] = np.nan, np.inf, -np.inf, -np.inf
    x[4], x[5], x[6, 1] = 3e38, -3e38, 300
    return x


def reduced(x: np.ndarray, op: str, tier: Any, threads: int = 1, chain: tuple = ()) -> np.ndarray:
    """The kernel over the middle axis of [outer, n, inner]."""
    (outer, n, inner), kind = x.shape, x.dtype.kind
    narrow = x.dtype == BFLOAT16
    y, divisor = np.full((outer, inner), 7, np.float32 if narrow else x.dtype), f32_bits(n if op == "mean" else 1)
    sizes = {"outer": outer, "n": n, "inner": inner, "signed": kind == "i", "divisor": divisor}
    element = "bf16" if narrow else f"{'f' if kind == 'f' else 'i'}{8 * x.itemsize}"
    params = {"element": element, "op": op.replace("mean", "sum")}
    return run(REDUCE, params, REDUCE.args.filled(y=y, x=x, **sizes, **walk_of(chain, tier)), tier, threads)[0]


@each_tier
@pytest.mark.parametrize("op", REDUCTIONS)
@drawn(24)
def test_reductions(tier: Any, op: str, pick: Random) -> None:
    """The error is a few ulps of what a sum of absolute values would be."""
    x = noise(*shape_of(pick)) + np.float32(0.5)
    got, wide = same(lambda threads: reduced(x, op, tier, threads)), x.astype(float)
    want = REDUCTIONS[op](wide, 1)
    size = np.abs(want) if op in ("prod", "max", "min") else np.abs(wide).sum(1) + np.abs(want)
    size = size / x.shape[1] if op == "mean" else size
    assert (np.abs(got - want) <= 1e-6 * size + 1e-37).all()


@each_tier
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_of_extremes(tier: Any, op: str) -> None:
    x = extremes()[:4]
    with np.errstate(all="ignore"):
        want = REDUCTIONS[op](x.astype(float), 1)
    for inner in (1, 3):
        assert np.allclose(reduced(x[:, :, None].repeat(inner, 2), op, tier)[:, -1], want, rtol=1e-5, equal_nan=True)


@each_tier
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_nan_at_any_place_makes_the_extreme_nan(tier: Any, op: str, sign: int) -> None:
    """Also where later numbers are greater; rows, and columns beside others, of blocks, vectors and a rest."""
    for n in (1, 3, 21, 64, 101):
        x = noise(n + 1, n)
        x[range(n), range(n)] = np.copysign(np.float32(np.nan), np.float32(sign))
        want = REDUCTIONS[op](x, 1)
        assert np.array_equal(reduced(x[:, :, None], op, tier)[:, 0], want, equal_nan=True), n
        assert np.array_equal(reduced(x.T[None].copy(), op, tier)[0], want, equal_nan=True), n


@each_tier
def test_reductions_of_nothing(tier: Any) -> None:
    empty = {op: reduced(np.zeros((2, 0, 1), np.float32), op, tier)[0, 0] for op in REDUCTIONS}
    assert np.isnan(empty.pop("mean"))
    assert [empty[op] for op in ("sum", "sum_square", "sum_abs", "prod")] == [0, 0, 0, 1]
    assert [empty[op] for op in ("max", "min", "log_sum_exp")] == [-np.inf, np.inf, -np.inf]


@needs_pairs
@drawn(30)
def test_sums_of_bf16(pick: Random) -> None:
    """The same as of f32."""
    tier, op, bits = BY_NAME["avx512"], pick.choice(("sum", "mean")), rounded(noise(*shape_of(pick)))
    got = same(lambda threads: reduced(bits.view(BFLOAT16), op, tier, threads))
    np.testing.assert_array_equal(got, reduced(widened(bits), op, tier))


@each_tier
@pytest.mark.parametrize("inner", [1, 5])
def test_a_chain_ends_a_reduction(tier: Any, inner: int) -> None:
    x, chain = noise(3, 40, inner), (("sqrt", 0), ("mul", 1, 2.0))
    want = 2 * np.linalg.norm(x, axis=1)
    assert np.allclose(reduced(x, "sum_square", tier, chain=chain), want, rtol=1e-6)


@each_tier
@pytest.mark.parametrize("element", ["u1", "i1", "i4", "u4", "i8", "u8", "f8"])
@drawn(12)
def test_reductions_of_other_elements(tier: Any, element: str, pick: Random) -> None:
    """Whole numbers as NumPy has them, f64 as exact as its sums."""
    dtype, shape = np.dtype(element), shape_of(pick)
    bits = np.random.default_rng(shape[1]).integers(0, 256, (*shape[:2], shape[2] * dtype.itemsize)).astype(np.uint8)
    x = bits.view(dtype) if dtype.kind != "f" else noise(*shape).astype(dtype)
    for op in ("max", "min") if dtype.itemsize == 1 else ("max", "min", "sum", "prod"):
        want = getattr(np, op)(x, 1, **({"dtype": dtype} if op in ("sum", "prod") else {}))
        got = same(lambda threads, op=op: reduced(x, op, tier, threads))
        assert np.allclose(got, want, rtol=1e-13, atol=1e-13) if dtype.kind == "f" else np.array_equal(got, want)


@each_tier
@pytest.mark.parametrize("element", ["u1", "i1", "u4", "i4", "u8", "i8", "f4", "f8"])
@drawn(15)
def test_places_of_extremes(tier: Any, element: str, pick: Random) -> None:
    dtype, (outer, n, inner), seed = np.dtype(element), shape_of(pick), pick.randint(0, 9)
    numbers = np.random.default_rng(seed).integers(0, 256, (outer, n, inner)).astype(np.uint8)
    x = numbers.view(np.int8 if dtype.kind != "u" else np.uint8).astype(dtype)
    if dtype.kind == "f" and seed > 4:
        x[:, n // 2 :: 7] = np.nan
    elif dtype.kind != "f" and dtype.itemsize > 1:
        x <<= 8 * dtype.itemsize - 8
    least, last, name = (
        pick.randint(0, 1),
        pick.randint(0, 1),
        f"{'f' if dtype.kind == 'f' else 'i'}{8 * dtype.itemsize}",
    )
    how = {"outer": outer, "n": n, "inner": inner, "least": least, "last": last, "signed": dtype.kind == "i"}
    args = EXTREME.args.filled(y=np.full((outer, inner), -7, np.int64), x=x, **how)
    got, find = run(EXTREME, {"element": name}, args, tier, threads=2)[0], np.argmin if least else np.argmax
    assert np.array_equal(got, n - 1 - find(x[:, ::-1], axis=1) if last else find(x, axis=1))


# -- softmax


def softmax(x: np.ndarray, log: bool, tier: Any, threads: int = 1, offset: int = 4, over: Any = None) -> np.ndarray:
    """The kernel over the middle axis of [outer, n, inner]."""
    outer, n, inner = x.shape
    y = np.full(x.shape, 7, np.float32) if over is None else over
    args = SOFTMAX.args.filled(y=y, x=x, outer=outer, n=n, inner=inner)
    return run(SOFTMAX, {"log": log}, args, tier, threads, offset)[0]


def check_softmax(got: np.ndarray, x: np.ndarray, log: bool) -> None:
    """In f64, but for the shift: an f32 difference is what every softmax in f32 begins with."""
    with np.errstate(all="ignore"):
        x = (x - x.max(1, keepdims=True)).astype(float)
        e = np.exp(x)
        want = x - np.log(e.sum(1, keepdims=True)) if log else e / e.sum(1, keepdims=True)
    assert np.allclose(got, want, rtol=7e-7, atol=2e-6 if log else 1e-30, equal_nan=True)


@each_tier
@pytest.mark.parametrize("log", [False, True])
@drawn(50)
def test_softmax(tier: Any, log: bool, pick: Random) -> None:
    x, offset = noise(*shape_of(pick)) * np.float32(pick.choice((0.1, 5.0, 100.0))), pick.choice((0, 4, 36))
    check_softmax(same(lambda threads: softmax(x, log, tier, threads, offset)), x, log)


@each_tier
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_extremes(tier: Any, log: bool) -> None:
    for inner in (1, 3, 4, 40):
        x = extremes()[:, :, None].repeat(inner, 2)
        got = softmax(x, log, tier)
        check_softmax(got, x, log)
        assert log or (got[3, 10:] == 0).all()


@each_tier
@pytest.mark.parametrize("inner", range(1, 10))
def test_softmax_in_place(tier: Any, inner: int) -> None:
    for n in (1, 2, 7, 70):
        x = noise(5, n, inner)
        check_softmax(softmax(x, False, tier, over=x), noise(5, n, inner), False)


# -- normalizations

OUTS = {"f32": np.float32, "bf16": np.uint16}


def normalized(
    x: np.ndarray, bias: Any, centered: bool, tier: Any, threads: int = 1, gap: int = 2, out: str = "f32"
) -> np.ndarray:
    """Of rows that lie `gap` apart, by a scale that is their first one."""
    rows, n = x.shape
    wide, y = np.pad(x, [(0, 0), (0, gap)], constant_values=7), np.full((rows, n + gap), 5, OUTS[out])
    sizes = {"rows": rows, "n": n, "y_row": y.strides[0], "x_row": wide.strides[0], "inverse": f32_bits(1 / n)}
    memory = {"y": y, "x": wide, "scale": noise(n), "bias": 0 if bias is None else bias, "centered": centered}
    record = NORM.args.filled(**memory, **sizes, epsilon=f32_bits(1e-3))
    y = run(NORM, {"out": out}, record, tier, threads)[0]
    assert (y[:, n:] == 5).all()
    return y[:, :n]


@each_tier
@pytest.mark.parametrize("centered", [False, True])
@drawn(25)
def test_normalizations(tier: Any, centered: bool, pick: Random) -> None:
    rows, n, gap = pick.randint(1, 9), pick.randint(1, 150), pick.randint(0, 3)
    x, bias = noise(rows, n) * np.float32(3) + np.float32(1), pick.choice((None, noise(n)[::-1].copy()))
    got, wide = same(lambda threads: normalized(x, bias, centered, tier, threads, gap)), x.astype(float)
    wide = wide - wide.mean(1, keepdims=True) if centered else wide
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-3) * noise(n) + (0 if bias is None else bias)
    assert np.allclose(got, want, atol=2e-5)


@needs_pairs
@drawn(20)
def test_normalizations_to_bf16(pick: Random) -> None:
    """The same, rounded."""
    tier, rows, n, gap = BY_NAME["avx512"], pick.randint(1, 9), pick.randint(1, 150), pick.randint(0, 3)
    x, bias = noise(rows, n) * np.float32(3), pick.choice((None, noise(n)[::-1].copy()))
    got = same(lambda threads: normalized(x, bias, True, tier, threads, gap, out="bf16"))
    np.testing.assert_array_equal(got, rounded(normalized(x, bias, True, tier, gap=gap)))


@each_tier
def test_a_row_that_has_a_nan_is_nan_and_no_other(tier: Any) -> None:
    x = np.ones((3, 70), np.float32)
    x[1, 66] = np.nan
    y = normalized(x, x[0], True, tier)
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all()

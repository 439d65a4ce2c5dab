"""Tables, casts, places of extremes: between guard bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.elementwise_shape import loops, strides_of
from fastgraph.kernels.pointwise.rows import NUMBERS, TARGETS
from tests.kernels.harness import each_tier, run

TYPES = {"u8": np.uint8, "s8": np.int8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "f32": np.float32,
         "bool": np.bool_, "i64": np.int64, "f64": np.float64, "f16": np.float16,
         "u32": np.uint32, "u64": np.uint64}  # fmt: skip


def walk(
    kernel: str, params: dict, x: np.ndarray, out: str, more: dict, tier: Any, threads: int = 1, offset: int = 4,
    pad: int = 0,
) -> np.ndarray:  # fmt: skip
    """The result of an elementwise kernel of one input; rows of x and y lie `pad` elements apart."""
    shape, end = x.shape, x.shape[-1]
    strides = strides_of(shape, end + pad)
    plan = loops(shape, strides, [strides])
    assert plan is not None
    y = np.full((*shape[:-1], end + pad), 7, TYPES[out])
    wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)])
    record = row(kernel).args.filled(**plan.args(y), **plan.operand(wide), **more)
    got = run(row(kernel), params, record, tier, threads, offset)[0]
    assert y.dtype == got.dtype and (got[..., end:] == y[..., end:]).all()
    return got[..., :end]


def bytes_of(shape: tuple, seed: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).view(dtype)


def vbmi_params() -> list:
    flags = "avx512vbmi" in tiers.cpu_flags()
    return [False, pytest.param(True, marks=[] if flags else pytest.mark.skip("ISA tier avx512vbmi"))]


@each_tier
@pytest.mark.parametrize("vbmi", vbmi_params())
@settings(max_examples=15)
@given(rows=st.integers(1, 3), cols=st.integers(1, 200), pad=st.integers(0, 2), offset=st.sampled_from([0, 5]),
       source=st.sampled_from(["u8", "s8"]))  # fmt: skip
def test_tables_of_bytes(tier, vbmi, rows, cols, pad, offset, source):
    if vbmi and tier.lanes < 16:
        return
    x, values = bytes_of((rows, cols), cols, TYPES[source]), bytes_of((256,), 5)
    params = {"index": 1, "value": 1, "vbmi": vbmi}
    got = walk("table", params, x, "u8", {"table": values}, tier, offset=offset, pad=pad)
    assert np.array_equal(got, values[x.view(np.uint8)])


@each_tier
@pytest.mark.parametrize("index, value", [("u8", "f32"), ("u8", "u16"), ("i16", "i32"), ("i16", "i16"), ("i16", "u8")])
def test_other_tables(tier, index, value):
    sizes = [np.dtype(TYPES[element]).itemsize for element in (index, value)]
    count, params = 1 << 8 * sizes[0], {"index": sizes[0], "value": sizes[1], "vbmi": False}
    values = np.random.default_rng(1).integers(0, 200, count).astype(TYPES[value])
    x = np.random.default_rng(0).integers(0, count, (3, 77)).astype(f"u{sizes[0]}")
    got = walk("table", params, x.view(TYPES[index]), value, {"table": values}, tier)
    assert np.array_equal(got, values[x])


@each_tier
@settings(max_examples=10)
@given(rows=st.integers(1, 3), cols=st.integers(1, 150), pad=st.integers(0, 2), threads=st.integers(1, 2))
def test_flip(tier, rows, cols, pad, threads):
    x = bytes_of((rows, cols), cols)
    assert np.array_equal(walk("flip", {}, x, "u8", {}, tier, threads=threads, pad=pad), x ^ 0x80)


def converts(name: str, signed: bool) -> Any:
    """The NumPy type of what the kernel `cast` calls numbers."""
    if name == "bool":
        return np.dtype(bool)
    if name[0] in "iu":
        signed = signed and name[0] == "i"
        return np.dtype(f"{'i' if signed else 'u'}{int(name[1:]) // 8}")
    return np.dtype(TYPES[name])


CASTS = [(source, target) for source in NUMBERS for target in TARGETS if "f16" not in (source, target)]


@each_tier
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("source, target", CASTS)
def test_casts_are_numpys(tier, source, target, signed):
    """All that the table has. Integers have all bits; floats are what the integers can hold."""
    kind, rng = converts(source, signed), np.random.default_rng(0)
    x = rng.standard_normal((3, 50)) * 100
    if source[0] == "i":
        x = rng.integers(0, 256, (3, 50 * kind.itemsize)).astype(np.uint8).view(kind)
    x = x.astype(kind) * (rng.random((3, 50)) < 0.9).astype(kind)
    assert (x == 0).any()
    for to in {converts(target, True), converts(target, False)} if source[0] == "i" else {converts(target, True)}:
        name = next(name for name, own in TYPES.items() if own is to.type)
        got = walk(
            "cast", {"source": source}, x, name, {"target": TARGETS.index(target), "signed": signed}, tier, pad=1
        )
        assert np.array_equal(got, x.astype(to))


@each_tier
def test_every_half_is_widened_exactly(tier):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(2, -1)
    got = walk("cast", {"source": "f16"}, x, "f32", {"target": TARGETS.index("f32"), "signed": 0}, tier, threads=2)
    np.testing.assert_array_equal(got, x.astype(np.float32))
    assert np.array_equal(np.signbit(got), np.signbit(x))


@each_tier
def test_halves_are_rounded_as_numpy_does(tier):
    halves = np.arange(0, 0x7C01, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[:-2].astype(float) + halves[1:-1].astype(float)) / 2
    near = np.concatenate([halves[:-1], between, np.nextafter(np.float32(between), np.float32(0)),
                           np.nextafter(np.float32(between), np.float32(9e9))]).astype(np.float32)  # fmt: skip
    special = np.float32([np.inf, np.nan, 65519, 65520, 1e30, 2.0**-24, 2.0**-25, 2.0**-26])
    x = np.concatenate([near, -near, special, -special]).reshape(1, -1)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    got = walk("cast", {"source": "f32"}, x, "f16", {"target": TARGETS.index("f16"), "signed": 0}, tier)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(x)
    assert np.array_equal(got.view(np.uint16)[number], want.view(np.uint16)[number])


@each_tier
@pytest.mark.parametrize("element", ["u1", "i1", "u4", "i4", "u8", "i8", "f4", "f8"])
@settings(max_examples=15)
@given(rows=st.integers(1, 5), n=st.integers(1, 200), inner=st.sampled_from([1, 1, 3, 40]), least=st.booleans(),
       last=st.booleans(), seed=st.integers(0, 9))  # fmt: skip
def test_places_of_extremes(tier, element, rows, n, inner, least, last, seed):
    dtype = np.dtype(element)
    x = bytes_of((rows, n, inner), seed, np.int8 if dtype.kind != "u" else np.uint8).astype(dtype)
    if dtype.kind == "f" and seed > 4:
        x[:, n // 2 :: 7] = np.nan
    elif dtype.kind != "f" and dtype.itemsize > 1:
        x <<= 8 * dtype.itemsize - 8
    y = np.full((rows, inner), -7, np.int64)
    kernel, name = row("arg_extreme"), f"{'f' if dtype.kind == 'f' else 'i'}{8 * dtype.itemsize}"
    signed = dtype.kind == "i"
    args = kernel.args.filled(y=y, x=x, outer=rows, n=n, inner=inner, least=least, signed=signed, last=last)
    got = run(kernel, {"element": name}, args, tier, threads=2)[0]
    find = np.argmin if least else np.argmax
    assert np.array_equal(got, n - 1 - find(x[:, ::-1], axis=1) if last else find(x, axis=1))

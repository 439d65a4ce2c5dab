"""The elementwise kernels against NumPy: broadcasting, strided rows, stored numbers, tables and casts, guarded."""

from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.elementwise_shape import broadcast, collapse, loops, strides_of
from fastgraph.kernels.pointwise.rows import NUMBERS, TARGETS
from fastgraph.plan.lower.walk import Out
from tests.kernels.harness import drawn, each_tier, noise, run
from tests.kernels.meanings import eval_chain
from tests.kernels.walking import TYPES, elementwise

WIDER = {"i64": np.int64, "f64": np.float64, "f16": np.float16, "u32": np.uint32, "u64": np.uint64}
ALL_TYPES: dict[str, Any] = {**TYPES, **WIDER}
RELU6 = (("add", 0, 1), ("clip", 2, 0.0, 6.0))
SWISH = (("swish", 0, 1.0),)
F32 = Out()


def values(*shape: int) -> np.ndarray:
    return np.asarray(noise(*shape) * np.float32(4))


def bytes_of(shape: tuple, seed: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).view(dtype)


def placed(xs: list[np.ndarray], pad: int, dtype: Any) -> tuple[Any, list[np.ndarray], np.ndarray]:
    """(loops, operands, result): rows of the result and of whole operands lie `pad` elements apart."""
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    wide = [np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)]) if pad and x.shape == shape else x for x in xs]
    width = shape[-1] + pad if shape else None
    strides = [broadcast(x.shape, strides_of(x.shape, *w.shape[-1:]), shape) for x, w in zip(xs, wide, strict=True)]
    plan = loops(shape, strides_of(shape, width), strides)
    assert plan is not None
    return plan, wide, np.full((*shape[:-1], width) if shape else (), 7, dtype)


def kept(got: np.ndarray, y: np.ndarray, pad: int) -> np.ndarray:
    """The result without what lies between its rows, which stays."""
    width = y.shape[-1] - pad if y.ndim else None
    assert y.dtype == got.dtype and (width is None or (got[..., width:] == y[..., width:]).all())
    return got if width is None else got[..., :width]


def walked(chain: tuple, xs: list, tier: Any, out: Out = F32, threads: int = 1, offset: int = 4, pad: int = 0) -> Any:
    """The result of a chain."""
    plan, wide, y = placed(xs, pad, TYPES[out.element])
    return kept(elementwise(chain, plan, y, wide, tier, threads, offset, out), y, pad)


def by_kernel(name: str, params: dict, x: np.ndarray, out: str, more: Any, tier: Any, **where: int) -> np.ndarray:
    """The result of a kernel with the elementwise record and more."""
    pad = where.pop("pad", 0)
    plan, wide, y = placed([x], pad, ALL_TYPES[out])
    slots = row(name).args
    last = dict(zip(list(slots)[len(slots) - len(more) :], more, strict=True))
    record = slots.filled(**plan.args(y), **plan.operand(wide[0]), **last)
    return kept(run(row(name), params, record, tier, **where)[0], y, pad)


SHAPES = [
    [(1,), (1,)], [(3, 5, 7), (7,)], [(3, 5, 7), (5, 1)], [(2, 3, 4, 5), (3, 1, 5)], [(300,), (1,)],
    [(4, 1, 6), (1, 5, 1)], [(2, 1, 3, 1, 5), (1, 4, 1, 7, 1)], [(2, 9, 70), (2, 1, 70)], [(0, 3), (3,)],
    [(), (4, 130)],
]  # fmt: skip


@each_tier
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting_is_numpys(shapes: Any, tier: Any) -> None:
    xs = [values(*shape) for shape in shapes]
    for threads in (1, 2, 3):
        assert np.array_equal(walked(RELU6, xs, tier, threads=threads), eval_chain(RELU6, xs))


@each_tier
@drawn(25)
def test_any_size_at_any_address(tier: Any, pick: Random) -> None:
    rows, cols = pick.randint(1, 9), pick.randint(1, 129)
    xs = [values(rows, cols), values(rows, cols)[::-1].copy()]
    where = {"offset": pick.choice((0, 4, 20, 60)), "pad": pick.randint(0, 3), "threads": pick.randint(1, 3)}
    assert np.array_equal(walked(RELU6, xs, tier, **where), eval_chain(RELU6, xs))


@each_tier
def test_in_place_and_the_same_bits_with_any_number_of_threads(tier: Any) -> None:
    x = values(1, 1000)
    plan = loops(x.shape, strides_of(x.shape), [strides_of(x.shape)])
    assert plan is not None
    results = [elementwise(SWISH, plan, x, [x], tier, threads) for threads in (1, 2, 3, 5)]
    assert np.allclose(results[0], eval_chain(SWISH, [x.astype(float)]), rtol=1e-6)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_which_loops_there_are() -> None:
    assert collapse((2, 3, 4), [(12, 4, 1), (12, 4, 1)]) == ((24,), [(1,), (1,)])
    assert collapse((2, 3, 4), [(12, 4, 1), (0, 0, 1)]) == ((6, 4), [(4, 1), (0, 1)])
    assert collapse((2, 3, 4), [(24, 8, 1), (12, 4, 1)]) == ((6, 4), [(8, 1), (4, 1)])
    assert collapse((1, 1), [(5, 1)]) == ((), [()])
    out, thin = (2, 3, 2, 3, 2, 3), (1, 3, 1, 3, 1, 3)
    assert loops(out, strides_of(out), [strides_of(out), broadcast(thin, strides_of(thin), out)]) is None
    column = loops((6, 1), (4, 1), [(1, 1)])
    assert column is not None and column.dims == (1, 1, 1, 6, 1) and column.xs[0][-2:] == (1, 0)


# -- chains over stored numbers: as they are read, computed with and rounded


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


SUMS = (("u8", "u8", "u8"), ("u8", "u8", "u8"), ("s8", "u8", "s8"), ("s8", "s8", "u8"), ("s8", "s8", "s8"))
"""Types of x, w and y."""


@each_tier
@drawn(40)
def test_a_sum_of_bytes_is_rounded_once(tier: Any, pick: Random) -> None:
    rows, cols = pick.randint(1, 6), pick.randint(1, 150)
    (one, other, out), spread = pick.choice(SUMS), pick.choice(((rows, cols), (1, cols), (rows, 1)))
    x, w = bytes_of((rows, cols), cols, TYPES[one]), bytes_of(spread, rows, TYPES[other])
    a, b, c = (float(np.float32(pick.uniform(-3, 3))) for _ in range(3))
    least, most = np.iinfo(TYPES[out]).min, np.iinfo(TYPES[out]).max
    zero, low = pick.randint(least, most), pick.choice((least, pick.randint(least, most)))
    high = most if low == least else pick.randint(low, most)
    where = {"threads": pick.randint(1, 3), "offset": pick.choice((0, 1, 4, 37)), "pad": pick.choice((0, 3))}
    got = walked(added(a, b, 100 * c), [x, w], tier, Out(out, zero, low, high), **where)
    want = stored(fma(tier, x, a, fma(tier, w, b, 100 * c)), zero, low, high, TYPES[out])
    assert np.array_equal(got, want)


@each_tier
def test_a_sum_of_bytes_in_place(tier: Any) -> None:
    x, w = bytes_of((2331,), 1), bytes_of((2331,), 2)
    want = stored(fma(tier, x, 0.5, fma(tier, w, 0.25, -3)), 9, 0, 255, np.uint8)
    plan = loops((2331,), (1,), [(1,), (1,)])
    assert plan is not None
    got = elementwise(added(0.5, 0.25, -3.0), plan, x, [x, w], tier, 2, out=Out("u8", 9, 0, 255))
    assert np.array_equal(got, want)


@each_tier
@pytest.mark.parametrize("source", ["u8", "s8", "i16", "u16", "i32", "bool"])
def test_every_type_is_read_as_f32(tier: Any, source: str) -> None:
    x = np.random.default_rng(0).integers(-40000, 40000, (2, 100)).astype(TYPES[source])
    for chain in ((), (("mul", 0, 1.0),)):
        assert np.array_equal(walked(chain, [x], tier, pad=1), x.astype(np.float32))


@each_tier
@pytest.mark.parametrize("out", ["u8", "s8", "i16", "bool"])
def test_any_f32_is_held_in_the_type(tier: Any, out: str) -> None:
    x = noise(2, 101) * np.float32(300)
    x[0, :9] = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, 1.5, -0.5, -0.0]
    if out == "bool":
        assert np.array_equal(walked((), [x], tier, Out(out)), x != 0)
        return
    limits = np.iinfo(TYPES[out])
    got = walked((), [x], tier, Out(out, 3, limits.min, limits.max))
    want = stored(np.nan_to_num(x.astype(float), nan=-np.inf), 3, limits.min, limits.max, TYPES[out])
    assert np.array_equal(got, want) and got[0, 0] == limits.min


def around_halves(unit: float) -> np.ndarray:
    """What divides to halves of whole numbers by `unit`, roundly, and the next numbers on both sides."""
    halves = (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(unit)
    return np.concatenate([halves, *(np.nextafter(halves, np.float32(way)) for way in (-np.inf, np.inf))])


UNITS = [2.0**-100 * (1 - 2**-24), 2.0**-100, 2.0**100, 2.0**100 * (1 + 2**-23), 1.1754943508222875e-38, 2.0 - 2**-23]
"""Those by which quotients are products with an inverse, the next ones, the least, and one of many bits."""


@each_tier
@pytest.mark.parametrize("out", ["u8", "s8"])
@drawn(12)
def test_quotients_are_rounded_as_those_of_divisions(tier: Any, pick: Random, out: str) -> None:
    unit = float(np.float32(pick.choice([*UNITS, *(pick.uniform(0.001, 4) for _ in UNITS)])))
    limits = np.iinfo(TYPES[out])
    zero = pick.choice((limits.min, 3, limits.max))
    x = np.concatenate(
        [around_halves(unit), np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1e-45], np.float32)]
    )
    x = x[pick.randint(0, 40) :]
    got = walked((("div", 0, unit),), [x], tier, Out(out, zero, limits.min, limits.max), threads=pick.randint(1, 3))
    with np.errstate(over="ignore"):
        exact = np.nan_to_num((x / np.float32(unit)).astype(float), nan=-np.inf)
    assert np.array_equal(got, stored(exact, zero, limits.min, limits.max, TYPES[out]))


# -- tables and casts


def vbmi_params() -> list:
    flags = "avx512vbmi" in tiers.cpu_flags()
    return [False, pytest.param(True, marks=[] if flags else pytest.mark.skip("ISA tier avx512vbmi"))]


@each_tier
@pytest.mark.parametrize("vbmi", vbmi_params())
@drawn(15)
def test_tables_of_bytes(tier: Any, vbmi: bool, pick: Random) -> None:
    if vbmi and tier.lanes < 16:
        return
    rows, cols, source = pick.randint(1, 3), pick.randint(1, 200), pick.choice(("u8", "s8"))
    x, table, params = bytes_of((rows, cols), cols, TYPES[source]), bytes_of((256,), 5), {"index": 1, "value": 1}
    where = {"offset": pick.choice((0, 5)), "pad": pick.randint(0, 2)}
    got = by_kernel("table", {**params, "vbmi": vbmi}, x, "u8", [table], tier, **where)
    assert np.array_equal(got, table[x.view(np.uint8)])
    flipped = by_kernel("flip", {}, x.view(np.uint8), "u8", [], tier, threads=2, **where)
    assert np.array_equal(flipped, x.view(np.uint8) ^ 0x80)


@each_tier
@pytest.mark.parametrize("index, value", [("u8", "f32"), ("u8", "u16"), ("i16", "i32"), ("i16", "i16"), ("i16", "u8")])
def test_other_tables(tier: Any, index: str, value: str) -> None:
    sizes = [np.dtype(TYPES[element]).itemsize for element in (index, value)]
    count, params = 1 << 8 * sizes[0], {"index": sizes[0], "value": sizes[1], "vbmi": False}
    table = np.random.default_rng(1).integers(0, 200, count).astype(TYPES[value])
    x = np.random.default_rng(0).integers(0, count, (3, 77)).astype(f"u{sizes[0]}")
    assert np.array_equal(by_kernel("table", params, x.view(TYPES[index]), value, [table], tier), table[x])


def converts(name: str, signed: bool) -> np.dtype:
    """The NumPy type of what the kernel `cast` calls numbers."""
    if name[0] in "iu":
        return np.dtype(f"{'i' if signed and name[0] == 'i' else 'u'}{int(name[1:]) // 8}")
    return np.dtype(ALL_TYPES[name])


@each_tier
@pytest.mark.parametrize("source", [number for number in NUMBERS if number != "f16"])
def test_casts_are_numpys(tier: Any, source: str) -> None:
    """All that the table has. Integers have all bits; floats are what the integers can hold."""
    for target, signed in ((t, s) for t in TARGETS if t != "f16" for s in (False, True)):
        kind, rng = converts(source, signed), np.random.default_rng(0)
        x = rng.standard_normal((3, 50)) * 100
        if source[0] == "i":
            x = rng.integers(0, 256, (3, 50 * kind.itemsize)).astype(np.uint8).view(kind)
        x = x.astype(kind) * (rng.random((3, 50)) < 0.9).astype(kind)
        assert (x == 0).any()
        for to in {converts(target, True), converts(target, source[0] != "i")}:
            name = next(name for name, own in ALL_TYPES.items() if own is to.type)
            more = [TARGETS.index(target), signed]
            assert np.array_equal(by_kernel("cast", {"source": source}, x, name, more, tier, pad=1), x.astype(to))


@each_tier
def test_every_half_is_widened_exactly(tier: Any) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(2, -1)
    got = by_kernel("cast", {"source": "f16"}, x, "f32", [TARGETS.index("f32"), 0], tier, threads=2)
    np.testing.assert_array_equal(got, x.astype(np.float32))
    assert np.array_equal(np.signbit(got), np.signbit(x))


@each_tier
def test_halves_are_rounded_as_numpy_does(tier: Any) -> None:
    halves = np.arange(0, 0x7C01, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = np.float32((halves[:-2].astype(float) + halves[1:-1].astype(float)) / 2)
    sides = [np.nextafter(between, np.float32(end)) for end in (0, 9e9)]
    near = np.concatenate([halves[:-1], between, *sides]).astype(np.float32)
    special = np.float32([np.inf, np.nan, 65519, 65520, 1e30, 2.0**-24, 2.0**-25, 2.0**-26])
    x = np.concatenate([near, -near, special, -special]).reshape(1, -1)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    got = by_kernel("cast", {"source": "f32"}, x, "f16", [TARGETS.index("f16"), 0], tier)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(x)
    assert np.array_equal(got.view(np.uint16)[number], want.view(np.uint16)[number])

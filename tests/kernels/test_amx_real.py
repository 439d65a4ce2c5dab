"""amx_real against NumPy: any geometry, guarded memory, f32 rounded to bf16 or split into two or three."""

from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_real import pack_real, planes_of, scalable, scales, splits, widened
from fastgraph.kernels.amx.pick_real import pick_real, real_args
from fastgraph.kernels.amx.rows import ROWS
from fastgraph.kernels.gemm.pack_bf16 import rounded
from fastgraph.kernels.gemm.pick_conv import Geometry
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.rows import FORMS, LONG_FORMS, NO_EPILOGUE
from tests.amx_trap import AMX, needs_amx
from tests.amx_trap import tiles as tile_registers
from tests.kernels.geometries import random_geometry, square, strided
from tests.kernels.harness import drawn, f32_bits, run
from tests.kernels.meanings import eval_chain
from tests.kernels.walking import ENDINGS

KERNEL = ROWS[1]
needs_bf16 = pytest.mark.skipif(not tiers.has(["avx512bf16"]), reason="ISA tier amx with avx512bf16")
needs_f16 = pytest.mark.skipif(
    AMX in tiers.usable() and not tiers.multiplies_f16(AMX), reason="ISA tier amx with amx-fp16"
)
each_parts = pytest.mark.parametrize(
    "planes, element", [(1, "bf16"), (2, "bf16"), (3, "bf16"), pytest.param(1, "f16", marks=needs_f16)]
)


ERRORS = {1: 2.0**-21, 2: 3 * 2.0**-17, 3: 2.0**-21}
"""By planes, of the sums' magnitudes: two parts lack 2**-17 of their number, and the product of the smaller parts,
2**-16, is left out.
"""


def dense(m: int, n: int, k: int, ldx: int = 0) -> Geometry:
    """A dense layer of m rows, ldx f32 apart, as the convolution that it is."""
    return Geometry(1, 1, k, n, (1, 1, m), (1, 1, 1), (1, 1, m), (0, 0, 0, ldx or k))


def convolved(x: np.ndarray, w: np.ndarray, bias: np.ndarray, g: Geometry) -> np.ndarray:
    """In float64, x [images, d, h, w, ldx], w [groups, n, taps, c]; and the sums of magnitudes."""
    y = np.zeros((2, g.images, *g.out, g.groups * g.n))
    axes = list(zip(g.pads, g.strides, g.out, g.kernel, g.dilations, strict=True))
    for group in range(g.groups):
        part = x[..., group * g.c : (group + 1) * g.c].astype(np.float64)
        full = np.pad(part, [(0, 0), *((p, s * o + k * d) for p, s, o, k, d in axes), (0, 0)])
        own = slice(group * g.n, (group + 1) * g.n)
        for tap, place in enumerate(np.ndindex(*g.kernel)):
            first = [at * d for at, d in zip(place, g.dilations, strict=True)]
            z, v, u = (slice(f, f + (o - 1) * s + 1, s) for f, o, s in zip(first, g.out, g.strides, strict=True))
            pixels, weights = full[:, z, v, u], w[group, :, tap].T.astype(np.float64)
            y[0][..., own] += pixels @ weights
            y[1][..., own] += np.abs(pixels) @ np.abs(weights)
        y[0][..., own] += bias[group]
    return y


def computed(
    g: Geometry, x: np.ndarray, w: np.ndarray, bias: np.ndarray, planes: int, threads: int, l2: int, y_item: int = 4,
    element: str = "bf16", **epilogue: Any,
) -> np.ndarray:  # fmt: skip
    """The kernel's results, with two columns of 77 behind them."""
    choice, outputs = pick_real(g, threads, planes, element, l2), g.groups * g.n
    lines = w.reshape(g.groups, g.n, choice.runs, choice.run, -1)
    packed = pack_real(lines, bias, choice.params["nt"], planes, element)
    kind = np.float32 if y_item == 4 else np.uint16
    y, scratch = np.full((g.images, *g.out, outputs + 2), 77, kind), np.zeros(choice.scratch * threads, "u1")
    memory = {"x": x, "w": packed, "y": y, "ldy": outputs + 2, "scratch": scratch, "y_item": y_item}
    args = real_args(choice, offsets=choice.table, config=choice.config, **memory, **{**NO_EPILOGUE, **epilogue})
    with tile_registers() as products:
        y = run(KERNEL, choice.params, KERNEL.args.filled(**args), AMX, threads, offset=64)[2]
        assert products()
    return y


def as_f16(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is multiplied: x as f16, and w [groups, n, taps, c] as f16 of its columns' scales."""
    scale = scales(w)[:, :, None, None]
    return x.astype(np.float16).astype(np.float32), (w / scale).astype(np.float16) * scale


def check(g: Geometry, planes: int, threads: int = 1, l2: int = 1 << 20, seed: int = 0, element: str = "bf16") -> None:
    """Demand the accuracy of what is multiplied or of f32, and that nothing else is written."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(g.images, *g.size, g.x_strides[3])).astype(np.float32)
    w = rng.normal(size=(g.groups, g.n, g.k // g.c, g.c)).astype(np.float32)
    bias = rng.normal(size=(g.groups, g.n)).astype(np.float32)
    y = computed(g, x, w, bias, planes, threads, l2, element=element)
    outputs = g.groups * g.n
    if planes == 1:  # what is multiplied is exact then: sums in f32 are what is left
        x, w = as_f16(x, w) if element == "f16" else (widened(rounded(x)), widened(rounded(w)))
    expected, size = convolved(x, w, bias, g)
    assert (np.abs(y[..., :outputs] - expected) <= ERRORS[planes] * (size + np.abs(bias).max())).all()
    assert (y[..., outputs:] == 77).all()


def geometry(pick: Random) -> Geometry:
    """Up to three dimensions, with strides, dilations, padding, groups, and pixels that lie apart."""
    out = (pick.choice((1, 1, 2)), pick.randint(1, 5), pick.choice((1, 7, 15, 16, 17, 35)))
    c, groups = pick.choice((1, 3, 16, 24, 32, 40, 64, 70, 72)), pick.choice((1, 1, 2))
    return strided(random_geometry(pick, out, c, pick.randint(1, 70), groups), pick.choice((0, 5)), 4)


@needs_amx
@needs_bf16
@each_parts
@drawn(30)
def test_any_geometry(planes: int, element: str, pick: Random) -> None:
    check(geometry(pick), planes, pick.randint(1, 3), pick.choice((1, 4000, 1 << 20)), pick.randint(0, 99), element)


@needs_amx
@needs_bf16
@each_parts
@pytest.mark.parametrize("m", [1, 5, 16, 17, 33, 49, 100])
def test_dense(planes: int, element: str, m: int) -> None:
    for n, k, threads in ((1, 64, 1), (64, 63, 2), (100, 260, 3), (16, 8, 1)):
        check(dense(m, n, k, k + 3), planes, threads, 20000, m, element)


LAYERS = {
    "first layer": square(3, 32, 31, 3, 2, 1),
    "narrow": square(16, 16, 14, 3, 1, 1),
    "late layer": square(64, 40, 7, 3, 1, 1),
    "strided 1x1": square(96, 33, 14, 1, 2),
    "pages apart": square(2048, 16, 4, 1, 1),
}


@needs_amx
@needs_bf16
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_any_number_of_threads(name: str) -> None:
    for threads in (1, 2, 5):
        check(LAYERS[name], 1, threads, 4000)


@needs_amx
@needs_bf16
@needs_f16
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_f16(name: str) -> None:
    check(LAYERS[name], 1, 2, 4000, element="f16")


def test_planes_are_exact() -> None:
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    for planes, lacking in ((1, 2.0**-9), (2, 2.0**-17), (3, 0.0)):
        left = sum(widened(part).astype(np.float64) for part in planes_of(x, planes)) - x
        assert (np.abs(left) <= 2 * lacking * np.abs(x)).all() and planes_of(x, planes)[0].dtype == np.uint16
    assert np.abs(widened(rounded(x)) / x - 1).max() <= 2.0**-8
    special = np.float32([np.inf, -np.inf, np.nan, 3.4e38, 0, -0.0])
    np.testing.assert_array_equal(widened(rounded(special)), np.float32([np.inf, -np.inf, np.nan, np.inf, 0, -0.0]))


@needs_amx
@needs_bf16
@pytest.mark.parametrize("planes, element", [(2, "bf16"), (3, "bf16"), pytest.param(1, "f16", marks=needs_f16)])
@pytest.mark.parametrize("g", [dense(40, 40, 100), square(24, 20, 9, 3, 1, 1), square(3, 17, 19, 3, 2, 1)], ids=str)
def test_what_products_of_parts_lose_is_done_by_f32(g: Geometry, planes: int, element: str) -> None:
    """Infinities, NaN, denormals, and products far below 1: as exact as a chain of f32, and in their rows alone. Of f16
    weights are rounded all the same.
    """
    error, large = (2.0**-11, 1e30) if element == "f16" else (2 * ERRORS[planes], 3e38)
    for number in (np.inf, -np.inf, np.nan, np.uint32(0x7F800001).view(np.float32), large, 1e-36, 1e-42):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(1, *g.size, g.c)).astype(np.float32)
        if abs(number) < 1:
            x *= np.float32(number)
        else:
            x[0, 0, -1, g.size[2] // 2, 1] = number
        w = rng.normal(size=(1, g.n, g.k // g.c, g.c)).astype(np.float32)
        y = computed(g, x, w, np.zeros((1, g.n), np.float32), planes, 1, 1 << 20, element=element)[..., : g.n]
        with np.errstate(all="ignore"):
            expected, size = convolved(x, w, np.zeros((1, g.n)), g)
            assert (np.isnan(y) == np.isnan(expected)).all()
            finite = np.isfinite(expected) & (size < 1e38)
            np.testing.assert_array_equal(y[~finite & (size == np.inf)], expected[~finite & (size == np.inf)])
            assert (np.abs(y - expected) <= error * size + 2.0**-140)[finite].all(), number


@needs_amx
@needs_bf16
@pytest.mark.parametrize("planes", [2, 3])
@pytest.mark.parametrize("size", [1e-30, 1e-36, 1e-42, 1e35])
def test_numbers_that_parts_lose_beside_others_that_they_hold(planes: int, size: float) -> None:
    """Sums of usual size stay as they are made of parts; a column that meets nothing but such numbers is exact."""
    rng = np.random.default_rng(0)
    g = dense(40, 40, 100)
    x = rng.normal(size=(1, *g.size, g.c)).astype(np.float32)
    x[..., ::2] *= np.float32(size)
    w = rng.normal(size=(1, g.n, g.k // g.c, g.c)).astype(np.float32)
    w[:, 7, :, 1::2] = 0
    if size > 1:
        w[:, :7, :, ::2], w[:, 8:, :, ::2] = 0, 2.0**-40
    y = computed(g, x, w, np.zeros((1, g.n), np.float32), planes, 2, 1 << 20)[..., : g.n].astype(np.float64)
    expected, magnitude = convolved(x, w, np.zeros((1, g.n)), g)
    assert (np.abs(y - expected) <= 2 * ERRORS[planes] * magnitude + 2.0**-140).all()


def test_weights_that_may_be_split() -> None:
    w = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)
    w[5, 7] = 0
    assert splits(w) and not splits(np.full((4, 4), np.nan, np.float32))
    for number in (1e-19, 1e13, np.inf, 1e-42):
        w[250, 3] = number
        assert not splits(w)


@needs_amx
@needs_bf16
@needs_f16
@pytest.mark.parametrize(
    "g", [dense(40, 40, 100), *(square(c, 20, 9, 3, 1, 1) for c in (16, 24, 32)), square(3, 17, 19, 3, 2, 1)], ids=str
)
def test_f16_where_numbers_are_small(g: Geometry) -> None:
    """Denormals of f16 are multiplied as such, but by f32 where a sum reads nothing larger; columns are scaled."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, *g.size, g.c)).astype(np.float32) * np.float32(2.0**-16)
    x[0, 0, :, : g.size[2] // 2, 1] = 1
    w = rng.normal(size=(1, g.n, g.k // g.c, g.c)).astype(np.float32)
    w *= np.float32(2) ** rng.integers(-36, 37, (1, g.n, 1, 1)).astype(np.float32)
    w[:, 3], x[0, 0, -1, -1] = 0, 2.0**-40
    bias = np.zeros((1, g.n), np.float32)
    y = computed(g, x, w, bias, 1, 2, 1 << 20, element="f16")[..., : g.n].astype(np.float64)
    narrow, held = as_f16(x, w)
    largest = convolved(np.broadcast_to(x.max(-1, keepdims=True) >= 2.0**-13, x.shape), np.ones_like(w), bias, g)[0]
    assert 0 < (largest > 0).mean() < 1
    for where, given in ((largest > 0, narrow), (largest == 0, x)):
        expected, size = convolved(given, held, bias, g)
        assert (np.abs(y - expected) <= ERRORS[1] * size)[where].all()


def test_weights_that_may_be_f16() -> None:
    w = np.random.default_rng(0).normal(size=(30, 200)).astype(np.float32)
    w[5], w[6, 1:] = 0, 1e-42
    assert scalable(w) and not scalable(w * np.float32(1e-19)) and not scalable(w * np.float32(1e13))
    largest = np.delete(np.abs(w / scales(w[None])[0, :, None]).max(1), 5)
    assert (largest >= 2.0**14).all() and (largest < 2.0**15).all()
    for number in (np.nan, np.inf, -np.inf):
        w[7, 3] = number
        assert not scalable(w)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_do_as_many_tiles_of_rows(threads: int) -> None:
    """A block may be a single tile of rows, so that their number need not be even."""
    fields = pick_real(dense(196, 96, 576), threads, 3, l2=2 << 20).fields
    assert fields["across"] == {1: 13, 2: 14, 4: 16}[threads]
    assert fields["band"] == -(-fields["across"] // threads) and fields["column_parts"] == 1


ROWS_OF_BF16 = {
    "in place": dense(40, 40, 96),
    "in place in equal lines": dense(17, 33, 40),
    "copied in equal lines": dense(17, 300, 120),
    "copied": dense(17, 33, 50),
    "a few in place": dense(50, 33, 8),
    "a few in place, which cross lines": dense(39, 7, 24),
    "a few of more in place": dense(21, 70, 12, 31),
    "odd": dense(37, 20, 9),
    "odd, the most": dense(40, 16, 15),
    "odd, more": dense(40, 16, 17),
    "odd, of more": dense(37, 20, 9, 11),
    "one": dense(70, 5, 1),
    "odd rows of a map": square(5, 12, 11, 3, 1, 1),
}


@needs_amx
@needs_bf16
@pytest.mark.parametrize("k", [1, 3, 8, 9, 13, 15, 24, 31])
@pytest.mark.parametrize("item", [4, 2])
def test_pixels_of_a_few_numbers_do_not_meet(k: int, item: int) -> None:
    """What is no number stays in its pixel's results, wherever pixels lie side by side."""
    g = dense(45, 18, k)._replace(item=item)
    rng = np.random.default_rng(k)
    x = rng.normal(size=(1, 1, 1, 45, k)).astype(np.float32)
    odd = rng.choice(45, 9, replace=False)
    x[..., odd, :] = rng.choice(np.float32([np.nan, np.inf, -np.inf]), (9, k))
    w = rng.normal(size=(1, 18, 1, k)).astype(np.float32)
    y = computed(g, rounded(x) if item == 2 else x, w, np.zeros((1, 18), np.float32), 1, 2, 1 << 20)[0, 0, 0, :, :18]
    finite = np.isfinite(y)
    assert not finite[odd].any() and np.delete(finite, odd, 0).all()


@needs_amx
@needs_bf16
@pytest.mark.parametrize("name", [*ROWS_OF_BF16, *LAYERS])
@pytest.mark.parametrize("y_item", [4, 2])
def test_bf16_in_memory(name: str, y_item: int) -> None:
    """The same results from numbers that are bf16 already, read in place where lines are whole or single; rounded at
    the end.
    """
    g = {**ROWS_OF_BF16, **LAYERS}[name]
    rng = np.random.default_rng(0)
    x = widened(rounded(rng.normal(size=(1, *g.size, g.x_strides[3])).astype(np.float32)))
    w = rng.normal(size=(1, g.n, g.k // g.c, g.c)).astype(np.float32)
    bias, added = rng.normal(size=(2, 1, g.n)).astype(np.float32)
    added = rounded(np.broadcast_to(added[0], (*g.out, g.n)).reshape(-1, g.n))
    where = {"addend_row": g.n, "low": np.float32(-1).view(np.int32).item()}
    expected = computed(g, x, w, bias, 1, 1, 1 << 20, addend=widened(added), **where)[..., : g.n]
    narrow = g._replace(item=2)
    assert pick_real(narrow).fields["in_place"] == int("in place" in name or name == "pages apart")
    found = computed(narrow, rounded(x), w, bias, 1, 2, 1 << 20, y_item, addend=added, addend_item=2, **where)[
        ..., : g.n
    ]
    np.testing.assert_array_equal(found, expected if y_item == 4 else rounded(expected))


@needs_amx
@needs_bf16
@pytest.mark.parametrize("form", LONG_FORMS)
def test_forms(form: str) -> None:
    """Results are functions of the sums, as exact as what they are kept in; any number of columns, skipped rows."""
    chain = ENDINGS[form][1]
    slots = {"form": (*FORMS, *LONG_FORMS).index(form), "low": f32_bits(0.7)}
    for g, planes, y_item in [
        (g, *how) for g in (dense(21, 40, 64), square(8, 23, 9, 3, 1, 1)) for how in ((1, 4), (2, 4), (3, 4), (1, 2))
    ]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(1, *g.size, g.c)).astype(np.float32)
        w = (rng.normal(size=(1, g.n, g.k // g.c, g.c)) / 4).astype(np.float32)
        bias = rng.normal(size=(1, g.n)).astype(np.float32)
        bias[0, :3] = np.nan, np.inf, -np.inf
        sums = computed(g, x, w, bias, planes, 1, 1 << 20)[..., : g.n]
        found = computed(g, x, w, bias, planes, 2, 1 << 20, y_item, **slots)
        assert (found[..., g.n :] == 77).all()
        found = found[..., : g.n]
        expected = eval_chain(chain, [sums.astype(np.float64)])
        np.testing.assert_allclose(
            found if y_item == 4 else widened(found), expected,
            *((2.0**-21, 2.0**-22) if y_item == 4 else (2.0**-8 + 2.0**-11, 2.0**-14)),
        )  # fmt: skip

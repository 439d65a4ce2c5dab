"""amx_conv against NumPy: any geometry, guarded memory; and its machine code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.amx.pack_amx import configuration, numbering, pack_amx, panel_bytes
from fastgraph.kernels.amx.pick_amx import AmxChoice, amx_args, pick_amx, tile_cycles, tiles
from fastgraph.kernels.amx.rows import BLOCKS, ROWS
from fastgraph.kernels.core.build import assembly
from fastgraph.kernels.gemm.pick_conv import Geometry
from fastgraph.kernels.gemm.pick_int8 import vector_cycles
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.amx import permitted
from fastgraph.kernels.lang import traced
from fastgraph.plan.lower.gemm.layer_int8 import TILE_GAIN
from tests.amx_trap import AMX, EMULATES, needs_amx
from tests.amx_trap import tiles as tile_registers
from tests.kernels.harness import compiled, f32_bits, run
from tests.kernels.int8 import DTYPES, stored, stores
from tests.kernels.test_conv import reference, square

KERNEL = ROWS[0]


def dense(m: int, n: int, k: int, ldx: int) -> Geometry:
    """A dense layer of m rows, ldx bytes apart, as the convolution that it is."""
    return Geometry(1, 1, k, n, (1, 1, m), (1, 1, 1), (1, 1, m), (0, 0, 0, ldx), item=1)


def check(
    g: Geometry,
    choice: AmxChoice,
    threads: int = 1,
    slack: int = 0,
    seed: int = 0,
    extreme: bool = False,
    out: str = "u8",
) -> np.ndarray:
    """Run it on random data in rows `slack` longer than dense, demand equality, return y."""
    rng = np.random.default_rng(seed)
    outputs, pixel = g.groups * g.n, g.x_strides[3]
    x = rng.integers(0, 256, (g.images, *g.size, pixel), np.uint8)
    w = rng.integers(-128, 128, (outputs, *g.kernel, g.c), np.int8)
    if extreme:
        x[...], w[...] = 255, rng.choice([-128, 127], (outputs, 1, 1, 1, 1))
    bias = rng.integers(-(1 << 16), 1 << 16, outputs).astype(np.int32)
    multipliers = (rng.uniform(0.2, 3, outputs) / (150 * g.k**0.5)).astype(np.float32)
    least = -128 if out == "s8" else 0
    x_zero, zero_point = int(rng.integers(0, 256)), least + int(rng.integers(0, 256))
    low, high = sorted(least + int(b) for b in rng.integers(0, 256, 2))
    limits = (f32_bits(low - 99), f32_bits(high + 0.5)) if out == "f32" else (low, high)
    flat = w.reshape(g.groups, g.n, choice.runs, choice.length)
    folded = bias - x_zero * w.reshape(outputs, -1).sum(1, dtype=np.int32)
    packed = pack_amx(flat, folded.reshape(g.groups, -1), multipliers.reshape(g.groups, -1), choice.nt)
    y = np.full((g.images, *g.out, outputs + slack), 77, DTYPES[out])
    args = amx_args(
        choice, x_zero, x=x, w=packed, y=y, ldy=outputs + slack, table=choice.table, config=choice.config,
        scratch=np.zeros(choice.scratch * threads, np.uint8), **stored(out, zero_point, *limits),
    )  # fmt: skip
    with tile_registers() as products:
        y = run(KERNEL, choice.params, KERNEL.args.filled(**args), AMX, threads, offset=64)[2]
        assert products()
    sums = reference(x[..., : g.groups * g.c].astype(np.int64) - x_zero, w, g).astype(np.int64) + bias
    scaled = sums.astype(np.float32) * multipliers
    expected = np.clip(scaled, np.float32(low - 99), np.float32(high + 0.5))
    if out != "f32":
        expected = sums if out == "i32" else np.clip(np.rint(scaled) + zero_point, low, high)
    np.testing.assert_array_equal(y[..., :outputs], expected)
    assert (y[..., outputs:] == 77).all()
    return y


@st.composite
def geometries(draw: Any) -> Geometry:
    """Up to three dimensions, with strides, dilations, padding, groups, and pixels that lie apart."""
    small, depth = st.integers(1, 3), draw(st.sampled_from([1, 1, 2]))
    c, groups = draw(st.sampled_from([1, 3, 16, 24, 64, 70])), draw(st.sampled_from([1, 1, 2]))
    out = (depth, draw(st.integers(1, 5)), draw(st.sampled_from([1, 7, 15, 16, 17, 35])))
    kernel, strides, dilations = ((draw(small) if depth > 1 else 1, draw(small), draw(small)) for _ in range(3))
    size, pads = [], []
    for o, k, s, d in zip(out, kernel, strides, dilations, strict=True):
        span = (o - 1) * s + (k - 1) * d + 1
        size.append(draw(st.integers(max(1, span - 5), span + 2)))
        pads.append(draw(st.integers(0, max(0, span - size[-1]))))
    n, images, gap = draw(st.integers(1, 70)), draw(st.integers(1, 2)), draw(st.sampled_from([0, 5]))
    g = Geometry(images, groups, c, n, tuple(size), kernel, out, (0, 0, 0, 0), strides, dilations, tuple(pads))
    return strided(g, gap)


def strided(g: Geometry, gap: int = 0) -> Geometry:
    """The geometry with x in rows of bytes, `gap` more than channels in each pixel."""
    pixel = g.groups * g.c + gap
    row, plane = g.size[2] * pixel, g.size[1] * g.size[2] * pixel
    return g._replace(item=1, x_strides=(g.size[0] * plane, plane, row, pixel))


@needs_amx
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_geometry(data: Any) -> None:
    g, threads = data.draw(geometries()), data.draw(st.integers(1, 3))
    l2 = data.draw(st.sampled_from([1, 4000, 1 << 20]))
    choice = pick_amx(g, threads, "bytes", l2)
    check(g, choice, threads, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 99)))


@needs_amx
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("out", ["u8", "s8", "f32", "i32"])
@pytest.mark.parametrize("m", [1, 5, 16, 17, 33, 49, 100])
def test_dense(blocks: tuple[int, int], out: str, m: int) -> None:
    for n, k, threads in ((1, 64, 1), (64, 63, 2), (100, 260, 3), (16, 8, 1)):
        g = dense(m, n, k, k + 3)
        choice = pick_amx(g, threads, stores(out), 20000, (blocks,))
        assert (choice.params["mt"], choice.params["nt"]) == blocks
        check(g, choice, threads, seed=m, out=out)


@needs_amx
@pytest.mark.parametrize(
    "g",
    [square(3, 32, 31, 3, 2, 1), square(16, 16, 14, 3, 1, 1), square(64, 40, 7, 3, 1, 1), square(96, 33, 14, 1, 2)],
    ids=["first layer", "narrow", "late layer", "strided 1x1"],
)
def test_layers(g: Geometry) -> None:
    check(strided(g), pick_amx(strided(g), 2), 2)


@needs_amx
def test_largest_sums() -> None:
    """Neither bytes nor their sums saturate."""
    g = dense(20, 40, 4096, 4096)
    check(g, pick_amx(g), extreme=True)


@needs_amx
def test_same_bits_for_any_threads() -> None:
    g = strided(square(20, 40, 9, 3, 1, 1))
    results = {check(g, pick_amx(g, n, "bytes", 4000), n).tobytes() for n in (1, 2, 5)}
    assert len(results) == 1


@pytest.mark.skipif(not EMULATES, reason="the CPU itself refuses")
def test_faults_are_found() -> None:
    """Products of tiles that nobody gave a shape."""

    @traced
    def product() -> None:
        AMX.isa.multiply(0, 1, 2)

    def make(tier: Any) -> Any:
        def kernel(args: int, thread: int, threads: int) -> None:
            product()

        return kernel

    with pytest.raises(AssertionError, match="faulted"), tile_registers():
        compiled(make, (), AMX)(0, 0, 1)


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_machine_code(blocks: tuple[int, int]) -> None:
    """It compiles on any machine, loads no tile twice in a step, and spills neither tiles nor vectors."""
    mt, nt = blocks
    text = assembly(KERNEL.make()(AMX, mt, nt, "bytes"), AMX)
    products = text.count("tdpbusd")
    assert products and products % (mt * nt) == 0
    assert text.count("tileloadd") == products // (mt * nt) * (mt + nt) + mt * nt
    assert text.count("tilestored") == mt * nt and "sttilecfg" not in text
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert not re.search(r"%rsp\).*zmm|zmm.*%rsp\)", text)


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_tiles_have_registers_of_their_own(blocks: tuple[int, int]) -> None:
    mt, nt = blocks
    rows, columns = numbering(mt, nt)
    sums, others = set(range(mt * nt)), {*rows, *columns}
    assert len(rows) == mt and len(columns) == nt and not sums & others and max(others) < 8
    assert not set(rows) & set(columns)
    config = configuration(mt, nt, 13)
    assert [config[48 + t] for t in columns] == [16] * nt
    assert {config[48 + t] for t in sums | set(rows)} == {13}
    assert set(config[16:32:2]) == {64} and not config[17:33:2].any() and config[0] == 1


@given(g=geometries(), mt=st.sampled_from([1, 2, 4]))
def test_tiles_cover_a_row(g: Geometry, mt: int) -> None:
    rows, across = tiles(g, mt)
    assert 1 <= rows <= min(16, g.out[2])
    assert (across - 1) * rows < g.out[2] <= across * rows


def test_where_tiles_pay() -> None:
    """They don't where one row of A meets each weight, or where a depthwise layer would fill a corner of them."""

    def worth_tiles(g: Geometry) -> bool:
        return tile_cycles(g) * TILE_GAIN < vector_cycles(g)

    assert worth_tiles(strided(square(64, 64, 56, 3, 1, 1)))
    assert worth_tiles(dense(49, 1280, 320, 320))
    assert not worth_tiles(dense(1, 1000, 1280, 1280))
    assert not worth_tiles(strided(square(1, 1, 14, 3, 1, 1, groups=96)))


def test_panels_end_with_zeros() -> None:
    """Columns and bytes that no weight is for must not add to sums."""
    w = np.full((1, 20, 3, 70), -1, np.int8)
    packed = pack_amx(w, np.ones((1, 20), np.int32), np.ones((1, 20), np.float32), 2)
    assert packed.shape == (1, 1, panel_bytes(2, 6))
    assert (packed[0, 0, 256:] == 255).sum() == w.size
    assert (packed[0, 0, :128].view(np.int32) == [1] * 20 + [0] * 12).all()


def test_the_tier_takes_the_systems_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "cpu_flags", lambda: frozenset(AMX.needs))
    monkeypatch.setattr(tiers, "permitted", lambda: False)
    assert tiers.choose().name == "avx512vnni"
    with pytest.raises(ValueError, match="gives no tile registers: choose one of .*avx512vnni, or"):
        tiers.choose("amx")
    monkeypatch.setattr(tiers, "permitted", lambda: True)
    assert tiers.choose() == AMX


def test_permission_is_refused_without_tiles() -> None:
    if not tiers.cpu_flags().issuperset(AMX.needs):
        assert not permitted()

"""amx_conv and amx_dynamic against NumPy: any geometry, guarded memory; and its machine code."""

import re
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_amx import configuration, numbering, pack_amx, panel_bytes
from fastgraph.kernels.amx.pick_amx import amx_args, pick_amx, pick_amx_dynamic, tile_cycles, tiles
from fastgraph.kernels.amx.rows import BLOCKS, DYNAMIC_NT, NO_SUM, ROWS
from fastgraph.kernels.core.build import assembly
from fastgraph.kernels.gemm.pick_conv import Geometry
from fastgraph.kernels.gemm.pick_int8 import vector_cycles
from fastgraph.kernels.gemm.rows import RANGE_BYTES
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.amx import permitted
from fastgraph.kernels.lang import traced
from fastgraph.plan.layer import Integers, within_int32
from fastgraph.plan.lower.gemm.layer_int8 import TILE_GAIN
from tests.amx_trap import AMX, EMULATES, needs_amx
from tests.amx_trap import tiles as tile_registers
from tests.kernels.geometries import random_geometry, reference, square, strided
from tests.kernels.harness import compiled, drawn, run
from tests.kernels.int8 import DTYPES, draw_addend, draw_bytes, draw_layer, stores
from tests.kernels.walking import SHORT, Ending

KERNEL, DYNAMIC = ROWS[0], ROWS[2]


def dense(m: int, n: int, k: int, ldx: int) -> Geometry:
    """A dense layer of m rows, ldx bytes apart, as the convolution that it is."""
    return Geometry(1, 1, k, n, (1, 1, m), (1, 1, 1), (1, 1, m), (0, 0, 0, ldx), item=1)


def check(g: Geometry, choices: Any, seed: int = 0, extreme: bool = False, out: str = "u8", adds: bool = False) -> None:
    """Demand equality on random data, of all choices, by the number of threads, in rows longer than dense; adds: to
    those of another map.
    """
    outputs = g.groups * g.n
    layer, x = draw_layer(seed, g.groups, g.n, g.k, out, False), draw_bytes(seed, g.images, *g.size, g.x_strides[3])
    if extreme:
        x[...], layer.weights[...] = 255, np.random.default_rng(0).choice([-128, 127], (g.groups, g.n, 1))
    zero = 37 * seed % 256
    expected, ends = layer.convolved(x, zero, g), {**layer.stored, **NO_SUM}
    if adds:
        addend = draw_addend(seed, g.images, *g.out, outputs)
        expected, out, ends = addend.added(expected), addend.out, {**layer.stored, **addend.slots}
    for threads, choice in choices.items():
        flat = layer.weights.reshape(g.groups, g.n, choice.runs, choice.run)
        packed = pack_amx(flat, (layer.start, layer.multipliers), choice.params["nt"], stores(out))
        y, scratch = np.full((g.images, *g.out, outputs + 2), 77, DTYPES[out]), np.zeros(choice.scratch * threads, "u1")
        memory = {"x": x, "w": packed, "y": y, "ldy": outputs + 2, "scratch": scratch}
        args = amx_args(choice, zero, offsets=choice.table, config=choice.config, **memory, **ends)
        with tile_registers() as products:
            y = run(KERNEL, choice.params, KERNEL.args.filled(**args), AMX, threads, offset=64)[2]
            assert products()
        np.testing.assert_array_equal(y[..., :outputs], expected)
        assert (y[..., outputs:] == 77).all()


def geometry(pick: Random) -> Geometry:
    """Up to three dimensions, with strides, dilations, padding, groups, and pixels that lie apart."""
    out = (pick.choice((1, 1, 2)), pick.randint(1, 5), pick.choice((1, 7, 15, 16, 17, 35)))
    c, groups = pick.choice((1, 3, 16, 24, 64, 70)), pick.choice((1, 1, 2))
    return strided(random_geometry(pick, out, c, pick.randint(1, 70), groups), pick.choice((0, 5)), 1)


@needs_amx
@drawn(40)
def test_any_geometry(pick: Random) -> None:
    g, threads, l2 = geometry(pick), pick.randint(1, 3), pick.choice((1, 4000, 1 << 20))
    check(g, {threads: pick_amx(g, threads, "bytes", l2)}, pick.randint(0, 99), adds=pick.choice((False, True)))


@needs_amx
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("out", ["u8", "s8", "f32", "i32"])
@pytest.mark.parametrize("m", [1, 5, 16, 17, 33, 49, 100])
def test_dense(blocks: tuple[int, int], out: str, m: int) -> None:
    for n, k, threads in ((1, 64, 1), (64, 63, 2), (100, 260, 3), (16, 8, 1)):
        g = dense(m, n, k, k + 3)
        choice = pick_amx(g, threads, stores(out), 20000, (blocks,))
        assert (choice.params["mt"], choice.params["nt"]) == blocks
        check(g, {threads: choice}, m, out=out)
        if out == "u8":
            check(g, {threads: choice}, m, adds=True)


LAYERS = {
    "first layer": square(3, 32, 31, 3, 2, 1),
    "narrow": square(16, 16, 14, 3, 1, 1),
    "late layer": square(64, 40, 7, 3, 1, 1),
    "strided 1x1": square(96, 33, 14, 1, 2),
}


@needs_amx
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_any_number_of_threads(name: str) -> None:
    g = strided(LAYERS[name], item=1)
    check(g, {n: pick_amx(g, n, "bytes", 4000) for n in (1, 2, 5)})


@needs_amx
def test_largest_sums() -> None:
    """Neither bytes nor their sums saturate."""
    g = dense(20, 40, 4096, 4096)
    check(g, {1: pick_amx(g, 1, "words")}, extreme=True, out="i32")


@needs_amx
@pytest.mark.parametrize("ending", SHORT)
@drawn(8)
def test_sums_of_rounded_bytes(ending: str, pick: Random) -> None:
    """amx_dynamic, with a range for all images, one for each, or one for each pixel."""
    g, threads, l2, own = geometry(pick), pick.randint(1, 3), pick.choice((1, 4000, 1 << 20)), pick.randint(0, 2)
    pixels, outputs, rng = g.out[0] * g.out[1] * g.out[2], g.groups * g.n, np.random.default_rng(pick.randint(0, 99))
    weights, x = (
        draw_layer(1, g.groups, g.n, g.k, "f32", False).weights,
        draw_bytes(1, g.images, *g.size, g.x_strides[3]),
    )
    choice, per_image = pick_amx_dynamic(g, threads, l2), (0, 1, pixels)[own]
    scales, bias = rng.uniform(0.001, 0.1, (g.groups, g.n)).astype("f4"), rng.normal(size=(g.groups, g.n)).astype("f4")
    ranges = np.zeros((g.images * pixels, RANGE_BYTES // 4), np.float32)
    zero = pick.randint(0, 255)
    ranges[:, 0], ranges.view(np.int32)[:, 1] = rng.uniform(0.01, 1, len(ranges)), -zero
    head = weights.sum(axis=2, dtype=np.int32), scales, bias
    packed = pack_amx(weights.reshape(g.groups, g.n, choice.runs, choice.run), head, DYNAMIC_NT, "words")
    ends, memory = Ending(AMX, ending, (g.images, pixels, outputs)), np.zeros(choice.scratch * threads, np.uint8)
    y = np.zeros((g.images, *g.out, outputs), np.float32)
    args = amx_args(
        choice, zero, x=x, w=packed, y=y, ldy=outputs, offsets=choice.table, config=choice.config, scratch=memory,
        y_y=choice.fields["out_w"] * outputs, ranges=ranges, per_image=per_image, per_row=int(own == 2), **ends.slots,
    )  # fmt: skip
    with tile_registers():
        y = run(DYNAMIC, choice.params, DYNAMIC.args.filled(**args), AMX, threads, offset=64)[2]
    seen = x[..., : g.groups * g.c].astype(np.int64) - zero
    acc = np.rint(reference(seen, weights.reshape(outputs, *g.kernel, g.c), g)).reshape(g.images, pixels, outputs)
    first = np.arange(g.images)[:, None] * per_image + np.arange(pixels) * (own == 2)
    sums = acc * (ranges[first, :1].astype(np.float64) * scales.reshape(-1)) + bias.reshape(-1)
    np.testing.assert_allclose(y.reshape(acc.shape), ends.of(sums), rtol=1e-6, atol=2e-6 * max(1, np.abs(sums).max()))


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
    """It compiles on any machine, loads no tile twice in a step, stores one at most (`stay_awake`), and spills neither
    tiles nor vectors."""
    mt, nt = blocks
    text = assembly(KERNEL.make()(AMX, mt=mt, nt=nt, out="bytes"), AMX)
    products = text.count("tdpbusd")
    assert products and products % (mt * nt) == 0
    steps = products // (mt * nt)
    assert text.count("tileloadd") == steps * (mt + nt) + mt * nt
    assert mt * nt < text.count("tilestored") <= steps + mt * nt and "sttilecfg" not in text
    assert text.count("ldtilecfg") <= 2, "one for a single thread, one for a team"
    assert text.count("tilerelease") == 1
    assert not re.search(r"%rsp\).*zmm|zmm.*%rsp\)", text)
    assert text.count("vfmadd") == 4 * text.count("vminps"), "reals are clamped that nothing is added to"


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


@drawn(100)
def test_tiles_cover_a_row(pick: Random) -> None:
    g, mt = geometry(pick), pick.choice((1, 2, 4))
    rows, across = tiles(g, mt)
    assert 1 <= rows <= min(16, g.out[2])
    assert (across - 1) * rows < g.out[2] <= across * rows


def test_where_tiles_pay() -> None:
    """They don't where one row of A meets each weight, or where a depthwise layer would fill a corner of them."""

    def worth_tiles(g: Geometry) -> bool:
        return tile_cycles(g) * TILE_GAIN < vector_cycles(g)

    assert worth_tiles(strided(square(64, 64, 56, 3, 1, 1), item=1))
    assert worth_tiles(dense(49, 1280, 320, 320))
    assert not worth_tiles(dense(1, 1000, 1280, 1280))
    assert not worth_tiles(strided(square(1, 1, 14, 3, 1, 1, groups=96), item=1))


def test_panels_end_with_zeros() -> None:
    """Columns and bytes that no weight is for must not add to sums."""
    w = np.full((1, 20, 3, 70), -1, np.int8)
    packed = pack_amx(w, (np.ones((1, 20), np.int32), np.ones((1, 20), np.float32)), 2, "words")
    assert packed.shape == (1, 1, panel_bytes(2, 6))
    assert (packed[0, 0, 256:] == 255).sum() == w.size
    assert (packed[0, 0, :128].view(np.int32) == [1] * 20 + [0] * 12).all()


def test_the_tier_takes_the_systems_permission() -> None:
    flags = frozenset(AMX.needs)
    assert tiers.choose(None, flags, False).name == "avx512vnni" and tiers.choose(None, flags, True) == AMX
    with pytest.raises(ValueError, match="gives no tile registers: choose one of .*avx512vnni, or"):
        tiers.choose("amx", flags, False)


def test_the_finish_rounds_within_int32() -> None:
    def suits(*multipliers: float) -> bool:
        weights, zeros = np.full((2, 8, 8), -128, np.int8), np.zeros(2, np.int64)
        return within_int32(Integers(weights, zeros, np.array([0, -99]), np.array(multipliers, np.float32)))

    assert suits(0.01, 1) and suits(1023, 1)
    assert not suits(0.01, 1030) and not suits(np.inf, 1) and not suits(np.nan, 1)


def test_permission_is_refused_without_tiles() -> None:
    if not tiers.cpu_flags().issuperset(AMX.needs):
        assert not permitted()

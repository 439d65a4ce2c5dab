"""Networks of f32 by products of bf16: on AMX tiles, six for each of f32, three where the precision is float16 (or one
of f16), or one where it is bfloat16; of pairs in vectors.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fastgraph.freedoms import thresholds, without
from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.isa import tiers
from fastgraph.runtime.executable import compile_graph
from tests.amx_trap import AMX, needs_amx
from tests.amx_trap import tiles as tile_registers
from tests.blocks import heads
from tests.kernels.harness import drawn
from tests.kernels.test_amx_real import needs_bf16, needs_f16
from tests.nets import Net, graph_of

ERRORS = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "float16 by bf16": 2.0**-12, "float32": 1e-5}
"""Of the largest result: each of a few layers rounds operands to 8 bits, 11 or 16; sums in f32."""


@pytest.fixture(autouse=True)
def small_layers_too(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chosen wherever they can be."""
    monkeypatch.setattr(tiers, "has", lambda flags: True)
    with thresholds(tiles_least=1), without("winograd"):
        yield


PAIRS = tiers.BY_NAME["avx512"]
KERNELS = {AMX: {"amx_real"}, PAIRS: {"dot_bf16", "conv_bf16"}}
"""Of the layers."""
ATTENTION = {AMX: "attention_tiles", PAIRS: "attention_pairs"}
each_unit = pytest.mark.parametrize(
    "unit",
    [
        pytest.param(AMX, id="tiles", marks=[needs_amx, needs_bf16]),
        pytest.param(PAIRS, id="pairs", marks=pytest.mark.skipif(not tiers.has(tiers.PAIRS), reason="no avx512bf16")),
    ],
)


def ended(net: Net, y: str, shape: tuple[int, ...], pick: Random) -> str:
    """The result of a layer with a chain behind it."""
    end = pick.choice(("", "Relu", "LeakyRelu", "HardSwish", "Sigmoid", "Gelu", "Add", "Mul", "Add Relu"))
    if end == "Gelu":
        erf = net("Erf", net("Mul", y, 0.7))
        return net("Mul", net("Mul", y, net("Add", erf, 1.0)), 0.5)
    if end in ("Add", "Mul", "Add Relu"):
        y = net(end.split()[0], y, net.weight(*shape))
        return net("Relu", y) if end == "Add Relu" else y
    return net(end, y) if end else y


def network(pick: Random) -> Net:
    """Up to three layers, with residuals where shapes allow."""
    net = Net(seed=pick.randint(0, 999))
    if pick.randint(0, 1):
        m, k = pick.randint(1, 70), pick.randint(1, 70)
        x = net.input("x", (m, k))
        for _ in range(pick.randint(1, 3)):
            n = pick.choice((k, pick.randint(1, 70)))
            y = net("Add", net("MatMul", x, net.weight(k, n)), net.weight(n))
            y = ended(net, y, (pick.choice((1, m)), n), pick)
            x, k = net("Add", x, y) if n == k and pick.randint(0, 1) else y, n
    else:
        c, size = pick.choice((1, 3, 8, 9, 16, 32, 40)), pick.randint(3, 20)
        x = net.input("x", (pick.randint(1, 2), c, size, size))
        for _ in range(pick.randint(1, 3)):
            kernel, groups = pick.choice((1, 3)), pick.choice((1, 1, 2)) if c % 2 == 0 else 1
            n, stride = pick.choice((c, groups * pick.randint(1, 60 // groups))), pick.choice((1, 1, 2))
            attrs = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
            y = net("Conv", x, net.weight(n, c // groups, kernel, kernel), net.weight(n), **attrs)
            y = ended(net, y, (n, 1, 1), pick)
            x, c = net("Add", x, y) if n == c and stride == 1 and pick.randint(0, 1) else y, n
    net.output(x)
    return net


def results(net: Net, precision: str, tier: Any, threads: int, x: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    graph = graph_of(net.bytes())
    graph.precision = precision
    plan = compile_graph(graph, {}, tier, threads)
    plan.fill(x)
    with tile_registers() if tier is AMX else nullcontext():
        plan.execute()
    return plan, np.array(next(iter(plan.results().values())))


@each_unit
@pytest.mark.parametrize("kind", [pytest.param(k, marks=needs_f16) if k == "float16" else k for k in ERRORS])
@drawn(40)
def test_networks(unit: Any, kind: str, pick: Random) -> None:
    net, threads, precision = network(pick), pick.randint(1, 3), kind.partition(" ")[0]
    (given,) = graph_of(net.bytes()).inputs
    x = {given.name: net.rng.normal(size=given.type.dims).astype(np.float32)}
    with patch.object(tiers, "has", lambda flags: flags != tiers.F16 or kind == "float16"):
        plan, found = results(net, precision, unit, threads, x)
        _, other = results(net, precision, unit, threads % 3 + 1, x)
    if unit is AMX:
        tiled = [dict(kernel.params) for kernel in plan.kernels() if kernel.name == "amx_real"]
        assert {params["element"] for params in tiled} == {"f16" if kind == "float16" else "bf16"}
    np.testing.assert_array_equal(found, other)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, x)
    assert np.abs(found - expected).max() <= ERRORS[kind] * np.abs(expected).max()


@each_unit
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_kept_in_bfloat16(unit: Any, threads: int) -> None:
    """A value between layers is rounded when it is stored, not when it is read: the same numbers. Half the memory."""
    net = Net()
    x = net.input("x", (70, 64))
    for k, n, end in ((64, 96, "Tanh"), (96, 40, "Relu"), (40, 64, "Relu")):
        x = net(end, net("MatMul", x, net.weight(k, n)))
    net.output(x)
    feeds = {"x": net.rng.normal(size=(70, 64)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, threads, feeds)
    with without("narrow"):
        wide, expected = results(net, "bfloat16", unit, threads, feeds)
    np.testing.assert_array_equal(found, expected)
    kept = [v.type.dtype for node in plan.graph.nodes for v in node.outputs]
    assert kept.count(BFLOAT16) == 2 and "bfloat16[70,96]" in plan.text()
    assert all(v.type.dtype != BFLOAT16 for node in wide.graph.nodes for v in node.outputs)


@each_unit
def test_residuals_in_bfloat16(unit: Any) -> None:
    """A sum that convolutions and the next sum read."""
    net = Net()
    x = net("Relu", net("Conv", net.input("x", (1, 32, 9, 9)), net.weight(64, 32, 1, 1), net.weight(64)))
    for _ in range(3):
        y = net("Relu", net("Conv", x, net.weight(32, 64, 1, 1), net.weight(32)))
        y = net("Conv", y, net.weight(64, 32, 3, 3), net.weight(64), pads=[1, 1, 1, 1])
        x = net("Relu", net("Add", y, x))
    net.output(net("Conv", x, net.weight(33, 64, 1, 1)))
    feeds = {"x": net.rng.normal(size=(1, 32, 9, 9)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, 2, feeds)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert sum(v.type.dtype == BFLOAT16 for node in plan.graph.nodes for v in node.outputs) == 7
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()


def attention(net: Net, x: str, m: int, count: int, size: int) -> str:
    """Heads of queries, keys and values of one dense layer, and one of their results."""
    width = count * size
    parts = net("Split", net("MatMul", x, net.weight(32, 3 * width)), axis=-1, outputs=3, num_outputs=3)
    q, k, v = (heads(net, each, 2, m, count, size) for each in parts)
    scores = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), 0.2)
    scores = net("Add", scores, net.weight(1, count, m, m))
    y = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = net("Reshape", y, np.array([2, m, width], np.int64))
    return net("MatMul", y, net.weight(width, 32))


@each_unit
@pytest.mark.parametrize("m, count, size", [(49, 3, 32), (197, 2, 64), (12, 4, 9), (33, 1, 100)])
def test_attention_between_layers(m: int, count: int, size: int, unit: Any) -> None:
    """Its operands and result are bf16: the same numbers as rounded when they are read."""
    net = Net()
    net.output(attention(net, attention(net, net.input("x", (2, m, 32)), m, count, size), m, count, size))
    feeds = {"x": net.rng.normal(size=(2, m, 32)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, 1, feeds)
    assert [kernel.name for kernel in plan.kernels()].count(ATTENTION[unit]) == 1
    kept = [node.op for node in plan.graph.nodes for v in node.outputs if v.type.dtype == BFLOAT16]
    assert sorted(kept) == 2 * ["attention"] + 3 * ["dense"] + 6 * ["split"]
    with without("narrow"):
        _, wide = results(net, "bfloat16", unit, 2, feeds)
    np.testing.assert_array_equal(found, wide)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()


@each_unit
def test_few_queries_are_not_for_bf16(unit: Any) -> None:
    net = Net()
    net.output(attention(net, net.input("x", (2, 8, 32)), 8, 2, 16))
    feeds = {"x": net.rng.normal(size=(2, 8, 32)).astype(np.float32)}
    with thresholds(tiles_least=64):
        plan, _ = results(net, "bfloat16", unit, 1, feeds)
    names = {kernel.name for kernel in plan.kernels()}
    assert "attention" in names and ATTENTION[unit] not in names


def shuffled(net: Net, x: str, channels: int, size: int) -> str:
    """The channels of two groups in turn."""
    y = net("Reshape", x, np.int64([1, 2, channels // 2, size, size]))
    return net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3, 4]), np.int64([1, channels, size, size]))


@each_unit
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_moved_and_pooled_in_bfloat16(unit: Any, threads: int) -> None:
    """Between layers: a pool, parts that are joined, a shuffle of channels, halves of them. The same bits as of f32."""
    net = Net()
    x = net("Relu", net("Conv", net.input("x", (1, 16, 13, 13)), net.weight(34, 16, 1, 1), net.weight(34)))
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    pooled = net("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    parts = [net("Conv", y, net.weight(30, 34, 1, 1), net.weight(30)) for y in (x, pooled)]
    x = shuffled(net, net("Concat", *parts, axis=1), 60, 7)
    halves = [net("Slice", x, *(np.int64([n]) for n in (at, at + 30, 1))) for at in (0, 30)]
    x = net(
        "Concat", halves[1], net("Conv", halves[0], net.weight(40, 30, 3, 3), net.weight(40), pads=[1, 1, 1, 1]), axis=1
    )
    net.output(net("Conv", x, net.weight(5, 70, 1, 1)))
    feeds = {"x": net.rng.normal(size=(1, 16, 13, 13)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, threads, feeds)
    with without("narrow"):
        _, expected = results(net, "bfloat16", unit, threads, feeds)
    np.testing.assert_array_equal(found, expected)
    wide = {v.type.size for node in plan.graph.nodes for v in node.outputs if v.type.dtype == np.float32}
    assert wide == {16 * 13 * 13, 5 * 7 * 7}
    assert [kernel.name for kernel in plan.kernels()].count("pool_bf16") == 1


@each_unit
def test_what_another_reads_stays_wide(unit: Any) -> None:
    """A value that is also a result, or read by what knows f32 only; and all that is joined with it."""
    net = Net()
    given = net.input("x", (1, 16, 8, 8))
    parts = [net("Conv", given, net.weight(32, 16, 1, 1), net.weight(32)) for _ in range(3)]
    joined = net("Concat", *parts[:2], axis=1)
    net.output(net("Conv", net("MaxPool", joined, kernel_shape=[2, 2]), net.weight(8, 64, 1, 1)))
    net.output(net("Softmax", parts[0], axis=1), net("Conv", parts[2], net.weight(8, 32, 1, 1)))
    feeds = {"x": net.rng.normal(size=(1, 16, 8, 8)).astype(np.float32)}
    plan, _ = results(net, "bfloat16", unit, 1, feeds)
    kept = [v.type.dims for node in plan.graph.nodes for v in node.outputs if v.type.dtype == BFLOAT16]
    assert kept == [(1, 8, 8, 32)]


@each_unit
def test_what_a_layer_of_one_channel_adds(unit: Any) -> None:
    """It multiplies f32, as there are no pairs, and adds f32 where its result is f32."""
    net = Net()
    y = net("MatMul", net.input("x", (16, 32)), net.weight(32, 17))
    net.output(net("Add", net("MatMul", net.input("z", (16, 1)), net.weight(1, 17)), y))
    feeds = {name: net.rng.normal(size=shape).astype(np.float32) for name, shape in (("x", (16, 32)), ("z", (16, 1)))}
    _, found = results(net, "bfloat16", unit, 1, feeds)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()


@each_unit
@pytest.mark.parametrize("worth", [1, 1 << 30])
@pytest.mark.parametrize("threads", [1, 2])
def test_inverted_residuals_in_bfloat16(unit: Any, worth: int, threads: int) -> None:
    """Depthwise layers between others, in bands or not."""
    net = Net()
    x = net("Conv", net.input("x", (1, 16, 14, 14)), net.weight(24, 16, 1, 1), net.weight(24))
    for stride in (1, 2, 1):
        y = net("Clip", net("Conv", x, net.weight(72, 24, 1, 1), net.weight(72)), 0.0, "")
        y = net("Conv", y, net.weight(72, 1, 3, 3), net.weight(72), pads=[1] * 4, strides=[stride] * 2, group=72)
        y = net("Conv", net("Relu", y), net.weight(24, 72, 1, 1), net.weight(24))
        x = net("Add", x, y) if stride == 1 else y
    net.output(net("Conv", x, net.weight(9, 24, 1, 1)))
    feeds = {"x": net.rng.normal(size=(1, 16, 14, 14)).astype(np.float32)}
    with thresholds(bands_worth=worth, bands_budget=1 << 13):
        plan, found = results(net, "bfloat16", unit, threads, feeds)
        _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()
    assert all(dict(kernel.params)["narrow"] for kernel in plan.kernels() if kernel.name == "depthwise")
    bands = sum(step.kernel.name == "depthwise" for step in plan.program.steps) > 3
    assert bands == (worth == 1)


def gated(net: Net, x: str, channels: int) -> str:
    """Squeeze and excite: channels times what two layers make of their means."""
    y = net("Relu", net("Conv", net("GlobalAveragePool", x), net.weight(8, channels, 1, 1), net.weight(8)))
    return net("Mul", x, net("Sigmoid", net("Conv", y, net.weight(channels, 8, 1, 1), net.weight(channels))))


@each_unit
@pytest.mark.parametrize("channels", [24, 96])
def test_gates_in_bfloat16(unit: Any, channels: int) -> None:
    """Maps with all that reads them, and sums of them; means and gates are f32."""
    net = Net()
    x = net("Relu", net("Conv", net.input("x", (2, 16, 14, 14)), net.weight(channels, 16, 1, 1), net.weight(channels)))
    y = net("Conv", x, net.weight(channels, 1, 3, 3), net.weight(channels), pads=[1] * 4, group=channels)
    y = gated(net, net("Mul", y, net("Sigmoid", y)), channels)
    net.output(net("Conv", net("Relu", net("Add", net("Abs", y), x)), net.weight(5, channels, 1, 1)))
    feeds = {"x": net.rng.normal(size=(2, 16, 14, 14)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, 1, feeds)
    _, other = results(net, "bfloat16", unit, 2, feeds)
    np.testing.assert_array_equal(found, other)
    maps = [v for node in plan.graph.nodes for v in node.outputs if v.type.size == 2 * channels * 14 * 14]
    assert [v.type.dtype for v in maps] == [BFLOAT16] * 3
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()


@each_unit
@pytest.mark.parametrize("each", [2, 4, 8])
def test_groups_of_few_channels_in_bfloat16(unit: Any, each: int) -> None:
    """They multiply pairs, of what is f32 too; with a chain behind them they give f32."""
    net, count = Net(), 40 // each
    x = net("Relu", net("Conv", net.input("x", (2, 16, 14, 14)), net.weight(40, 16, 1, 1), net.weight(40)))
    for end, stride, k in (("Relu", 1, 3), ("Tanh", 1, 5), ("", 2, 3)):
        x = net("Conv", x, net.weight(40, each, k, k), pads=[k // 2] * 4, strides=[stride] * 2, group=count)
        x = net("Conv", net(end, x) if end else x, net.weight(40, 40, 1, 1), net.weight(40))
    net.output(x)
    feeds = {"x": net.rng.normal(size=(2, 16, 14, 14)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, 1, feeds)
    _, other = results(net, "bfloat16", unit, 2, feeds)
    np.testing.assert_array_equal(found, other)
    steps = [dict(step.kernel.params) for step in plan.program.steps if step.kernel.name == "grouped"]
    assert [params["element"] for params in steps] == ([] if unit is AMX else ["bf16"] * 3)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-5 * np.abs(expected).max()


@pytest.mark.skipif(not tiers.has(tiers.PAIRS), reason="no avx512bf16")
def test_groups_that_are_all_of_a_network() -> None:
    """What is fed is rounded first, results are f32, and what lies between is bf16."""
    net = Net()
    x = net.input("x", (1, 24, 9, 9))
    for _ in range(2):
        x = net("Conv", x, net.weight(24, 8, 5, 5), pads=[2] * 4, group=3)
    net.output(x)
    feeds = {"x": net.rng.normal(size=(1, 24, 9, 9)).astype(np.float32)}
    plan, found = results(net, "bfloat16", PAIRS, 2, feeds)
    names = [step.kernel.name for step in plan.program.steps if step.node.op == "conv"]
    assert names == ["round_bf16", "grouped", "grouped"]
    assert [n.out.type.dtype == BFLOAT16 for n in plan.graph.nodes if n.op == "conv"] == [True, False]
    _, expected = results(net, "float32-fma", PAIRS, 1, feeds)
    assert np.abs(found - expected).max() <= 2.0**-6 * np.abs(expected).max()


@each_unit
def test_norms_in_bfloat16(unit: Any) -> None:
    """Residuals are f32 where they are normalized, or are norms; what layers multiply is bf16: the same numbers."""
    net = Net()
    x = net("MatMul", net.input("x", (70, 64)), net.weight(64, 48))
    for end in ("Relu", "Sigmoid"):
        y = net("LayerNormalization", x, net.weight(48), net.weight(48), axis=-1)
        x = net("Add", x, net("MatMul", net(end, net("MatMul", y, net.weight(48, 90))), net.weight(90, 48)))
    x = net("LayerNormalization", x, net.weight(48), axis=-1)
    net.output(net("Add", net("MatMul", x, net.weight(48, 48)), x))
    feeds = {"x": net.rng.normal(size=(70, 64)).astype(np.float32)}
    plan, found = results(net, "bfloat16", unit, 2, feeds)
    with without("narrow"):
        _, expected = results(net, "bfloat16", unit, 1, feeds)
    np.testing.assert_array_equal(found, expected)
    kept = [node.op for node in plan.graph.nodes for v in node.outputs if v.type.dtype == BFLOAT16]
    assert kept == 2 * ["layer_normalization", "dense"]


@each_unit
def test_what_no_layer_made_and_results_stay_wide(unit: Any) -> None:
    """Phases, whose sines layers multiply, and coordinates that layers made, which none does."""
    net = Net()
    phase = net("Mul", net.input("t", (1, 64)), 500.0)
    waves = net("Concat", net("Sin", phase), net("Cos", phase), axis=1)
    y = net("MatMul", net("Relu", net("MatMul", waves, net.weight(128, 64))), net.weight(64, 32))
    net.output(net("Sqrt", net("ReduceMax", net("Mul", net("Sigmoid", y), 640.0), axes=[1])))
    feeds = {"t": net.rng.uniform(size=(1, 64)).astype(np.float32)}
    plan, _ = results(net, "bfloat16", unit, 1, feeds)
    kept = [node.op for node in plan.graph.nodes for v in node.outputs if v.type.dtype == BFLOAT16]
    assert kept == ["dense"]


@each_unit
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32"])
@drawn(30)
def test_recurrent_layers(unit: Any, precision: str, pick: Random) -> None:
    """Rounding to 8 bits is passed on from step to step, but activations of slope 1 and gates do not let it grow."""
    net, (op, gates) = Net(seed=pick.randint(0, 999)), pick.choice((("RNN", 1), ("GRU", 3), ("LSTM", 4)))
    steps, batch, width, hidden, ways = (pick.randint(1, most) for most in (9, 6, 40, 70, 2))
    attrs: dict[str, Any] = {"linear_before_reset": pick.randint(0, 1)} if op == "GRU" else {}
    attrs |= {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "reverse"}
    w, r = net.weight(ways, gates * hidden, width), net.weight(ways, gates * hidden, hidden, scale=0.5 * hidden**-0.5)
    lengths = net.const(np.array([pick.randint(0, steps) for _ in range(batch)], np.int32))
    bias, first = net.weight(ways, 2 * gates * hidden), net.weight(ways, batch, hidden)
    x = net.input("x", (steps, batch, width))
    net.output(net(op, x, w, r, bias, pick.choice(("", lengths)), first, **attrs))
    feeds = {"x": net.rng.normal(size=(steps, batch, width)).astype(np.float32)}
    far = pick.choice((0, 0, 1 << 30))
    parts = thresholds(steps_large=pick.choice((0, 1 << 20)), steps_part=1 << 12, recurrent_far=far)
    with parts, patch.object(tiers, "has", lambda flags: flags != tiers.F16):
        plan, found = results(net, precision, unit, pick.randint(1, 3), feeds)
        _, other = results(net, precision, unit, pick.randint(1, 3), feeds)
    kernels = {(k.name, dict(k.params).get("element")) for k in plan.kernels()}
    walks = {element for name, element in kernels if name == "recurrent"}
    assert walks == {"bf16" if precision == "bfloat16" and (far == 0 or unit is not AMX) else "f32"}
    multiplied = {name for name, _ in kernels} & {"dot", "dot_bf16", "amx_real"}
    if unit is AMX:
        assert multiplied == {"amx_real"}
        with without("winograd", "amx_real"):
            plan, _ = results(net, precision, unit, 1, feeds)
        assert not any(kernel.name == "amx_real" for kernel in plan.kernels())
    else:
        assert multiplied == {"dot_bf16" if precision == "bfloat16" else "dot"}
    np.testing.assert_array_equal(found, other)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert np.abs(found - expected).max() <= {"bfloat16": 2.0**-5, "float16": 2.0**-9, "float32": 1e-5}[precision]


@each_unit
def test_layers_of_bodies(unit: Any) -> None:
    """A loop's layers are computed as all others are, and values between them kept."""
    net, body = Net(), Net()
    body.input("i", (), np.int64), body.input("go", (), np.bool_)
    x = body("Relu", body("MatMul", body.input("state", (6, 64)), body.weight(64, 64)))
    x = body("Tanh", body("MatMul", x, body.weight(64, 64, scale=0.1)))
    body.output(body("Identity", "go"), x)
    x, most = net.input("x", (6, 64)), net.input("most", (), np.int64)
    net.output(net("Loop", most, np.bool_(True), x, body=body.graph()))
    feeds = {"x": net.rng.normal(size=(6, 64)).astype(np.float32), "most": np.int64(3)}
    plan, found = results(net, "bfloat16", unit, 1, feeds)
    assert KERNELS[unit] & {kernel.name for kernel in plan.kernels()}
    inner = [node for loop in plan.graph.nodes for graph in loop.graphs for node in graph.nodes]
    assert [v.type.dtype for node in inner for v in node.outputs].count(BFLOAT16) == 1
    _, other = results(net, "bfloat16", unit, 2, feeds)
    np.testing.assert_array_equal(found, other)
    _, expected = results(net, "float32-fma", tiers.BY_NAME["avx512"], 1, feeds)
    assert 0 < np.abs(found - expected).max() <= 2.0**-5

"""Blocks around a depthwise layer, with sums of all kinds inside, layers and pools in a row, and the transposes at a
network's edges, give in bands what they give layer after layer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.plan.lower import band_steps, depth_first, repeat
from fastgraph.plan.program import Scratch
from fastgraph.runtime.executable import compile_graph
from tests.amx_trap import AMX, loads_amx, needs_amx, tiles
from tests.blocks import conv
from tests.kernels.harness import each_tier
from tests.model.test_plans import said
from tests.nets import F32, I64, Net, by_onnxruntime, feeds_for, graph_of
from tests.plan.step_by_step import check_steps, poison, within
from tests.random_nets import Case, Draw, examples

C, STEP = 24, 0.05
"""Channels of all maps; the scale of all quantized values."""


@dataclass
class Growing:
    """A block under construction: its maps [1, C, height, width] by name, and whether all of them are quantized."""

    draw: Draw
    net: Net
    bytes: bool
    maps: dict[str, tuple[int, int]] = field(default_factory=dict)

    def pick(self, *options: object) -> object:
        return self.draw(st.sampled_from(options))

    def add(self, name: str, size: tuple[int, int]) -> str:
        """Note a map; in a quantized net, it is what its 8 bits stand for."""
        if self.bytes:
            scale, zero = self.net.const(np.array(STEP, F32)), self.net.const(np.array(128, np.uint8))
            name = self.net("DequantizeLinear", self.net("QuantizeLinear", name, scale, zero), scale, zero)
        self.maps[name] = size
        return name

    def weights(self, *shape: int) -> str:
        if not self.bytes:
            return self.net.weight(*shape)
        numbers = self.net.rng.integers(-127, 128, shape).astype(np.int8)
        scale = np.full(shape[0], 1.5 / 73 / np.prod(shape[1:]) ** 0.5, F32)
        zeros = self.net.const(np.zeros(shape[0], np.int8))
        return self.net("DequantizeLinear", self.net.const(numbers), self.net.const(scale), zeros, axis=0)

    def dense(self, x: str) -> str:
        return self.ended(self.net("Conv", x, self.weights(C, C, 1, 1)), self.maps[x], [x])

    def depthwise(self, x: str) -> str:
        (h, w), k, stride = self.maps[x], self.pick(3, 3, 1, 5), self.pick(1, 1, 1, 2)
        pad = k // 2 if self.pick(True, True, True, False) else self.pick(0, k)
        if min(h, w) + 2 * pad < k:
            pad = k // 2
        y = self.net("Conv", x, self.weights(C, 1, k, k), group=C, strides=[stride] * 2, pads=[pad] * 4)
        return self.ended(y, ((h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1), [x])

    def pool(self, x: str) -> str:
        (h, w), k, stride = self.maps[x], self.pick(3, 3, 2, 5), self.pick(1, 1, 2)
        op, pads = self.pick("MaxPool", "AveragePool"), [self.pick(k // 2, k - 1 - k // 2)] * 4
        h, w = ((n + 2 * pads[0] - k) // stride + 1 for n in (h, w))
        if min(h, w) < 1:
            return x
        more = {"count_include_pad": self.pick(0, 1)} if op == "AveragePool" else {}
        return self.add(self.net(op, x, kernel_shape=[k, k], strides=[stride] * 2, pads=pads, **more), (h, w))

    def ended(self, y: str, size: tuple[int, int], own: list[str]) -> str:
        """A layer's result through activations and sums."""
        y = self.add(y, size) if self.bytes or self.pick(False, False, True) else y
        for kind in self.draw(st.lists(st.sampled_from(["relu", "sum", "sum"]), max_size=2)):
            y = self.net("Relu", y) if kind == "relu" else self.net(self.pick("Add", "Add", "Mul"), *self.pair(y, size))
            y = self.add(y, size) if self.bytes else y
        self.maps[y] = size
        return y

    def pair(self, y: str, size: tuple[int, int]) -> tuple[str, str]:
        """`y` and an operand that fits: a map, perhaps y itself, a constant, or a narrower value."""
        same = [name for name, other in self.maps.items() if other == size]
        h, w = size
        kind = self.pick("map", "map", "map", "map", "constant", "narrow")
        if kind == "map" and same:
            other = self.draw(st.sampled_from([*same[::-1], y]))
        elif kind == "narrow" and not self.bytes:
            x = self.draw(st.sampled_from(sorted(self.maps)))
            axes = self.pick([2, 3], [1], [1, 2], [1, 2, 3], [2] if self.maps[x][1] == w else [2, 3])
            axes = axes if 2 in axes or self.maps[x] == size else [2, 3]
            axes = axes if 3 in axes or self.maps[x][1] == w else [*axes, 3]
            other = self.net("ReduceMax", x, axes=axes, keepdims=1)
        else:
            shape = self.pick((), (1,), (C, 1, 1), (1, C, 1, 1), (1, 1, h, 1), (w,), (1, C, h, w), (C, h, w))
            other = self.net.const(np.round(self.net.rng.standard_normal(shape)).astype(F32))
            other = self.add(other, (-1, -1)) if self.bytes else other
            self.maps.pop(other, None)
        return self.pick((y, other), (other, y))


@st.composite
def networks(draw: Draw, quantized: bool) -> Case:
    """What the block reads is an input, a map that may be written over, or part of one that other parts overlap."""
    net = Net(17, draw(st.integers(0, 99)))
    g = Growing(draw, net, quantized)
    n, h, w = g.pick(1, 1, 2, 5), g.pick(5, 9, 12, 23), g.pick(5, 8)
    x = g.add(net.input("x", (n, C, h, w)), (h, w))
    if g.pick(False, True, True):
        x = g.dense(x)
    if g.pick(False, False, True):
        rows = [[net.const(np.array([n], I64)) for n in (start, start + h - 1, 2)] for start in (1, 0)]
        parts = [net("Slice", x, *cut) for cut in rows]
        for part in parts:
            g.maps[part] = (h - 1, w)
        x = g.pick(*parts)
    first = x
    for kind in g.pick("edp", "edp", "ed", "dp", "dpdp", "ddd", "mdm", "emdp", "eee", "d", "m"):
        x = {"d": g.depthwise, "m": g.pool}.get(kind, g.dense)(x)
    if g.maps[first] == g.maps[x] and g.pick(False, True):
        x = net("Concat", first, x, axis=1)
    more = [draw(st.sampled_from(sorted(g.maps)))] if g.pick(False, False, True) else []
    net.output(*dict.fromkeys([x, *more]))
    return Case(net.bytes(), {"x": net.rng.standard_normal((n, C, h, w)).astype(F32)})


def check_bands(case: Case, budget: int, atol: float = 1e-5) -> None:
    """Whatever lies in memory before, in bands or not, on any number of threads: the same bits, and the right ones.
    Copied bands and pieces are what lowering each gives.
    """
    expected = by_onnxruntime(case.source, case.feeds)
    with thresholds(bands_worth=1 << 40):
        whole = list(fg.load(case.source, threads=1).run(case.feeds).values())
    for threads, extra in ((1, 0), (2, 25), (3, 25), (2, 1000), (3, 1000), (5, 1000)):
        # Few rows of the first-level cache: of windows in a row some channels are done at a time.
        rows = 1 if extra % 50 else 1 << 20
        with thresholds(bands_worth=1, bands_budget=budget, bands_extra=extra, bands_kept=0, bands_rows=rows):
            model = fg.load(case.source, threads=threads)
            each = patch.object(band_steps, "_extrapolated", return_value=None)
            with each, patch.object(repeat, "_moved", return_value=None):
                assert said(model.plan.program) == said(fg.load(case.source, threads=threads).plan.program)
            poison(model.plan)
            for _ in range(2):
                for one, other in zip(whole, model.run(case.feeds).values(), strict=True):
                    np.testing.assert_array_equal(one, other)
    for array, right in zip(whole, expected, strict=True):
        np.testing.assert_allclose(array, right, rtol=0, atol=atol * max(1, np.abs(right).max()))


BUDGETS = st.sampled_from([1, 1 << 12, 1 << 14])


@pytest.mark.slow
@examples(120)
@given(networks(False), BUDGETS)
def test_any_block(case: Case, budget: int) -> None:
    check_bands(case, budget, 2e-5)


@pytest.mark.slow
@examples(60)
@given(networks(True), BUDGETS)
def test_any_block_of_bytes(case: Case, budget: int) -> None:
    """Rounding to 8 bits once a layer: a few steps apart from sums of reals, of values up to 128 steps."""
    check_bands(case, budget, 6 * STEP)


WINDOWS = [(3, 1, 1, 1), (3, 2, 1, 2), (5, 1, 1, 7), (5, 2, 1, 1), (3, 1, 2, 2), (1, 1, 1, 7)]
"""Kernel, stride, dilation, images."""


@pytest.mark.parametrize("budget", [1, 1 << 14, 60000, 1 << 30], ids=["single rows", "some rows", "images", "one band"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "images"), WINDOWS)
def test_windows(budget: int, kernel: int, stride: int, dilation: int, images: int) -> None:
    net, pads = Net(), [(kernel - 1) * dilation // 2] * 4
    x = net("Relu", conv(net, net.input("x", (images, 8, 11, 9)), 8, 32, 1))
    y = conv(net, x, 32, 32, kernel, group=32, strides=[stride] * 2, pads=pads, dilations=[dilation] * 2)
    net.output(conv(net, net("Clip", y, 0.0, 6.0), 32, 16, 1))
    check_bands(Case(net.bytes(), feeds_for(net.load())), budget)


def in_a_row(net: Net, layers: str, x: str, channels: int) -> str:
    """Letters are layers: depthwise and pools, of stride 1, or of 2 as capitals; 1x1."""
    for layer in layers:
        steps, shape = [1 + layer.isupper()] * 2, {"kernel_shape": [3, 3], "pads": [1] * 4}
        if layer in "dD":
            x = conv(net, x, channels, channels, 3, group=channels, strides=steps, pads=[1] * 4)
        elif layer in "aA":
            x = net("AveragePool", x, strides=steps, count_include_pad=1, **shape)
        else:
            x = net("MaxPool", x, strides=steps, **shape) if layer in "mM" else conv(net, x, channels, channels, 1)
    return x


@pytest.mark.parametrize("budget", [1, 1 << 13, 1 << 15, 1 << 30])
@pytest.mark.parametrize("layers", ["d", "dd", "dDd", "mam", "MAdd", "Ddpp", "pp", "pddm", "dMd"])
@pytest.mark.parametrize("images", [1, 3])
def test_layers_in_a_row_and_the_transposes_around_them(layers: str, images: int, budget: int) -> None:
    net = Net()
    net.output(in_a_row(net, layers, net.input("x", (images, 24, 19, 10)), 24))
    feeds = feeds_for(net.load())
    with thresholds(bands_worth=1, bands_budget=budget, bands_kept=0):
        model = net.load()
        assert {step.node.op for step in model.plan.program.steps if step.share < 1} >= {"transpose"} or budget > 1
        check_steps(model.plan, feeds, within(1e-5))
    check_bands(Case(net.bytes(), feeds), budget)


@pytest.mark.parametrize(("layers", "banded"), [("p", True), ("pp", True), ("dd", False)])
def test_maps_that_no_cache_holds_are_turned_in_bands_around_1x1_layers(layers: str, banded: bool) -> None:
    net = Net()
    net.output(in_a_row(net, layers, net.input("x", (2, 24, 19, 10)), 24))
    far = patch.object(depth_first, "near_bytes", return_value=0)
    with far, thresholds(bands_worth=1, bands_budget=1 << 13):
        turns = [step for step in net.load().plan.program.steps if step.node.op == "transpose"]
        assert all((step.share < 1) == banded for step in turns) and turns
        check_bands(Case(net.bytes(), feeds_for(net.load())), 1 << 13)


@loads_amx
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("images", [1, 4])
def test_threads_do_1x1_layers_apart_and_their_bands_use_scratch_in_turn(images: int, precision: str) -> None:
    net = Net()
    x = net("Relu", conv(net, net.input("x", (images, 64, 32, 12)), 64, 96, 1))
    net.output(conv(net, conv(net, x, 96, 32, 1), 32, 64, 1))
    feeds, found = feeds_for(net.load()), []
    for worth, threads, budget in ((1 << 40, 1, 1), (1, 1, 1 << 14), (1, 2, 1 << 14), (1, 2, 1 << 16), (1, 3, 1 << 14)):
        with thresholds(bands_worth=worth, bands_budget=budget, tiles_least=1), tiles():
            plan = fg.load(net.bytes(), threads=threads, isa="amx", precision=precision).plan
            apart = worth == 1 and threads > 1 and (images, threads) != (4, 3)
            assert {step.part for step in plan.program.steps} == (set(range(1, threads + 1)) if apart else {0})
            poison(plan)
            plan.fill(feeds)
            plan.execute()
            found.append([array.copy() for array in plan.results().values()])
            words = [word for step in plan.program.steps if step.part == 1 for word in step.words()]
            assert len({word.base for word in words if isinstance(getattr(word, "base", None), Scratch)}) <= 6
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("layers", ["d", "dDd", "mam", "adMd"])
def test_windows_between_transposes_are_done_for_some_channels_at_a_time(
    layers: str, precision: str, images: int
) -> None:
    """A thread takes the channels of its own, as far as they are shared evenly; the last are fewer than a vector's."""
    net = Net()
    net.output(in_a_row(net, layers, net.input("x", (images, 72, 19, 10)), 72))
    feeds, found = feeds_for(net.load()), []
    for worth, threads, budget in ((1 << 40, 1, 1), (1, 1, 1 << 30), (1, 1, 1 << 13), (1, 2, 1 << 13), (1, 5, 1 << 30)):
        with thresholds(bands_worth=worth, bands_budget=budget, bands_kept=0, bands_rows=1):
            model = fg.load(net.bytes(), threads=threads, precision=precision)
        steps = model.plan.program.steps
        windows = [step for step in steps if step.node.op in ("conv", "max_pool", "average_pool")]
        assert (max(step.share for step in windows if step.kernel.name != "copy") < 0.25) == (worth == 1)
        assert {step.part for step in steps} == (set(range(1, threads + 1)) if threads > 1 else {0})
        if worth == 1:
            check_steps(model.plan, feeds, within(1e-5 if precision == "float32" else 2e-2))
        poison(model.plan)
        found.append(list(model.run(feeds).values())[0])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_only_the_weights_of_the_channels_at_hand_need_to_be_near() -> None:
    net = Net()
    net.output(in_a_row(net, "dd", net.input("x", (1, 72, 19, 10)), 72))
    few = patch.object(depth_first, "WEIGHTS", 4 * 2 * (9 + 1) * 16)  # of 16 channels
    with few, thresholds(bands_worth=1, bands_kept=0, bands_rows=1):
        steps = net.load().plan.program.steps
    assert max(step.share for step in steps) < 0.25


@each_tier
@pytest.mark.parametrize(
    ("images", "channels", "threads", "apart"),
    [(1, 72, 2, True), (1, 48, 2, True), (4, 48, 2, True), (2, 16, 2, True), (1, 16, 2, False), (3, 16, 2, False)],
    ids=["channels", "uneven channels", "images of several lines", "images", "one line", "uneven images"],
)
def test_threads_do_small_windows_apart(tier: Tier, images: int, channels: int, threads: int, apart: bool) -> None:
    """Between transposes: as then they need not wait for one another, however little memory that saves."""
    net = Net()
    net.output(in_a_row(net, "dam", net.input("x", (images, channels, 13, 7)), channels))
    feeds = feeds_for(net.load())
    with thresholds(bands_worth=1 << 40):
        whole = list(fg.load(net.bytes(), threads=1, isa=tier.name).run(feeds).values())
    with thresholds(waking_work=0):
        model = fg.load(net.bytes(), threads=threads, isa=tier.name)
    steps = model.plan.program.steps
    assert {step.part for step in steps} == (set(range(1, threads + 1)) if apart else {0})
    check_steps(model.plan, feeds, within(1e-5))
    poison(model.plan)
    for _ in range(2):
        np.testing.assert_array_equal(list(model.run(feeds).values()), whole)


@pytest.mark.parametrize("budget", [1, 1 << 13])
def test_pools_of_bf16_in_a_row(budget: int) -> None:
    """Between layers that multiply bf16 maps are bf16, and so is scratch."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 64, 16, 16)), 64, 64, 3))
    net.output(conv(net, in_a_row(net, "mm", x, 64), 64, 64, 3))
    feeds, found = feeds_for(net.load()), []
    for worth in (1, 1 << 40):
        with thresholds(bands_worth=worth, bands_budget=budget, bands_kept=0):
            model = fg.load(net.bytes(), threads=1, precision="bfloat16")
        assert any(step.share < 1 for step in model.plan.program.steps if step.node.op == "max_pool") == (worth == 1)
        found.append(list(model.run(feeds).values())[0])
    np.testing.assert_array_equal(*found)


@needs_amx
@pytest.mark.parametrize("budget", [1, 100000, 200000])
def test_bands_of_few_rows_are_multiplied_on_tiles_as_all_rows_are(budget: int) -> None:
    """On tiles a sum in f32 has other bits; which layers are worth them is asked of whole maps."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 64, 14, 14)), 64, 192, 1))
    x = net("Relu", conv(net, x, 192, 192, 3, group=192, pads=[1] * 4))
    net.output(conv(net, x, 192, 64, 1))
    feeds, found = feeds_for(net.load()), []
    for worth, threads in ((1 << 40, 1), (1, 1), (1, 2)):
        with thresholds(bands_worth=worth, bands_budget=budget), tiles():
            plan = compile_graph(graph_of(net.bytes()), {}, AMX, threads)
            assert "amx_real" in {kernel.name for kernel in plan.kernels()}
            plan.fill(feeds)
            plan.execute()
            found.append([array.copy() for array in plan.results().values()])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


# -- blocks that a draw found to be wrong, or that have something beside them


def of_a_sum(net: Net, project: bool, twice: bool) -> str:
    """y = relu(depthwise(e)) + e: a band has only the rows of e that depthwise reads, and in another place."""
    e = net("Relu", conv(net, net.input("x", (1, C, 12, 8)), C, C, 1))
    d = net("Relu", conv(net, e, C, C, 3, group=C))
    y = net("Sum", d, e, *([e] if twice else []))
    return conv(net, y, C, C, 1) if project else y


def of_what_depthwise_gives(net: Net) -> str:
    """A sum that reads what the depthwise layer gives."""
    d = conv(net, conv(net, net.input("x", (1, C, 12, 8)), C, C, 1), C, C, 3, group=C)
    return net("Add", net("Relu", conv(net, d, C, C, 1)), d)


def of_other_rows(net: Net, start: int) -> str:
    """The sum may be made over its operand, some rows of a map; the block reads rows of that map further on."""
    whole = net("Relu", conv(net, net.input("x", (1, C, 14, 8)), C, C, 1))
    rows = [[net.const(np.array([n], I64)) for n in (first, first + 12, 2)] for first in (start, 1)]
    operand, x = net("Slice", whole, *rows[0]), net("Slice", whole, *rows[1])
    e = net("Relu", conv(net, x, C, C, 1))
    y = conv(net, net("Relu", conv(net, e, C, C, 3, group=C)), C, C, 1)
    return conv(net, net("Add", y, operand), C, C, 3)


def of_rows_that_nobody_reads(net: Net, dense: bool) -> str:
    """The last row of each image is skipped by the stride, behind a 1x1 layer or where maps are turned."""
    x = net.input("x", (5, C, 4, 8))
    y = conv(net, conv(net, x, C, C, 1) if dense else x, C, C, 1, group=C, strides=[2, 2])
    return conv(net, y, C, C, 3, group=C)


def of_padding_alone(net: Net) -> str:
    """Padding below that is more than the kernel's reach: the last bands have no input rows."""
    e = net("Relu", conv(net, net.input("x", (1, C, 5, 5)), C, C, 1))
    return conv(net, conv(net, e, C, C, 3, group=C, pads=[1, 1, 6, 1]), C, C, 1)


def of_a_chain(net: Net) -> str:
    """Depthwise and 1x1 in turn, as in MobileNet v1: each 1x1 could end one block or begin the next."""
    x = conv(net, net.input("x", (1, 16, 8, 8)), 16, 16, 1)
    for _ in range(4):
        x = net("Relu", conv(net, net("Relu", conv(net, x, 16, 16, 3, group=16)), 16, 16, 1))
    return x


def of_a_gate(net: Net, batch: int) -> str:
    """As in squeeze and excite: rows of several images would need several of its values."""
    x = net.input("x", (batch, 16, 9, 9))
    y = net("Relu", conv(net, net("Relu", conv(net, x, 16, 32, 1)), 32, 32, 3, group=32))
    return net("Mul", conv(net, y, 32, 16, 1), net("Sigmoid", net("GlobalAveragePool", x)))


def of_a_multiplier(net: Net) -> str:
    x = net("Relu", conv(net, net.input("x", (2, 8, 6, 6)), 8, 16, 1))
    return conv(net, net("Conv", x, net.weight(32, 1, 3, 3), group=16, pads=[1] * 4), 32, 8, 1)


def of_rows_left_over(net: Net, expand: bool) -> str:
    """The last rows of each image are read by no window: those of the next image follow these nevertheless."""
    x = net.input("x", (3, C, 4, 4))
    e = conv(net, x, C, C, 1) if expand else x
    return conv(net, conv(net, e, C, C, 2, strides=[3, 3], group=C, pads=[0] * 4), C, C, 1)


FOUND: dict[str, Callable[[Net], str]] = {
    "a sum with e": partial(of_a_sum, project=False, twice=False),
    "a sum with e, then dense": partial(of_a_sum, project=True, twice=False),
    "a sum with e and e": partial(of_a_sum, project=True, twice=True),
    "what depthwise gives": of_what_depthwise_gives,
    **{f"rows from {n}": partial(of_other_rows, start=n) for n in range(3)},
    "rows that nobody reads": partial(of_rows_that_nobody_reads, dense=True),
    "rows that nobody turns": partial(of_rows_that_nobody_reads, dense=False),
    "padding alone": of_padding_alone,
    "a chain": of_a_chain,
    "a gate": partial(of_a_gate, batch=1),
    "a gate of each image": partial(of_a_gate, batch=3),
    "a multiplier": of_a_multiplier,
    "rows left over": partial(of_rows_left_over, expand=False),
    "rows left over by a block": partial(of_rows_left_over, expand=True),
}


@pytest.mark.parametrize("name", FOUND)
def test_blocks_that_were_wrong(name: str) -> None:
    net = Net()
    net.output(FOUND[name](net))
    for budget in (1, 1 << 13, 1 << 20):
        check_bands(Case(net.bytes(), feeds_for(net.load())), budget)


def test_a_map_read_elsewhere_is_made() -> None:
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 16, 8, 8)), 16, 32, 1))
    y = net("Relu", conv(net, x, 32, 32, 3, group=32))
    net.output(conv(net, y, 32, 16, 1), net("GlobalAveragePool", x), net("GlobalMaxPool", y))
    with thresholds(bands_worth=1):
        model = net.agrees(1e-5)
    check_steps(model.plan, feeds_for(model), within(1e-5))


def test_operands_of_windows_are_not_set_aside_for_each_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum behind a depthwise layer's activation, made over its operand: threads would copy rows that others write."""
    monkeypatch.setenv("FASTGRAPH_CHECK", "1")
    net = Net()
    x = net("Relu", conv(net, net.input("x", (2, C, 6, 4)), C, C, 3))
    e = net("Sigmoid", conv(net, x, C, C, 1))
    net.output(net("Add", net("HardSwish", conv(net, e, C, C, 3, group=C)), x))
    for budget in (1, 1 << 13):
        check_bands(Case(net.bytes(), feeds_for(net.load())), budget)


def test_a_residual_block_is_still_done_in_bands() -> None:
    """What may be done in bands is: around the block, a sum with what it reads."""
    net = Net()
    x = conv(net, net.input("x", (1, C, 12, 8)), C, C, 3)
    y = conv(net, net("Relu", conv(net, net("Relu", conv(net, x, C, C, 1)), C, C, 3, group=C)), C, C, 1)
    net.output(conv(net, net("Add", y, x), C, C, 3), net("Concat", x, y, axis=1))
    with thresholds(bands_worth=1, bands_budget=1):
        assert any(step.share < 1 for step in net.load().plan.program.steps)
    check_bands(Case(net.bytes(), feeds_for(net.load())), 1)

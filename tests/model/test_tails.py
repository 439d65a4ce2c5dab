"""Networks whose later layers have as many rows as the first ones compute: planned when these are known."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.ir import is_open
from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.evaluate import evaluate
from fastgraph.runtime import tail
from tests.nets import F32, Net, assert_close, by_onnxruntime

TOKENS, WIDTH = 70, 12
"""More durations than values that decide shapes may have."""


@pytest.fixture(autouse=True)
def small_networks_are_planned() -> Iterator[None]:
    with thresholds(planning_work=0):
        yield


def frames(net: Net, x: str, durations: str) -> str:
    """Row i of x [TOKENS, n] as often as durations[i] says: [frames, n], by a product with a mask."""
    ends = net("CumSum", durations, 0)
    starts = net("Sub", ends, durations)
    total = net("Cast", net("ReduceSum", durations, keepdims=0), to=7)
    number = net("Cast", net("Range", 0, total, 1), to=1)
    number = net("Unsqueeze", number, [1])
    inside = net("And", net("Less", number, ends), net("GreaterOrEqual", number, starts))
    return net("MatMul", net("Cast", inside, to=1), x)


def layers(net: Net, x: str, *, count: int = 2) -> str:
    """Convolutions along the rows of x [frames, WIDTH]."""
    y = net("Unsqueeze", net("Transpose", x, perm=[1, 0]), [0])
    for _ in range(count):
        y = net("LeakyRelu", net("Conv", y, net.weight(WIDTH, WIDTH, 3), net.weight(WIDTH), pads=[1, 1]))
    return y


def speech(tokens: int | str = TOKENS) -> Net:
    """A vocoder's shape: durations are computed, and what follows is as long as their sum."""
    net = Net()
    x = net.input("x", (tokens, WIDTH))
    durations = net("Round", net("Relu", net("ReduceMean", net("Mul", x, x), axes=[1], keepdims=0)))
    y = layers(net, frames(net, net("Gemm", x, net.weight(WIDTH, WIDTH)), durations))
    net.output(net("Tanh", y), durations)
    return net


def fed(seed: int, size: float = 1.0, tokens: int = TOKENS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": (rng.standard_normal((tokens, WIDTH)) * size).astype(F32)}


def agree(net: Net, model: fg.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    found = list(model.run(feeds).values())
    assert_close(found, by_onnxruntime(net.bytes(), feeds))
    return found


def test_each_length_has_a_plan() -> None:
    net = speech()
    model = net.load()
    lengths = [agree(net, model, fed(seed, size))[0].shape for seed, size in ((0, 1), (1, 2), (2, 0.9), (0, 1))]
    assert len(set(lengths)) == 3 and model.plan.plans_tail
    with patch.object(tail, "evaluate", lambda graph, feeds: evaluate(graph, feeds) if not graph.nodes else None):
        model.run(fed(0))


def opened(model: fg.Model) -> int:
    """Plans for many lengths."""
    return sum(is_open(key.opens) for key in model._plans.keys())


def test_one_plan_for_many_lengths() -> None:
    """From the second run on: lengths that layers compute are new in each."""
    net = speech()
    model = net.load()
    lengths = {agree(net, model, fed(seed, 1 + seed / 40))[0].shape for seed in range(12)}
    [part] = model._plans.current._tail._idle
    assert len(lengths) > 6 and opened(part) and len(part._plans._plans) <= 2 + opened(part) < 6


def test_one_plan_for_many_lengths_of_both() -> None:
    """How long the input is and how long the results are are two groups of lengths."""
    net = speech("tokens")
    model = net.load()
    for n in range(60, 80):
        agree(net, model, fed(n, 1 + n % 7 / 10, n))
    assert 0 < opened(model) < 4 and len(model._plans._plans) <= 3 + opened(model)
    part = model._plans.current._tail._idle[0]
    assert opened(part) and len(part._plans._plans) <= 2 + opened(part)


def test_no_frame_at_all() -> None:
    net = speech()
    model = net.load()
    found = model.run(fed(0, 0.0))
    assert [y.shape for y in found.values()] == [(1, WIDTH, 0), (TOKENS,)]
    agree(net, model, fed(0))


@pytest.mark.parametrize("isa", [tier.name for tier in usable()] + ["numpy"])
def test_tiers(isa: str) -> None:
    net = speech()
    agree(net, net.load(isa=isa), fed(3))


def test_threads_and_clones_give_the_same_bits() -> None:
    net = speech()
    one, two = (fg.load(net.bytes(), threads=n) for n in (1, 2))
    feeds = [fed(seed, 1 + seed / 4) for seed in range(6)]
    expected = [one(*each.values()) for each in feeds]
    clones = [one, one.clone(), two]

    def run(i: int) -> None:
        for found, wanted in zip(clones[i % 3].run(feeds[i % 6]).values(), expected[i % 6], strict=True):
            np.testing.assert_array_equal(found, wanted)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(24)))


def test_lengths_twice() -> None:
    """A network that computes durations of what it made by the first ones."""
    net = Net()
    first = net.input("x", (TOKENS, WIDTH))
    durations = net("Round", net("Relu", net("ReduceMean", net("Mul", first, first), axes=[1], keepdims=0)))
    y = layers(net, frames(net, first, durations))
    x = net("Transpose", net("Squeeze", y, [0]), perm=[1, 0])
    again = net("Round", net("Abs", net("ReduceSum", x, [1], keepdims=0)))
    net.output(layers(net, frames(net, x, again)), durations)
    model = net.load()
    for seed in range(3):
        agree(net, model, fed(seed))


def test_what_only_data_give_a_shape_is_first() -> None:
    """Which of its branches an If takes, nobody knows before the run."""
    net = Net()
    x = net.input("x", (TOKENS, WIDTH))
    y, p = net("Relu", x), net("Greater", net("ReduceSum", x, keepdims=0), 0.0)
    some, all_ = Net(prefix="some."), Net(prefix="all.")
    some.output(some("Slice", y, *([n] for n in (5, 30))))
    all_.output(all_("Neg", y))
    rows = net("If", p, then_branch=some.graph(), else_branch=all_.graph())
    net.output(layers(net, rows))
    model = net.load()
    for chosen in (True, False, True):
        feeds = {"x": np.abs(fed(1)["x"]) * F32.type(1 if chosen else -1)}
        shape = agree(net, model, feeds)[0].shape
        assert shape == (1, WIDTH, 25 if chosen else TOKENS)
    assert model.plan.plans_tail


def test_a_branch_by_an_element_of_a_list() -> None:
    """Nothing of it can be planned before the run, nor is any of it known before the branch is taken."""
    net = Net()
    x = net.input("x", (TOKENS, WIDTH))
    y = net("SequenceAt", net("SequenceConstruct", x, x), -1)
    p = net("Greater", net("ReduceMean", y, keepdims=0), 0.0)
    heavy, light = Net(prefix="heavy."), Net(prefix="light.")
    heavy.output(heavy("MatMul", y, heavy.weight(WIDTH, WIDTH)))
    light.output(light("Neg", y))
    net.output(net("If", p, then_branch=heavy.graph(), else_branch=light.graph()))
    model = net.load()
    for sign in (1, -1):
        agree(net, model, {"x": np.abs(fed(1)["x"]) * F32.type(sign)})


def test_a_deadline_holds_behind_the_program() -> None:
    net = speech()
    model = net.load()
    with pytest.raises(fg.RunTimeout):
        model.run(fed(0, 3.0), timeout=0)
    agree(net, model, fed(0, 3.0))
    assert model.run(fed(0, 3.0), timeout=60)


def test_small_ones_stay_with_the_references() -> None:
    net = speech()
    with (
        thresholds(planning_work=1 << 60),
        patch("fastgraph.runtime.model._part", side_effect=AssertionError("planned")),
    ):
        agree(net, net.load(), fed(0))


def test_what_is_said_of_it() -> None:
    model = speech().load()
    assert "planned when these are known" in str(model.plan)
    assert "planned when these are known" in str(model)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    net = Net()
    x = net.input("x", (TOKENS, WIDTH))
    durations = net("Round", net("Relu", net("ReduceMean", net("Mul", x, x), axes=[1], keepdims=0)))
    y = layers(net, frames(net, x, durations))
    net.output(net("Add", y, np.zeros((1, WIDTH, 7), F32)))
    with pytest.raises(fg.FastgraphError, match="Add|add"):
        net.load().run(fed(0))


def test_verify_looks_at_the_steps_of_the_tail() -> None:
    report = fg.verify(speech().load(), fed(0))
    inside = [step for step in report.steps if step.op.startswith("conv")]
    assert report.ok and len(inside) == 2 and all(0 < step.error <= step.allowed for step in inside)
    assert {step.kernel for step in inside} != {"numpy"}

"""Control flow as steps of the program: against onnxruntime, and beside the references."""

import threading

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError, PlanError, RunTimeout
from fastgraph.freedoms import without
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.plan.packing import Buffer
from fastgraph.plan.program import HostStep, Jump
from fastgraph.plan.verify import verify
from tests.dirt import dirty, soil
from tests.kernels.harness import each_tier
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime
from tests.plan.control_nets import BOOL, NETS, SHAPE, body, drawn, until


def feeds(net: Net, seed: int) -> dict[str, np.ndarray]:
    """Random numbers, flags, and trip counts from 0 on."""
    rng, found = np.random.default_rng(seed), {}
    for value in net.inputs:
        kind = value.type.tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        if kind.elem_type == 1:
            found[value.name] = rng.standard_normal(shape).astype(F32)
        else:
            found[value.name] = np.array(rng.integers(0, 2) > 0) if kind.elem_type == 9 else np.array(seed % 5, I64)
    return found


def is_native(model: fg.Model) -> bool:
    """Whether the plan has jumps, and nothing for NumPy."""
    steps = model.plan.program.steps
    return any(isinstance(s, Jump) for s in steps) and not any(isinstance(s, HostStep) for s in steps)


@each_tier
@pytest.mark.parametrize("name", NETS)
def test_networks(name: str, tier: Tier) -> None:
    """In dirty memory, on one thread and on two; then each node beside its reference."""
    net = NETS[name]()
    for threads in (1, 2):
        model = dirty(fg.load(net.bytes(), threads=threads, isa=tier.name))
        soil(model.plan)
        assert is_native(model) and model.plan.tail is None
        for seed in range(6):
            fed = feeds(net, seed)
            assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed), what=f"{threads} {seed}")
            assert fg.verify(model, fed).ok


@pytest.mark.parametrize("name", NETS)
def test_switched_off(name: str) -> None:
    net = NETS[name]()
    with without("control"):
        model = fg.load(net.bytes(), threads=1)
    assert not is_native(model)
    for seed in range(3):
        fed = feeds(net, seed)
        assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed))


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    """As onnxruntime computes them; to the bit the same on two threads, and where no memory is used twice."""
    net = drawn(seed)
    source = net.bytes()
    models = [dirty(fg.load(source, threads=threads)) for threads in (1, 2)]
    with without("reuse", "views", "in_place"):
        models.append(fg.load(source, threads=1))
    for number in range(3):
        fed = feeds(net, 5 * seed + number)
        expected = by_onnxruntime(source, fed)
        first, *others = [list(model.run(fed).values()) for model in models]
        assert_close(first, expected, what=f"{seed} {number}")
        for other in others:
            for a, b in zip(first, other, strict=True):
                np.testing.assert_array_equal(a, b)


def endless() -> Net:
    net = Net()
    inner = body("b", True, ("s", SHAPE))
    inner.output(inner("Identity", "bgo"), dtype=BOOL)
    inner.output(inner("Tanh", "s"))
    net.output(net("Loop", "", "", net.input("x", SHAPE), body=inner.graph()))
    return net


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_without_end_is_stopped(threads: int) -> None:
    model = fg.load(endless().bytes(), threads=threads)
    assert is_native(model)
    with pytest.raises(RunTimeout):
        model.run({"x": np.ones(SHAPE, F32)}, timeout=0.05)


def test_a_long_loop_takes_no_more_stack_than_a_short_one() -> None:
    """A team's walk from jump to jump is a loop of one function: what it takes of the stack, it takes once."""
    model = fg.load(endless().bytes(), threads=2)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            model.run({"x": np.ones(SHAPE, F32)}, timeout=0.5)
        except RunTimeout as error:
            caught.append(error)

    size = threading.stack_size(1 << 18)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(size)
    thread.join()
    assert caught


@pytest.mark.parametrize("threads", [1, 2])
def test_host_steps_in_a_loop(threads: int) -> None:
    """NumPy takes its turn between native calls, round by round."""
    net = Net()
    inner = body("b", True, ("s", SHAPE))
    product = inner("Tanh", inner("MatMul", "s", inner.weight(8, 8)))
    summed = inner("Add", product, inner("Det", inner("MatMul", inner("Transpose", product), product)))
    inner.output(inner("Less", inner("ReduceMax", summed, keepdims=0), 5.0), dtype=BOOL)
    inner.output(inner("Add", summed, "s"))
    net.output(net("Relu", net("Loop", net.input("most", (), I64), "", net.input("x", SHAPE), body=inner.graph())))
    model = dirty(fg.load(net.bytes(), threads=threads))
    steps = model.plan.program.steps
    assert [step.node.op for step in steps if isinstance(step, HostStep)] == ["det"]
    assert any(isinstance(step, Jump) for step in steps)
    for seed in range(5):
        fed = feeds(net, seed)
        assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed))
        assert fg.verify(model, fed).ok


def test_a_branch_that_makes_no_sense() -> None:
    """A plan for shapes that fit one branch only runs that natively, and says so when the other is to be taken."""
    net = Net()
    x = net.input("x", (2, None))
    one, other = body("one"), body("other")
    one.output(one("MatMul", x, one.weight(8, 4)))
    other.output(other("MatMul", x, other.weight(6, 4)))
    net.output(net("If", net.input("c", (), BOOL), then_branch=one.graph(), else_branch=other.graph()))
    model = fg.load(net.bytes(), threads=1)
    for width, fits in ((8, True), (6, False), (8, True)):
        fed = {"x": np.ones((2, width), F32), "c": np.array(fits)}
        assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed))
        assert is_native(model)
        with pytest.raises(InputError, match="branch"):
            model.run({**fed, "c": np.array(not fits)})
        assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed))


def test_a_branch_that_is_always_taken_stands_in_the_graph() -> None:
    """Also where the condition follows from a shape, in a body."""
    net = Net()
    x = net.input("x", (2, None))
    long = net("Greater", net("Gather", net("Shape", x), 1), 5)
    outer, then, other = body("o", True, ("s", (2, 8))), body("then"), body("else")
    then.output(then("Tanh", "s"))
    other.output(other("Reshape", "s", [16]))
    taken = outer("If", long, then_branch=then.graph(), else_branch=other.graph())
    outer.output(outer("Identity", "ogo"), dtype=BOOL)
    outer.output(taken)
    net.output(net("Loop", 2, "", x, body=outer.graph()))
    model = fg.load(net.bytes(), threads=1)
    fed = {"x": np.ones((2, 8), F32)}
    assert_close(list(model.run(fed).values()), by_onnxruntime(net.bytes(), fed))
    assert is_native(model) and sum(isinstance(s, Jump) for s in model.plan.program.steps) == 1


def test_the_plan_names_jumps() -> None:
    model = fg.load(until().bytes(), threads=1)
    assert "jump to 13 unless" in str(model.plan) and "jump to 5 if" in str(model.plan)


def test_arenas_are_checked_over_rounds() -> None:
    """What lives on from round to round shares its memory with nothing of a round."""
    buffers = [Buffer("kept", 0, 2, 64), Buffer("made", 3, 4, 64)]
    verify(buffers, [0, 0], 64)
    with pytest.raises(PlanError, match="loop"):
        verify(buffers, [0, 0], 64, [(1, 4)])

"""Plans of one model take turns in one block of memory: whatever lies there, each gives what a fresh load gives."""

import gc
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import choose, usable
from fastgraph.runtime import plans as keeping
from fastgraph.runtime.allocate import Allocation
from fastgraph.runtime.model import Model
from fastgraph.runtime.plans import Plans
from tests.blocks import BLOCKS, RARE
from tests.dirt import dirty
from tests.model.test_plans import convolved, embedded, opened, scaled
from tests.nets import F32, I64, Net
from tests.quantized_blocks import QDQ

Feeds = dict[str, np.ndarray]
NETS = {**BLOCKS, **RARE, **QDQ}
LIMITS: list[Any] = [None, 2, "20kB", "200kB", fg.Plans(count=3, bytes="64kB")]


@pytest.fixture(autouse=True)
def own_plans() -> Iterator[None]:
    """All shapes have plans of their own: those for many lengths may give other last bits."""
    with thresholds(native_work=-1):
        yield


def same(found: list[np.ndarray], expected: list[np.ndarray], what: object) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), what
        np.testing.assert_array_equal(one, other, err_msg=str(what))


def executed(model: fg.Model, feeds: Feeds) -> list[np.ndarray]:
    """A run without copies, after a resize to the shapes of what is fed."""
    model.resize({name: array.shape for name, array in feeds.items()})
    for name, array in feeds.items():
        model.input(name)[...] = array
    model.execute()
    return [model.output(spec.name) for spec in model.outputs]


def fed(rng: np.random.Generator, model: fg.Model, dims: dict[str, Any]) -> Feeds:
    """Random numbers for each input."""
    found = {}
    for spec in model.inputs:
        array = rng.standard_normal(dims[spec.name])
        found[spec.name] = (array * 9).astype(np.int64) % 9 if spec.dtype.kind in "iu" else array
        found[spec.name] = found[spec.name].astype(spec.dtype)
    return found


# -- in any order of calls


def interleaved(rng: random.Random, model: fg.Model, cases: list[tuple[Feeds, list[np.ndarray]]]) -> None:
    """Runs, runs without copies and plans ahead, of these feeds with these results."""
    held: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for turn in range(24):
        feeds, expected = rng.choice(cases)
        what = rng.choice(["run", "execute", "prepare", "same"])
        if what == "run":
            same(list(model.run(feeds).values()), expected, turn)
            held = [], []
        elif what == "execute":
            found = executed(model, feeds)
            same(found, expected, turn)
            held = found, [array.copy() for array in found]
        elif what == "prepare":
            others = [rng.choice(cases)[0] for _ in range(2)]
            try:
                model.prepare([{name: array.shape for name, array in each.items()} for each in others])
            except fg.InputError as error:
                assert "prepare fewer" in str(error)
        elif held[0]:
            model.execute()
        same(*held, f"{turn}: what is in use is as it was after {what}")


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [*list(NETS)[::2], *(pytest.param(n, marks=pytest.mark.slow) for n in list(NETS)[1::2])]
)
def test_calls_in_any_order(name: str, threads: int) -> None:
    net, usual = opened(NETS[name])
    rng, source = random.Random(name), net.bytes()
    tier = rng.choice(usable()[1:]).name
    numbers, cases = np.random.default_rng(0), []
    model = dirty(fg.load(source, threads=threads, plans=rng.choice(LIMITS), isa=tier))
    for turn in range(6):
        shapes = {k: tuple(d if i == 1 or not turn or rng.random() < 0.3 else rng.choice([1, 2, 3, 7, 8, 16, 21])
                           for i, d in enumerate(dims)) for k, dims in usual.items()}  # fmt: skip
        feeds = fed(numbers, model, shapes)
        try:
            fresh = fg.load(source, threads=threads, shapes=shapes, isa=tier).run(feeds)
        except fg.FastgraphError:
            continue
        cases.append((feeds, list(fresh.values())))
    assert cases
    interleaved(rng, model, cases)


# -- states


def stateful(tail: bool) -> Graph:
    """Two states that become one another and change, beside products of any number of rows; with a part whose shapes
    depend on data if wanted.
    """
    f32, w = np.dtype(F32), np.random.default_rng(0).standard_normal((40, 24)).astype(F32)
    x = Value("x", TensorType(f32, ("n", 40)))
    a, b = (Value(name, TensorType(f32, (3, 24))) for name in "ab")
    count = Value("count", TensorType(f32, ()))
    one, axes = Value.constant("one", F32.type(1)), Value.constant("axes", np.array([0]))
    p, r, mean, c, d, more, y, z = (Value(name) for name in ("p", "r", "mean", "c", "d", "more", "y", "z"))
    nodes = [
        Node("matmul", [x, Value.constant("w", w)], [p]), Node("relu", [p], [r]),
        Node("reduce_mean", [r, axes], [mean], {"keepdims": 1}), Node("add", [a, mean], [c]),
        Node("sub", [b, one], [d]), Node("add", [count, one], [more]), Node("add", [r, count], [y]),
    ]  # fmt: skip
    outputs = [y, c, d]
    if tail:
        nodes.append(Node("non_zero", [r], [z]))
        outputs.append(z)
    graph = Graph("stateful", [x], outputs, nodes)
    first = np.arange(72, dtype=F32).reshape(3, 24)
    graph.states = [State(a, d, first), State(b, c, -first), State(count, more, np.zeros((), F32))]
    return graph


@pytest.mark.parametrize("tail", [False, True])
def test_states_have_the_same_places_in_all_plans(tail: bool) -> None:
    model, places = Model(stateful(tail), choose(None), 1), []
    for n in (1000, 1, 7, 64):
        model.resize({"x": (n, 40)})
        places.append([state.ctypes.data for state, _ in model.plan.states])
    assert places[0][0] == model.plan.memory.arena.ctypes.data and places.count(places[0]) == len(places)


class Fresh:
    """A model per shape, each with memory of its own, to which states are copied by hand."""

    def __init__(self, make: Callable[[], Graph], threads: int) -> None:
        self.make, self.threads = make, threads
        self.states: list[np.ndarray] | None = None

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        graph = self.make()
        graph.inputs[0].type = TensorType(x.dtype, x.shape)
        model = Model(graph, choose(None), self.threads)
        for (place, _), now in zip(model.plan.states, self.states or (), strict=self.states is not None):
            place[...] = now
        results = list(model.run({"x": x}).values())
        self.states = [place.copy() for place, _ in model.plan.states]
        return results


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("check", ["1", "guard"])
@pytest.mark.parametrize("seed", range(3))
def test_states_live_on(seed: int, check: str, tail: bool, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through changes of the block, plans made ahead, plans let go, and runs stopped at once."""
    monkeypatch.setenv("FASTGRAPH_CHECK", check)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    limits = Plans.of(rng.choice([None, 1, 2, "12kB"]))
    model = dirty(Model(stateful(tail), choose(None), threads, limits))
    fresh = Fresh(lambda: stateful(tail), threads)
    for turn in range(16):
        x = numbers.standard_normal((rng.choice([0, 1, 2, 7, 30, 64]), 40)).astype(F32)
        what = rng.choice(["run", "run", "execute", "prepare", "reset", "stop"])
        if what == "reset":
            model.reset_states()
            fresh.states = None
        elif what == "stop":
            with pytest.raises(fg.RunTimeout):
                model.run({"x": x}, timeout=0)
        elif what == "prepare" and limits.count != 1:
            model.prepare([{"x": x.shape}])
        elif what == "execute" and not tail:
            expected = fresh.run(x)
            same(executed(model, {"x": x}), expected, turn)
        else:
            same(list(model.run({"x": x}).values()), fresh.run(x), turn)


# -- what stays as it is


def test_planning_ahead_leaves_the_plan_in_use_alone() -> None:
    """Its inputs, outputs and states, though the block is left for a larger one."""
    model = dirty(Model(stateful(False), choose(None), 1))
    x = np.ones((4, 40), F32)
    results = [array.copy() for array in executed(model, {"x": x})]
    place, plan, states = model.input("x"), model.plan, [state.copy() for state, _ in model.plan.states]
    model.prepare([{"x": (400, 40)}, {"x": (2, 40)}])
    assert model.plan is plan and model.input("x") is place and (place == 1).all()
    same([model.output(spec.name) for spec in model.outputs], results, "outputs")
    same([state for state, _ in model.plan.states], states, "states")
    model.resize({"x": (4, 40)})
    assert model.plan is plan and (model.input("x") == 1).all(), "these shapes it has already"


def test_planning_ahead_lets_go_of_other_plans_than_the_one_in_use() -> None:
    model = scaled("n").load(plans=2)
    model(np.ones(3, F32))
    for n in (4, 5):
        model.prepare([{"x": (n,)}])
    used = model.plan.compiled
    model(np.ones(5, F32))
    model(np.ones(3, F32))
    assert model.plan.compiled is used


def test_inputs_are_zeros_after_a_resize() -> None:
    """Not what another plan left in their memory."""
    model = dirty(convolved().load())
    for shape in ((1, 3, 8, 8), (2, 3, 9, 9), (1, 3, 8, 8)):
        model.resize({"x": shape})
        assert not model.input("x").any()
        model.input("x")[...] = 3


def test_views_of_a_block_that_was_left_stay_readable() -> None:
    model = scaled("n").load()
    model.run({"x": np.ones(4, F32)})
    seen, run = model.input("x"), model.execute
    model.run({"x": np.ones(1 << 16, F32)})
    gc.collect()
    assert seen.tolist() == [1] * 4
    seen[...] = 2
    run()


# -- how much memory


def blocks(model: fg.Model, sizes: list[int]) -> list[int]:
    """The bytes of the blocks that are asked for while `scaled` runs on so many numbers."""
    asked, allocate = [], keeping.allocate

    def recorded(nbytes: int) -> Allocation:
        asked.append(nbytes)
        return allocate(nbytes)

    with patch.object(keeping, "allocate", recorded):
        for n in sizes:
            assert model(np.ones(n, F32)).tolist() == [3] * n
    return asked


def test_a_block_grows_by_half_at_least() -> None:
    model = scaled("n").load(plans=fg.Plans(count=100))
    asked = blocks(model, list(range(1 << 10, 1 << 13, 1 << 8)))
    assert len(asked) <= 7 and asked[0] == 8 << 10
    assert all(later >= 1.5 * one for one, later in zip(asked, asked[1:], strict=False))
    assert not blocks(model, [5, 1 << 12, 1 << 10]), "smaller ones fit"


def test_a_block_grows_within_the_limit() -> None:
    model = scaled("n").load(plans="400kB")
    asked = blocks(model, [n << 10 for n in range(1, 48)])
    assert max(asked) <= 400_000 and model._plans.nbytes <= 400_000 and len(asked) < 40


def test_a_block_beyond_the_limit_is_left_when_it_can_be() -> None:
    model = scaled("n").load(plans="100kB")
    model(np.ones(10, F32))
    model(np.ones(1 << 20, F32))
    large = weakref.ref(model.plan.memory.arena.base)
    assert model._plans.nbytes > 8 << 20
    model(np.ones(10, F32))
    gc.collect()
    assert model._plans.nbytes < 1000 and large() is None


def test_a_block_of_twice_what_is_kept_is_left() -> None:
    """However many bytes may be kept."""
    model = scaled("n").load(plans=2)
    for n in (1 << 20, 10, 20):
        model(np.ones(n, F32))
    assert model._plans.block_bytes < 1000


def test_blocks_that_were_left_are_freed() -> None:
    """Also those of plans that are kept and not in use."""
    model, left = scaled("n").load(), []
    for n in (10, 100, 1000, 10000):
        model(np.ones(n, F32))
        left.append(weakref.ref(model.plan.memory.arena.base))
    gc.collect()
    assert [block() is not None for block in left] == [False, False, False, True]
    model(np.ones(10, F32))
    assert model.plan.memory.arena.base is left[-1]()


def test_a_block_that_can_t_be_had_changes_nothing() -> None:
    """Neither the plan in use, nor what is kept; less than half more is asked for where that can't be had."""
    model, allocate = scaled("n").load(), keeping.allocate
    model(np.ones(1000, F32))
    plan, kept = model.plan, model._plans.nbytes

    def full(nbytes: int) -> Allocation:
        if nbytes > 9000:
            raise MemoryError(f"{nbytes} bytes are needed")
        return allocate(nbytes)

    with patch.object(keeping, "allocate", full):
        for call in (lambda: model(np.ones(5000, F32)), lambda: model.prepare([{"x": (5000,)}])):
            with pytest.raises(fg.InputError, match="not enough memory for input shapes"):
                call()
            assert (model.plan, model._plans.nbytes) == (plan, kept)
        assert model(np.ones(1100, F32)).tolist() == [3] * 1100
        assert model._plans.block_bytes < 9000
    assert model(np.ones(5000, F32)).tolist() == [3] * 5000


# -- stopped on the way


@pytest.mark.parametrize("at", range(12))
def test_a_change_of_plans_may_be_interrupted_anywhere(at: int) -> None:
    """The model runs on, and its states are what they were."""
    model = dirty(Model(stateful(False), choose(None), 1))
    fresh = Fresh(lambda: stateful(False), 1)
    steps = iter(range(100))

    def step(of: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any) -> Any:
            if next(steps) == at:
                raise KeyboardInterrupt
            result = of(*args)
            if next(steps) == at:
                raise KeyboardInterrupt
            return result

        return stepped

    names = ["_grow", "_move", "_add", "_executable"]
    small, large = np.ones((2, 40), F32), np.full((300, 40), 0.5, F32)
    same(list(model.run({"x": small}).values()), fresh.run(small), "before")
    with patch.multiple(keeping.Kept, **{name: step(getattr(keeping.Kept, name)) for name in names}):
        try:
            found: Any = list(model.run({"x": large}).values())
        except KeyboardInterrupt:
            found = None
    if found is not None:
        same(found, fresh.run(large), "not reached")
    for x in (small, large, small):
        same(list(model.run({"x": x}).values()), fresh.run(x), "after")


# -- values that have no memory


def test_text_is_fed_by_run_alone() -> None:
    net = Net(opset=20)
    text = net.input("text", ("n",), object)
    net.output(net("StringConcat", text, text), dtype=object)
    model = net.load()
    model.resize({"text": (1,)})
    with pytest.raises(fg.InputError, match="'text' of the plan in use was not fed"):
        model.execute()
    for fed in (["a"], ["b", "c"], ["d"]):
        assert model(np.array(fed, object)).tolist() == [2 * each for each in fed]


def test_results_whose_shapes_hang_on_data() -> None:
    net = Net()
    net.output(net("NonZero", net("Relu", net.input("x", ("n", "m")))), dtype=I64)
    model, rng = dirty(net.load(plans=2)), np.random.default_rng(0)
    for shape in ((2, 3), (50, 7), (0, 4), (2, 3), (90, 9), (2, 3)):
        x = rng.standard_normal(shape).astype(F32)
        np.testing.assert_array_equal(model(x), np.array(np.nonzero(x > 0)))


@pytest.mark.parametrize("isa", ["numpy", *(tier.name for tier in usable())])
@pytest.mark.parametrize("build", [embedded, convolved])
def test_every_tier_in_dirt(build: Callable[[], Net], isa: str) -> None:
    net, rng = build(), np.random.default_rng(0)
    model = dirty(net.load(isa=isa, threads=2))
    for shape in [(1, 7), (3, 2), (1, 7)] if build is embedded else [(1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 8, 8)]:
        x = rng.integers(0, 50, shape) if build is embedded else rng.standard_normal(shape).astype(F32)
        feeds = {model.inputs[0].name: x}
        fresh = net.load(isa=isa, threads=2, shapes={model.inputs[0].name: shape})
        same(list(model.run(feeds).values()), list(fresh.run(feeds).values()), shape)

"""Models whose input shapes are open: which plans are kept, what they share, and that each is a fresh load's."""

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fastgraph as fg
from fastgraph import compile as compiling
from fastgraph.freedoms import thresholds, without
from fastgraph.ir.weights import Weights, once
from fastgraph.plan.program import ERROR, Program, Ref, Step, Table
from fastgraph.runtime import executable
from fastgraph.runtime.executable import Executable
from tests.blocks import BLOCKS, RARE
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime
from tests.quantized_blocks import QDQ


def scaled(*shape: Any) -> Net:
    """y = 2 x + 1"""
    net = Net()
    x = net.input("x", shape)
    net.output(net("Add", net("Mul", x, 2.0), 1.0))
    return net


def layers() -> Net:
    """Two dense layers of 64 KB and 48 KB over any number of rows."""
    net = Net()
    y = net("Relu", net("MatMul", net.input("x", ("n", 128)), net.weight(128, 128)))
    net.output(net("Gemm", y, net.weight(96, 128), net.weight(96), transB=1))
    return net


@contextmanager
def unlinked() -> Iterator[None]:
    """Plans made within have no machine code: nothing is compiled, and nothing must run."""

    def linked(program: Program, *others: Any) -> dict[Any, int]:
        return dict.fromkeys(program.kernels(), 64)

    with patch.object(compiling, "linked", linked):
        yield


def message(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(fg.InputError) as caught:
        call(*args, **options)
    return str(caught.value)


# -- which are kept


def test_the_least_recently_used_goes_first() -> None:
    model = scaled("n").load(plans=8)
    plans = []
    for n in range(1, 9):
        model.resize({"x": (n,)})
        plans.append(model.plan.compiled)
    model(np.ones(1, F32))
    assert model.plan.compiled is plans[0], "a kept plan is used again"
    model.resize({"x": (99,)})
    model(np.ones(1, F32))
    assert model.plan.compiled is plans[0], "the least recently used goes first"
    model.resize({"x": (2,)})
    assert model.plan.compiled is not plans[1]


def test_as_many_plans_as_have_room() -> None:
    """Arenas take turns in one block: all fit when the largest does. A block beyond the limit is not for longer than
    it is in use.
    """
    with unlinked():
        model = scaled("n").load(plans="7MB")
        plans = {}
        for n in (1, 2, 3, 4):
            model.resize({"x": (n + (1 << 18),)})
            plans[n] = model.plan
        assert 2e6 < model._plans.nbytes < 4e6, "two megabytes, for what is read and what is written"
        for n in (1, 2, 3):
            model.resize({"x": (n + (1 << 18),)})
            assert model.plan.compiled is plans[n].compiled
        model.resize({"x": (1 << 23,)})
        assert model.arena_bytes > 7e6, "the plan in use is kept, whatever it takes"
        assert model._plans.nbytes < model.arena_bytes + 4096, "and no other"
        model.resize({"x": (3 + (1 << 18),)})
        assert model.plan.compiled is not plans[3].compiled
        assert model._plans.nbytes < 3e6, "and nothing of it when it is not"


def test_both_limits_hold() -> None:
    with unlinked():
        model = scaled("n").load(plans=fg.Plans(count=2, bytes="7MB"))
        for n in (1, 2, 3):
            model.resize({"x": (n,)})
        first = model.plan
        model.resize({"x": (2,)})
        model.resize({"x": (3,)})
        assert model.plan is first
        model.resize({"x": (1 << 20,)})
        model.resize({"x": (3,)})
        assert model.plan is not first


def test_dropped_plans_free_their_memory() -> None:
    model = scaled("n").load(plans=4)
    size = 1 << 20
    tracemalloc.start()
    try:
        for n in range(12):
            model(np.ones(size // 4 + n, F32))
        assert tracemalloc.get_traced_memory()[0] < 5 * 2.5 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["residual", "classifier", "groups_by_reshapes", "pairs_of_words", "qdq_moves"])
def test_what_a_plan_takes(name: str) -> None:
    """Within a factor of two of what Python and NumPy are seen to take: records, steps, nodes, values."""
    net, dims = opened({**BLOCKS, **RARE, **QDQ}[name])
    model = net.load(plans=fg.Plans(count=99))
    wanted = [{k: (b, *shape[1:]) for k, shape in dims.items()} for b in range(1, 13)]
    for each in wanted[:3]:  # by then modules are imported, and weights made
        model.resize(each)
    gc.collect()
    tracemalloc.start(1)
    try:
        before = len(model._plans._plans), model._plans.nbytes, model._plans.block_bytes
        for each in wanted[3:]:
            model.resize(each)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] + before[2]
    finally:
        tracemalloc.stop()
    assert len(model._plans._plans) == len(wanted) > before[0]
    assert 0.5 < (model._plans.nbytes - before[1]) / taken < 2


def test_bytes_bound_plans_that_hardly_need_an_arena() -> None:
    with unlinked():
        model = scaled("n").load(plans=fg.Plans(bytes="200kB"))
        for n in range(1, 60):
            model.resize({"x": (n,)})
        assert model._plans.nbytes <= 200_000 and 5 < len(model._plans._plans) < 25


@pytest.mark.parametrize("given, count, most", [
    (8, 8, None), ("512MB", 64, 512_000_000), ("1.5 GiB", 64, 3 << 29), ("64 kib", 64, 1 << 16), ("100", 64, 100),
    (fg.Plans(count=np.int64(3)), 3, None), (fg.Plans(count=2, bytes=1000), 2, 1000), (fg.Plans(bytes=99), None, 99),
])  # fmt: skip
def test_limits_as_people_write_them(given: Any, count: int | None, most: int | None) -> None:
    limits = scaled("n").load(plans=given)._plans.limits
    assert (limits.count, limits.bytes) == (count, most)
    assert limits == fg.Plans(count, most) != fg.Plans(7, 7) and len({limits, fg.Plans(count, most)}) == 1


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "many", "12 parsecs", "-5MB", "0MB", "", b"1MB", [8], {}])
def test_limits_that_are_none(given: Any) -> None:
    assert "plans=8" in message(scaled("n").load, plans=given)


# -- what they share


def test_weights_are_there_once() -> None:
    """Packed once for all shapes that take the same panels, and in memory as long as a plan has them."""
    with unlinked():
        model = layers().load(plans=2)
        model.resize({"x": (640, 128)})
        first = model.plan
        alone = model._plans.nbytes
        assert alone < first.arena_bytes + 8192, "what all plans have in common costs no plan anything"
        assert sum(array.nbytes for array in first.memory.common) > 110_000
        model.resize({"x": (1280, 128)})
        second = model.plan
        assert {id(array) for array in second.memory.common} == {id(array) for array in first.memory.common}
        assert model._plans.nbytes < first.arena_bytes + second.arena_bytes + 16384


def test_weights_of_a_dropped_plan_stay_with_the_others() -> None:
    net, rng = layers(), np.random.default_rng(0)
    model = net.load(plans=1)
    for rows in (64, 640, 64):
        x = rng.standard_normal((rows, 128)).astype(F32)
        assert_close([model(x)], by_onnxruntime(net.bytes(), {"x": x}), 1e-5)


def test_weights_that_no_plan_has_are_let_go() -> None:
    with unlinked():
        model = layers().load(plans=1)
        model.resize({"x": (640, 128)})
        assert model._keys.shared is not None
        made = len(model._keys.shared.weights)
        for rows in (1, 2, 3, 5, 7, 640):
            model.resize({"x": (rows, 128)})
        assert len(model._keys.shared.weights) == made


# -- planning ahead


def test_prepared_plans_are_used() -> None:
    model = scaled("n", "m").load()
    model(np.ones((2, 2), F32))
    used = model.plan
    model.prepare([{"x": (3, 3)}, {"x": [4, 4]}, {"x": (3, 3)}])
    assert model.plan is used, "what is in use stays in use"
    with patch.object(executable, "make_plan", side_effect=AssertionError("planned again")):
        for n in (3, 4, 2):
            assert model(np.ones((n, n), F32)).tolist() == [[3] * n] * n


def test_preparing_keeps_states() -> None:
    """Variables live on in the plan in use."""
    net = Net()
    net.output(net("Relu", net.input("x", ("n",))))
    model = net.load()
    model.prepare([{"x": (3,)}])
    assert "run it once" in message(lambda: model.plan)
    model.prepare([])


def test_more_than_are_kept_can_t_be_prepared() -> None:
    with unlinked():
        model = scaled("n").load(plans=2)
        assert "1 of the plans for 3" in message(model.prepare, [{"x": (n,)} for n in (1, 2, 3)])
        model.prepare([{"x": (n,)} for n in (1, 2, 1, 2, 1)])


@pytest.mark.parametrize("shapes, said", [
    ([{"x": (2, 4)}], "'x'"), ([{"x": (2, 3)}, {}], "no shape for input 'x'"), ([{"y": (1,)}], "'y'"), (3, "list"),
    ({"x": (2, 3)}, "list"), ("x", "list"), ([(2, 3)], "dict"), ([{"x": 3}], "whole numbers"),
])  # fmt: skip
def test_preparing_nonsense(shapes: Any, said: str) -> None:
    with patch.object(executable, "make_plan", side_effect=AssertionError("planned")):
        assert said in message(scaled("n", 3).load().prepare, shapes)


# -- the same as a fresh load's


def said(program: Program) -> list[Any]:
    """All that a program does: kernels, records with owners as numbers and constants as they are, offsets."""
    numbers: dict[Any, int] = {owner: i for i, owner in enumerate(program.offsets)} | {ERROR.base: -1}
    constants = [(a.dtype, a.shape, a.tobytes()) for a in program.constants]

    def arg(slot: Any) -> Any:
        if isinstance(slot, Table):
            return [arg(word) for word in slot.words]
        if not isinstance(slot, Ref):
            return slot
        return numbers[slot.base] if slot.base in numbers else constants[slot.base], slot.offset

    steps = [(str(s.kernel), *map(arg, s.args)) if isinstance(s, Step) else str(s.node.op) for s in program.steps]
    return [steps, set(constants), list(program.offsets.values())]


def planned(model: fg.Model, shapes: dict[str, Any]) -> list[Any] | str:
    """What the plan for these shapes does, or why there is none."""
    try:
        model.resize(shapes)
    except fg.FastgraphError as error:
        return type(error).__name__
    return said(model.plan.program)


def opened(build: Callable[[Net], None]) -> tuple[Net, dict[str, list[int]]]:
    """A block of a network with all extents of its inputs open but the channels, and the extents that it was for."""
    net, usual = Net(), {}
    build(net)
    for value in net.inputs:
        dims = value.type.tensor_type.shape.dim
        usual[value.name] = [d.dim_value for d in dims]
        for i, d in enumerate(dims):
            if i != 1:
                d.dim_param = f"{value.name}{i}"
    return net, usual


@pytest.mark.parametrize("name", [*BLOCKS, *RARE, *QDQ])
def test_a_plan_is_what_a_fresh_load_makes(name: str) -> None:
    """Whatever was planned before: the same kernels on the same records, constants and places."""
    net, usual = opened({**BLOCKS, **RARE, **QDQ}[name])
    rng, source = random.Random(name), net.bytes()
    draws = [{k: tuple(d if i == 1 or rng.random() < 0.4 else rng.choice([1, 2, 3, 7, 8, 16, 33])
                       for i, d in enumerate(dims)) for k, dims in usual.items()} for _ in range(4)]  # fmt: skip
    order = [usual, *draws, *draws, usual]
    rng.shuffle(order)
    with unlinked():
        model = fg.load(source, threads=2, plans=2)
        for shapes in order:
            try:
                fresh: Any = said(fg.load(source, threads=2, shapes=shapes).plan.program)
            except fg.FastgraphError:
                fresh = "InputError"
            assert planned(model, shapes) == fresh, shapes


def test_what_is_said_of_a_plan_without_constants() -> None:
    """Its steps name the cell of errors all the same."""
    net = Net()
    net.output(net("Gather", net.input("x", (9, 24)), net.input("ids", (3,), I64)))
    with unlinked():
        program = net.load().plan.program
    assert not program.constants and (-1, 0) in said(program)[0][0]


def embedded() -> Net:
    """Two layers over embedded words, with a norm between them."""
    net = Net()
    words = net("Gather", net.weight(50, 24), net.input("ids", ("n", "t"), I64))
    y = net("LayerNormalization", words, net.weight(24), net.weight(24))
    net.output(net("Softmax", net("MatMul", y, net.weight(24, 24)), axis=-1))
    return net


def convolved() -> Net:
    net = Net()
    y = net("Conv", net.input("x", ("n", 3, "h", "w")), net.weight(8, 3, 3, 3), net.weight(8), pads=[1] * 4)
    y = net("Relu", net("BatchNormalization", y, *(np.linspace(0.5, 2, 8).astype(F32) for _ in range(4))))
    y = net("Conv", y, net.weight(8, 1, 3, 3), pads=[1] * 4, group=8, strides=[2, 2])
    net.output(net("Gemm", net("Flatten", net("GlobalAveragePool", y)), net.weight(8, 5), net.weight(5)))
    return net


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", [embedded, convolved])
@thresholds(native_work=-1)
def test_runs_are_those_of_a_fresh_load(build: Callable[[], Net], threads: int) -> None:
    """The same bits, in any order of shapes, with plans that are dropped and made again; none is for many shapes."""
    net, rng = build(), np.random.default_rng(0)
    source, model = net.bytes(), net.load(plans=2, threads=threads)
    shapes = [(1, 7), (3, 2), (2, 7)] if build is embedded else [(1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 7, 4)]
    for at in rng.integers(0, len(shapes), 12):
        shape = shapes[at]
        x = rng.integers(0, 50, shape) if build is embedded else rng.standard_normal(shape).astype(F32)
        feeds = {model.inputs[0].name: x}
        fresh = fg.load(source, threads=threads, shapes={model.inputs[0].name: shape})
        for one, other in zip(model.run(feeds).values(), fresh.run(feeds).values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_key_that_says_too_little_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With FASTGRAPH_CHECK, what another plan made is compared with what this one would have made."""
    monkeypatch.setenv("FASTGRAPH_CHECK", "1")
    made = iter(range(100))

    def changing(*args: Any, **options: Any) -> np.ndarray:
        return np.full(64, next(made), F32)

    with unlinked(), without("amx_real"), patch("fastgraph.plan.lower.gemm.layer_f32.pack_weights", changing):
        model = layers().load()
        monkeypatch.setattr("fastgraph.plan.lower.build.checked", lambda: "")
        model.resize({"x": (64, 128)})
        with pytest.raises(fg.PlanError, match="key"):
            model.resize({"x": (640, 128)})


# -- what can't be


BAD: dict[str, Any] = {
    "no columns": (1, 3, 8, 0), "no rows": (1, 3, 0, 8), "no pixels": (1, 3, 0, 0), "nothing": (0, 3, 0, 0),
    "a thousand million images": (10**9, 3, 8, 8), "of rows": (1, 3, 10**9, 8), "of columns": (1, 3, 8, 10**9),
    "of both": (1, 3, 10**9, 10**9), "of all": (10**9,) * 4, "more than an int64": (2**70, 3, 8, 8),
    "less than none": (-1, 3, 8, 8), "another rank": (1, 3, 8), "a fifth axis": (1, 3, 8, 8, 1), "no axis": (),
    "other channels": (1, 4, 8, 8), "halves": (1, 3, 8.5, 8), "text": "1388", "a number": 8, "None": None,
    "not fed": {},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("call", ["resize", "prepare"])
def test_shapes_that_can_t_be(name: str, call: str) -> None:
    """Nothing is kept of them, no memory is taken, and the next call works."""
    shapes = BAD[name] if isinstance(BAD[name], dict) else {"x": BAD[name]}
    with unlinked():
        model = convolved().load()
        model.resize({"x": (1, 3, 8, 8)})
        before, kept = model.plan, model._plans.nbytes
        tracemalloc.start()
        try:
            message(model.resize, shapes) if call == "resize" else message(model.prepare, [shapes])
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
        assert model.plan is before and model._plans.nbytes == kept
        model.resize({"x": (2, 3, 8, 8)})
        assert model.plan is not before


def spread(shape: tuple[int, ...], dtype: Any = F32) -> np.ndarray:
    """An array of any shape that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


FEEDS: dict[str, Any] = {
    **{name: spread(BAD[name]) for name in ("no columns", "no rows", "nothing", "another rank", "other channels")},
    **{name: spread(BAD[name]) for name in ("a thousand million images", "of rows", "of columns", "a fifth axis")},
    "f64 that f32 has not": np.full((1, 3, 8, 8), 0.1), "text": "image", "None": None, "a list of lists": [[1], [2, 3]],
    "objects": np.full((1, 3, 8, 8), None), "letters": np.full((1, 3, 8, 8), "a"),
    "complex": spread((1, 3, 8, 8), complex) + 1j, "too many to convert": spread((10**9, 3, 8, 8), np.float64),
    "a dict": {"x": 1}, "a function": len,
}  # fmt: skip


def test_feeds_that_can_t_be() -> None:
    """In turn with one that can."""
    net = convolved()
    model, x = net.load(), np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(F32)
    expected = model(x)
    assert_close([expected], by_onnxruntime(net.bytes(), {"x": x}), 1e-5)
    plan, kept = model.plan, model._plans.nbytes
    for name, fed in FEEDS.items():
        with pytest.raises(fg.InputError):
            model.run({"x": fed})
        assert (model.plan, model._plans.nbytes) == (plan, kept), name
        np.testing.assert_array_equal(model(x), expected)


def test_ranks_that_change_from_run_to_run() -> None:
    """An input whose rank the model leaves open takes any; one whose rank it names takes that."""
    model = scaled().load()
    assert "shape" in message(model, np.ones(2, F32))
    net = Net()
    net.output(net("Relu", net.input("x", None)))
    model = net.load(plans=2)
    for shape in ((2,), (2, 3), (), (1, 2, 3), (2,)):
        assert model(np.ones(shape, F32)).shape == shape
        assert model(np.ones((*shape, 0), F32)).shape == (*shape, 0)
        assert "axes" in message(model, np.ones((1,) * 33, F32))


def one_step(op: str, *operands: Any, opset: int = 17, **attrs: Any) -> Net:
    net = Net(opset)
    net.output(net(op, net.input("x", ("n", 3, "h", "w")), *map(net.const, operands), **attrs))
    return net


@pytest.mark.parametrize(
    "net",
    [convolved(), one_step("Pad", [0, 0, 1, 1] * 2, mode="reflect"), one_step("Softmax", opset=11, axis=1)],
    ids=["convolved", "Pad", "Softmax"],
)
def test_no_images_have_no_results(net: Net) -> None:
    """As in onnxruntime: an empty batch is one."""
    x = np.zeros((0, 3, 8, 8), F32)
    assert_close([net.load()(x)], by_onnxruntime(net.bytes(), {"x": x}))


def test_an_empty_operand_beside_others_is_fine() -> None:
    """As the memory of attention before the first word."""
    net = Net()
    net.output(net("Concat", net.input("past", ("n", 4)), net.input("x", (1, 4)), axis=0))
    assert net.load()(np.zeros((0, 4), F32), np.ones((1, 4), F32)).tolist() == [[1] * 4]


def test_a_model_that_declares_an_extent_of_0_has_it() -> None:
    assert scaled(0).load()(np.zeros(0, F32)).shape == (0,)


def test_models_with_fixed_shapes_share_nothing() -> None:
    plan: Executable = scaled(4).load().plan
    assert plan.compiled.shared is None and not plan.memory.common


def turned(array: np.ndarray) -> np.ndarray:
    return array[::-1].copy()


def hundred(number: int) -> np.ndarray:
    return np.full(100, number)


def test_constants_are_named_by_arrays_themselves() -> None:
    """Equal small arrays are one constant in all plans, others are not; large ones that don't last are none's."""
    weights = Weights([])
    small, other, large = np.zeros(4, F32), np.ones(4, F32), np.zeros(1 << 17, F32)

    def key(*parts: Any) -> Any:
        return weights.key(turned, parts)

    assert key("made", small) == key("made", small.copy()) is not None
    assert len({key("made", small), key("made", other), key("made", small.view(np.int32)), key(0.0), key(-0.0)}) == 5
    assert key(large) is None and key([1]) is None
    assert weights.key(hundred, [small]) != key(small)
    same = [1, 1.0, True, np.int64(1), (1,), "1", slice(1), {"1": 1}, np.ones(1), np.ones(1, np.int64), np.ones((1, 1))]
    assert len({key(part) for part in same}) == len(same)
    weights.keep("large", large)
    assert key(large[1:]) == key(large[1:]) != key(large[:-1])


def test_what_was_made_of_an_array_is_not_found_for_another_one_that_came_to_lie_there() -> None:
    weights = Weights([])
    with weights.planning() as used:
        first, place = once(turned, once(hundred, -1)), once(hundred, -1).__array_interface__["data"][0]
        used.clear()  # of that plan only `first` is still held
    again = False
    for number in range(100):
        with weights.planning() as used:
            source = once(hundred, number)
            again |= source.__array_interface__["data"][0] == place
            assert (once(turned, source) == number).all()
            del source
            used.clear()
    assert again and (first == -1).all()

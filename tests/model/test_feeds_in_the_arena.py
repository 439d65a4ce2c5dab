"""Feeds that lie in memory that the run writes, as views of outputs do: what they are at the call counts."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.feeds import without_overlap
from fastgraph.runtime.model import Model
from tests.dirt import dirty
from tests.model.test_shared_memory import stateful
from tests.nets import F32, I64, Net

Load = Callable[..., fg.Model]
Shapes = dict[str, tuple[int, ...]]


def delayed() -> Net:
    """Outputs that lie in the memory of inputs, in parts of it, and turned."""
    net = Net()
    x, before = net.input("x", ("n", 8)), net.input("before", ("m", 8))
    both = net("Concat", before, x, axis=0)
    for each in (
        net("Identity", x),
        both,
        net("Transpose", both, perm=[1, 0]),
        net("Slice", both, *map(net.const, ENDS)),
    ):
        net.output(each)
    net.output(net("Sub", net("ReduceSum", x, keepdims=1), net("ReduceMean", before, keepdims=1)))
    return net


ENDS = [np.array([i], I64) for i in (1, 2**31, 0)]


def vectors() -> Net:
    net = Net()
    x, y = net.input("x", ("n",)), net.input("y", ("k",))
    for each in (net("Concat", y, x, axis=0), net("Identity", y), net("Mul", x, 2.0)):
        net.output(each)
    return net


def one_vector() -> Net:
    """One input, which NumPy's assignment would copy wrongly from a part of itself with other strides."""
    net = Net()
    x = net.input("x", ("n",))
    net.output(net("Identity", x))
    net.output(net("Add", x, x))
    return net


def shaped() -> Net:
    """An input's value decides a shape: it lies in memory that plans for other values have, too."""
    net = Net()
    counts, to, more = net.input("counts", (2,), I64), net.input("to", (2,), I64), net.input("more", (2,), I64)
    net.output(net("Expand", net("ReduceSum", net("Add", counts, more), keepdims=1), to), dtype=I64)
    for each in (counts, more):
        net.output(net("Identity", each), dtype=I64)
    return net


def counted() -> Net:
    """Results whose shapes depend on data: the end is NumPy's."""
    net = Net()
    x, y = net.input("x", ("n", 4)), net.input("y", ("n", 4))
    net.output(net("NonZero", net("Relu", x)), dtype=I64)
    net.output(net("Unique", net("Add", x, y)))
    net.output(net("Identity", y))
    return net


NETS: dict[str, Load] = {build.__name__: build().load for build in (delayed, vectors, one_vector, shaped, counted)}
NETS["stateful"] = lambda threads, plans, isa: Model(stateful(False), choose(isa), threads, fg.Plans(count=plans))


class Views:
    """Memory of a model that a caller has seen, and arrays in it, of any strides."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.seen = rng, list[np.ndarray]()

    def look(self, model: fg.Model) -> None:
        for view, specs in ((model.input, model.inputs), (model.output, model.outputs)):
            for spec in specs:
                try:
                    self.seen.append(view(spec.name))
                except fg.FastgraphError:
                    continue
        del self.seen[:-12]

    def draw(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """An array in seen memory, perhaps turned, reversed, repeated or read-only; None where there is no room."""
        rng, fitting = self.rng, [view for view in self.seen if view.dtype == dtype and view.size]
        if not fitting:
            return None
        place = rng.choice(fitting)
        if place.shape == shape and rng.random() < 0.3:
            return place
        room = np.ndarray(
            (np.lib.array_utils.byte_bounds(place)[1] - place.ctypes.data) // dtype.itemsize, dtype, place
        )
        steps, at = [0] * len(shape), 1
        for axis in rng.sample(range(len(shape)), len(shape)):
            steps[axis] = rng.choice([at, at, -at, 2 * at, 0])
            at *= max(shape[axis], 1)
        low = sum(min(step * (extent - 1), 0) for step, extent in zip(steps, shape, strict=True) if extent)
        high = sum(max(step * (extent - 1), 0) for step, extent in zip(steps, shape, strict=True) if extent)
        if high - low >= room.size:
            return None
        start = rng.randrange(-low, room.size - high)
        return as_strided(room[start:], shape, [dtype.itemsize * s for s in steps], writeable=rng.random() < 0.5)


def drawn_shapes(rng: random.Random, model: fg.Model) -> Shapes:
    sizes: dict[Any, int] = {}
    return {spec.name: tuple(d if isinstance(d, int) else sizes.setdefault(d, rng.choice([1, 2, 3, 5, 8, 40, 90]))
                             for d in spec.shape or ()) for spec in model.inputs}  # fmt: skip


def drawn(rng: random.Random, numbers: np.random.Generator, model: fg.Model, views: Views) -> dict[str, np.ndarray]:
    """Feeds, most of which lie in the model's memory."""
    feeds = {}
    for name, shape in drawn_shapes(rng, model).items():
        dtype = next(spec.dtype for spec in model.inputs if spec.name == name)
        found = views.draw(shape, np.dtype(dtype)) if rng.random() < 0.7 else None
        if found is not None and dtype == I64 and not ((found > 0) & (found < 9)).all():
            found = None  # as extents, others can't be had
        if found is None:
            found = numbers.integers(1, 4, shape) if dtype == I64 else numbers.standard_normal(shape).astype(dtype)
        feeds[name] = found
    return feeds


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], what: object, bits: bool = True) -> None:
    for name in expected:
        one, other = np.ascontiguousarray(found[name]), np.ascontiguousarray(expected[name])
        assert one.shape == other.shape, (what, name)
        if bits:
            assert one.tobytes() == other.tobytes(), (what, name)
        else:
            np.testing.assert_allclose(one, other, 1e-5, 1e-4, err_msg=f"{what} {name}")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("check", ["0", "guard"])
@pytest.mark.parametrize("name", NETS)
def test_calls_fed_with_views(name: str, check: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of calls: each gives what a model gives that is fed with copies."""
    monkeypatch.setenv("FASTGRAPH_CHECK", check)
    with thresholds(native_work=-1):
        calls_fed_with_views(name, threads, same)


@pytest.mark.parametrize("name", NETS)
def test_plans_for_many_lengths_fed_with_views(name: str) -> None:
    """Their sums are in other orders."""
    calls_fed_with_views(name, 1, partial(same, bits=False))


def calls_fed_with_views(name: str, threads: int, same: Callable[..., None]) -> None:
    rng, numbers = random.Random(name), np.random.default_rng(0)
    isa = None if rng.random() < 0.7 else "numpy"
    model = dirty(NETS[name](threads=threads, plans=rng.choice([1, 2, 9]), isa=isa))
    twin, views, lying = NETS[name](threads=threads, plans=9, isa=isa), Views(rng), 0
    for turn in range(60):
        feeds = drawn(rng, numbers, model, views)
        copies = {key: array.copy() for key, array in feeds.items()}
        lying += sum(any(np.may_share_memory(each, seen) for seen in views.seen) for each in feeds.values())
        what = rng.choice(["run", "run", "again", "call", "execute", "prepare", "stop", "verify"])
        if what in ("run", "again"):
            same(model.run(feeds), twin.run(copies), (turn, what))
            if what == "again":  # by the quick way, if the shapes are the same
                feeds = {k: found for k, v in feeds.items() if (found := views.draw(v.shape, v.dtype)) is not None
                         and v.dtype != I64}  # fmt: skip
                feeds = copies | feeds
                copies = {key: array.copy() for key, array in feeds.items()}
                same(model.run(feeds), twin.run(copies), (turn, what))
        elif what == "call":
            found, expected = model(*feeds.values(), timeout=60), twin(*copies.values())
            as_dict = {spec.name: i for i, spec in enumerate(model.outputs)}
            same({k: found[i] for k, i in as_dict.items()}, {k: expected[i] for k, i in as_dict.items()}, turn)
        elif what == "execute" and name != "counted":
            model.resize({k: copies[k] if k == "to" else array.shape for k, array in copies.items()})
            for key, array in copies.items():
                model.input(key)[...] = array
            model.execute()
            same({spec.name: model.output(spec.name) for spec in model.outputs}, twin.run(copies), (turn, what))
        elif what == "prepare":
            try:
                model.prepare([{k: array if k == "to" else array.shape for k, array in feeds.items()}])
            except fg.InputError as error:
                assert "prepare fewer" in str(error)
        elif what == "stop":
            with pytest.raises(fg.RunTimeout):
                model.run(feeds, timeout=0)
        elif what == "verify" and isa is None and all(np.isfinite(array).all() for array in copies.values()):
            assert fg.verify(model, feeds).ok
        views.look(model)
    assert lying > 10


def test_a_view_fed_beside_an_input_that_changes_its_shape() -> None:
    """It lies where the larger plan has its first input."""
    model = delayed().load()
    model.resize({"x": (64, 8), "before": (64, 8)})
    ones = np.ones((2, 8), F32)
    model.run({"x": ones, "before": 3 * ones})
    kept = model.input("before")
    assert model.run({"x": np.zeros((9, 8), F32), "before": kept})[model.outputs[-1].name].item() == -3


@pytest.mark.parametrize("form", ["sequence", "optional", "array"])
def test_what_numpy_reads_in_the_run(form: str) -> None:
    """It is not copied to the arena, but read after that was written."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4])
    of = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto,
          "array": lambda item: item}[form](tensor)  # fmt: skip
    take = {"sequence": helper.make_node("ConcatFromSequence", ["s"], ["t"], axis=0),
            "optional": helper.make_node("OptionalGetElement", ["s"], ["t"]),
            "array": helper.make_node("Unique", ["s"], ["t"], sorted=0)}[form]  # fmt: skip
    nodes = [helper.make_node("Exp", ["x"], ["y"]), take]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yt"]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    graph = helper.make_graph(nodes, "g", [x, helper.make_value_info("s", of)], infos)
    model = fg.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    for seed in range(3):
        numbers = np.random.default_rng(seed).standard_normal((3, 2, 4)).astype(F32)
        view = model.input("x")
        view[...] = numbers[0]
        fed: Any = {"sequence": [view, numbers[1], view[::-1]], "optional": view, "array": view}[form]
        expected = {"sequence": np.concatenate([numbers[0], numbers[1], numbers[0, ::-1]]),
                    "optional": numbers[0], "array": numbers[0].ravel()}[form]  # fmt: skip
        found = model.run({"x": numbers[2], "s": fed})
        np.testing.assert_array_equal(found["t"], expected)


def test_a_feed_is_copied_only_where_it_must_be() -> None:
    """What lies elsewhere is read where it lies, a part of a larger array, too."""
    model = delayed().load()
    data = np.ones((4, 2, 8), F32)
    model.run({"x": data[1], "before": data[3, ::-1]})
    fed = {"x": data[1], "before": model.input("before"), "list": [data[2], model.input("x")[::-1]]}
    found = without_overlap(fed, model._written())
    assert found["x"] is fed["x"] and found["list"][0] is fed["list"][0]
    for one, lying in ((found["before"], fed["before"]), (found["list"][1], fed["list"][1])):
        assert not np.may_share_memory(one, lying)
        np.testing.assert_array_equal(one, lying)

"""Models that share plans and run at the same time; models that pickle."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import onnx
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL, held_out
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.model import Model
from tests.nets import Net

THREADS, RUNS = 8, 40
F32 = np.dtype(np.float32)


def many() -> list[np.ndarray]:
    return list(held_out()[0][:RUNS])


def at_once(models: list[fg.Model], run: Callable[[fg.Model, int], Any]) -> list[Any]:
    """What `run` gives for each model, in threads that begin together."""
    start = Barrier(len(models))

    def go(number: int) -> Any:
        start.wait()
        return run(models[number], number)

    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(go, range(len(models))))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", [fg.Model.clone, copy.copy, copy.deepcopy])
def test_clones_run_at_once_bit_for_bit(how: Callable[[fg.Model], fg.Model], threads: int) -> None:
    model = fg.load(MODEL, threads=threads)
    images = many()
    expected = [model(image).tobytes() for image in images]
    models = [model, *(how(model) for _ in range(THREADS - 1))]
    for found in at_once(models, lambda each, _: [each(image).tobytes() for image in images]):
        assert found == expected


def test_clones_plan_at_once() -> None:
    """Models whose shapes are open make plans of one network in many threads, each for sizes of its own and of all."""
    net = Net()
    x = net.input("x", ("n", 16))
    net.output(net("Softmax", net("MatMul", x, net.weight(16, 16))))
    model = net.load(threads=1)
    rng = np.random.default_rng(1)
    feeds = [rng.standard_normal((n, 16)).astype(np.float32) for n in range(1, 20)]
    expected = [model(x).tobytes() for x in feeds]
    fresh = net.load(threads=1)
    models = [fresh, *(fresh.clone() for _ in range(THREADS - 1))]
    found = at_once(models, lambda each, i: [each(feeds[(i + j) % len(feeds)]).tobytes() for j in range(len(feeds))])
    for i, results in enumerate(found):
        assert results == [expected[(i + j) % len(feeds)] for j in range(len(feeds))]


def counter() -> Model:
    """y = state + x; the state becomes y. It begins with 10."""
    x, s, y = (Value(name, TensorType(F32, (3,))) for name in "xsy")
    state = State(s, y, np.full(3, 10, np.float32))
    return Model(Graph("sum", [x], [y], [Node("add", [x, s], [y])], states=[state]), choose(), 1)


def test_states_are_a_clones_own() -> None:
    model, ones = counter(), np.ones(3, np.float32)
    assert model(ones)[0] == 11 and model(ones)[0] == 12
    twin = model.clone()
    assert twin(ones)[0] == 11 and model(ones)[0] == 13 and twin(ones)[0] == 12
    twin.reset_states()
    assert twin(ones)[0] == 11 and model(ones)[0] == 14


def test_a_clone_shares_constants_and_has_an_arena_of_its_own() -> None:
    model = fg.load(MODEL, threads=1)
    twin = model.clone()
    assert twin.plan is not model.plan and twin.plan.program is model.plan.program
    assert not np.shares_memory(twin.plan.arena, model.plan.arena)
    assert twin.inputs == model.inputs and twin.outputs == model.outputs and repr(twin) == repr(model)
    twin.input("image")[...] = 1
    assert not model.input("image").any()


def test_clones_of_saved_programs(tmp_path: Path) -> None:
    path, images = tmp_path / "net.fgm", many()
    fg.load(MODEL, threads=1).save(path)
    model = fg.load(path)
    expected = [model(image).tobytes() for image in images]
    models = [model, *(model.clone() for _ in range(THREADS - 1))]
    for found in at_once(models, lambda each, _: [each(image).tobytes() for image in images]):
        assert found == expected


# -- pickles


def classify(model: fg.Model, image: np.ndarray) -> bytes:
    return model(image).tobytes()


@pytest.mark.parametrize("source", [str(MODEL), MODEL, MODEL.read_bytes()], ids=["text", "path", "bytes"])
def test_a_pickle_is_the_file_and_the_options(source: Any) -> None:
    model = fg.load(source, threads=2, isa="generic", plans=3)
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.threads, twin.tier, twin._plans.limits) == (2, model.tier, model._plans.limits)
    assert twin(many()[0]).tobytes() == model(many()[0]).tobytes()
    assert len(pickle.dumps(model)) < (2000 if not isinstance(source, bytes) else len(source) + 2000)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_of_processes(method: str, tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    model, images = fg.load(MODEL, threads=1), many()[:6]
    model.save(path)
    for each in (model, fg.load(path)):
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            found = list(pool.map(classify, [each] * len(images), images))
        assert found == [model(image).tobytes() for image in images]


def test_a_file_that_changes_is_not_pickled(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(MODEL.read_bytes())
    model = fg.load(path)
    data = pickle.dumps(model)
    path.write_bytes(MODEL.read_bytes() + b"\x72\x00")
    with pytest.raises(fg.FastgraphError, match="net.onnx.*has changed since"):
        pickle.dumps(model)
    with pytest.raises(fg.FastgraphError, match="net.onnx.*not the file that the pickled model"):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"net\.onnx"):
        pickle.loads(data)


def test_data_in_another_file_that_change_are_not_pickled(tmp_path: Path) -> None:
    def write(weight: float) -> None:
        net = Net()
        net.output(net("MatMul", net.input("x", (1, 4)), np.full((4, 4), weight)))
        (tmp_path / "net.data").unlink(missing_ok=True)
        onnx.save(net.model(), path, save_as_external_data=True, size_threshold=0, location="net.data")

    path, x = tmp_path / "net.onnx", np.ones((1, 4), np.float32)
    write(1.0)
    model = fg.load(path)
    data = pickle.dumps(model)
    (elsewhere := tmp_path / "link").symlink_to(tmp_path)
    for each in (data, pickle.dumps(fg.load(elsewhere / "net.onnx"))):
        assert pickle.loads(each)(x)[0, 0] == 4
    write(2.0)
    with pytest.raises(fg.FastgraphError, match=r"net\.onnx.*data beside it.*changed"):
        pickle.dumps(model)
    with pytest.raises(fg.FastgraphError, match=r"net\.onnx with net\.data.*not the file"):
        pickle.loads(data)
    (tmp_path / "net.data").unlink()
    with pytest.raises(fg.FastgraphError, match=r"net\.data"):
        pickle.loads(data)


def test_a_model_without_a_file_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="can't be pickled.*clone"):
        pickle.dumps(counter())

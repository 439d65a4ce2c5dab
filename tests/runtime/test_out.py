"""Results in the caller's arrays are what `run` gives, wherever these lie, and without a copy where that is sound."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds, without
from fastgraph.kernels.isa.tiers import usable
from fastgraph.onnxruntime import InferenceSession
from fastgraph.runtime.runnable import MADE, Runnable
from tests.nets import F32, I64, Net
from tests.threads import at_once

ROWS = MADE // 1024


def net(rows: int = ROWS) -> Net:
    """Two results of `rows` KiB, the second of the first; it is planned that all are read where they lie."""
    made = Net()
    x = made.input("x", [rows, 256])
    first = made("Mul", x, 2.0)
    made.output(first)
    made.output(made("Softmax", first, axis=1))
    return made


def load(rows: int = ROWS, threads: int = 1, **options: Any) -> tuple[fg.Model, str, str]:
    """With feeds, too, that are read where they lie."""
    with thresholds(direct_least=min(rows * 1024, MADE)):
        model = net(rows).load(threads=threads, **options)
    first, second = (spec.name for spec in model.outputs)
    return model, first, second


def numbers(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    return placed(np.random.default_rng(seed).standard_normal((rows, 256)).astype(F32))


def placed(like: np.ndarray, start: int = 64) -> np.ndarray:
    """A copy that begins so many bytes behind a page's."""
    room = np.zeros(like.nbytes + 8192, np.uint8)
    array: np.ndarray = np.ndarray(like.shape, like.dtype, room, -room.ctypes.data % 4096 + start)
    array[...] = like
    return array


def made_in(model: fg.Model, feeds: dict[str, np.ndarray], out: dict[str, np.ndarray]) -> set[str]:
    """The results that kernels make in the caller's arrays, which hold all of them afterwards."""
    expected = {name: array.copy() for name, array in model.run({k: v.copy() for k, v in feeds.items()}).items()}
    seen: list[set[str]] = []
    usual = Runnable.let_go

    def look(self: Runnable) -> None:
        made = {} if self.direct is None else self.direct.made
        seen.append({name for name, array in out.items() if made.get(name) is array})
        usual(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runnable, "let_go", look)
        found = model.run(feeds, outputs=list(expected), out=out)
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name
        assert name not in out or found[name] is out[name]
    return seen[-1]


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_write_there(isa: str, threads: int) -> None:
    model, first, second = load(threads=threads, isa=isa)
    x = numbers()
    for start in (64, 8, 4, 1004, 4096 - 128):
        out = {first: placed(x, start), second: placed(x, 3968 - start // 8 * 4)}
        assert made_in(model, {"x": x}, out) == {first, second}
    assert made_in(model, {"x": x}, {second: placed(x)}) == {second}


@pytest.mark.parametrize("rows", [1, 8, 63, 64, 65, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 1])
def test_sizes(rows: int) -> None:
    model = net(rows).load(threads=1)
    first, second = (spec.name for spec in model.outputs)
    x = numbers(rows)
    out = {first: placed(x), second: placed(x, 1000)}
    assert made_in(model, {"x": x}, out) == (set(out) if rows >= ROWS else set())


STRANGE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the end of a page": lambda x: placed(x, 4096 - x.nbytes % 4096),
    "not aligned": lambda x: placed(x, 61),
    "columns first": np.asfortranarray,
    "every second column": lambda x: np.zeros((len(x), 512), F32)[:, ::2],
    "from the end": lambda x: np.zeros_like(x)[::-1],
}


@pytest.mark.parametrize("name", STRANGE)
def test_results_are_copied_elsewhere(name: str) -> None:
    model, first, second = load()
    x = numbers()
    assert made_in(model, {"x": x}, {first: STRANGE[name](x), second: placed(x)}) == {second}


def test_an_array_that_is_fed() -> None:
    model, first, second = load()
    for name in (first, second):
        x = numbers()
        assert made_in(model, {"x": x}, {name: x}) == set()
    block = placed(np.zeros(2 * ROWS * 256 + 4096, F32))
    for apart in (0, 256, 16, ROWS * 256 - 16):
        x, out = (block[at : at + ROWS * 256].reshape(ROWS, 256) for at in (64, 64 + apart))
        x[...] = numbers()
        assert made_in(model, {"x": x}, {second: out}) == set()


def test_an_array_whose_feed_is_copied() -> None:
    """A feed that ends with its page is copied before the run, so that its array may be written."""
    model, _, second = load()
    block = placed(np.zeros(2 * ROWS * 256, F32), 4096)
    x, out = (block[at : at + ROWS * 256].reshape(ROWS, 256) for at in (0, 256))
    x[...] = numbers()
    assert made_in(model, {"x": x}, {second: out}) == {second}


def test_a_fed_array_that_is_copied_first() -> None:
    with thresholds(direct_least=MADE + 1):
        model = net(ROWS - 1).load(threads=1)
    first, second = (spec.name for spec in model.outputs)
    for name in (first, second):
        x = numbers(ROWS - 1)
        made_in(model, {"x": x}, {name: x})


@pytest.mark.parametrize("rows", [8, ROWS])
def test_views_of_the_plans_memory(rows: int) -> None:
    model, first, second = load(rows)
    x = numbers(rows)
    places = (model.input("x"), model.output(first), model.output(second))
    for name in (first, second):
        for place in places:
            assert made_in(model, {"x": x}, {name: place}) == set()
            assert made_in(model, {"x": place}, {name: place}) == set()
    assert made_in(model, {"x": x}, {first: places[2], second: places[1]}) == set()


@pytest.mark.parametrize("rows", [8, ROWS])
def test_overlapping_arrays_are_refused(rows: int) -> None:
    model, first, second = load(rows)
    x, block = numbers(rows), np.zeros(2 * rows * 256, F32)
    a, b = (block[at : at + rows * 256].reshape(rows, 256) for at in (0, 256))
    for out in ({first: a, second: b}, {first: b, second: a}, {first: a, second: a}):
        with pytest.raises(fg.InputError, match="overlap"):
            model.run({"x": x}, out=out)
        assert np.array_equal(model.run({"x": x})[first], 2 * x)
    with pytest.raises(fg.InputError, match="lie in the same memory"):
        model.run({"x": x}, out={first: np.lib.stride_tricks.as_strided(block, (rows, 256), (0, 4))})


class Kind(np.ndarray):
    pass


@pytest.mark.parametrize("rows", [8, ROWS])
def test_what_is_no_array_like_it_is_refused(rows: int) -> None:
    model, first, second = load(rows)
    x = numbers(rows)
    fixed = np.zeros_like(x)
    fixed.flags.writeable = False
    for wrong in (fixed, x.astype(">f4"), x.view(Kind), x.astype(np.float64), x[1:].copy(), x.tolist()):
        with pytest.raises(fg.InputError, match="out: output"):
            model.run({"x": x}, out={first: placed(x), second: wrong})
    assert not fixed.any()
    out = {second: np.zeros_like(x)}
    model.run({"x": x}, out=MappingProxyType(out))
    assert out[second].tobytes() == model.run({"x": x})[second].tobytes()


def test_integers_are_copied() -> None:
    """Steps may take them for places, and other threads may write there."""
    made = Net()
    x = made.input("x", [ROWS, 256], I64)
    made.output(made("Add", x, 1), dtype=I64)
    model = made.load(threads=1)
    x = placed(np.arange(ROWS * 256).reshape(ROWS, 256))
    assert made_in(model, {"x": x}, {model.outputs[0].name: placed(x)}) == set()


def test_a_feed_and_a_state_are_no_places_of_results() -> None:
    made = Net()
    x = made.input("x", [ROWS, 256])
    for each in (made("Identity", x), made("Relu", x), made("Reshape", x, [ROWS * 256])):
        made.output(each)
    model, x = made.load(threads=1), numbers()
    out = {spec.name: placed(np.zeros(spec.shape, F32)) for spec in model.outputs}  # type: ignore[arg-type]
    made_in(model, {"x": x}, out)


def test_later_runs_write_to_their_own() -> None:
    model, first, second = load()
    x, y = numbers(), numbers(seed=1)
    out = {first: placed(x), second: placed(x)}
    model.run({"x": x}, out=out)
    then = {name: array.copy() for name, array in out.items()}
    model.run({"x": y})
    model.input("x")[...] = y
    model.execute()
    with pytest.raises(fg.RunTimeout):
        model.run({"x": y}, timeout=0)
    assert all(out[name].tobytes() == then[name].tobytes() for name in out)
    assert np.array_equal(model.output(first), 2 * y)


def test_a_run_that_is_stopped() -> None:
    """It leaves anything in the arrays, and the model runs again."""
    model, first, second = load()
    x = numbers()
    out = {first: placed(x), second: placed(x)}
    with pytest.raises(fg.RunTimeout):
        model.run({"x": x}, timeout=0, out=out)
    assert made_in(model, {"x": x}, out) == {first, second}


def test_clones_in_threads() -> None:
    model, first, _ = load(threads=2)
    wrong = []

    def work(of: fg.Model, seed: int) -> None:
        x, out = numbers(seed=seed), {first: np.zeros((ROWS, 256), F32)}
        for _ in range(30):
            of.run({"x": x}, out=out)
            if not np.array_equal(out[first], 2 * x):
                wrong.append(seed)

    at_once(work, (model, model, model.clone(), model.clone()), range(4))
    assert not wrong


def test_guard_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTGRAPH_CHECK", "guard")
    model, first, second = load()
    x = numbers()
    assert made_in(model, {"x": x}, {first: placed(x), second: placed(x)}) == set()


def test_a_saved_program_and_one_that_copies(tmp_path: Any) -> None:
    model, first, second = load()
    x = numbers()
    model.save(tmp_path / "m.fgm")
    out = {first: placed(x), second: placed(x)}
    assert made_in(fg.load(tmp_path / "m.fgm", threads=1), {"x": x}, out) == {first, second}
    with without("direct"):
        assert made_in(net().load(threads=1), {"x": x}, out) == set()


@pytest.mark.parametrize("rows", [8, ROWS])
def test_bound_outputs(rows: int) -> None:
    made = net(rows)
    session = InferenceSession(made.bytes())
    first, second = (each.name for each in session.get_outputs())
    x = numbers(rows)
    expected = session.run(None, {"x": x})
    places = [placed(x), placed(x, 1000)]
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for name, place in zip((first, second), places, strict=True):
        binding.bind_output(name, "cpu", 0, F32, place.shape, place.ctypes.data)
    for _ in range(2):
        session.run_with_iobinding(binding)
        for place, found, array in zip(places, binding.get_outputs(), expected, strict=True):
            assert place.tobytes() == found.numpy().tobytes() == array.tobytes()
            place[...] = 0
    binding.bind_output(second, "cpu", 0, F32, (1, rows * 256), places[1].ctypes.data)
    with pytest.raises(RuntimeError, match="has shape"):
        session.run_with_iobinding(binding)

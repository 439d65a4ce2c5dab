"""Feeds that are read where they lie, and results that are made where they are handed out, are what copies are."""

import sys
from concurrent.futures import ThreadPoolExecutor
from mmap import PAGESIZE
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.freedoms import thresholds, without
from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa.tiers import Tier, usable
from fastgraph.plan.program import Ref, Step
from fastgraph.runtime.runnable import MADE, READ, Runnable
from tests.dirt import dirty
from tests.nets import F32, I64, Net
from tests.random_nets import Case, examples, networks
from tests.threads import at_once


def both(source: bytes, threads: int = 1, isa: str | None = None) -> tuple[fg.Model, fg.Model]:
    """A model that copies nothing it need not, and one that copies everything."""
    with thresholds(direct_least=1, waking_work=0):
        model = dirty(fg.load(source, threads=threads, isa=isa))
        with without("direct"):
            return model, dirty(fg.load(source, threads=threads, isa=isa))


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes(), name


@given(networks(), st.sampled_from(usable()), st.sampled_from([1, 2]), st.randoms(use_true_random=False))
@examples(40)
def test_random_networks_agree(case: Case, tier: Tier, threads: int, r: Any) -> None:
    """Also fed with results, with parts of an array, with an array twice, and writing where feeds lie, or anywhere."""
    model, other = both(case.source, threads, tier.name)
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for _ in range(5):
        feeds = {name: drawn(array, kept, r) for name, array in case.feeds.items()}
        copies = {name: array.copy() for name, array in feeds.items()}
        expected, out = other.run(copies), {}
        same(feeds, copies)
        held = {id(y) for earlier, _ in kept for y in earlier.values()}
        for name, array in expected.items():
            lying = [
                a for a in feeds.values()
                if (a.dtype, a.shape) == (array.dtype, array.shape) and a.flags.writeable and id(a) not in held
            ]  # fmt: skip
            if lying and r.random() < 0.3 and not out:
                out[name] = r.choice(lying)
        rooms = {name: Room(array, r) for name, array in expected.items() if name not in out and r.random() < 0.5}
        out |= {name: room.array for name, room in rooms.items()}
        found = model.run(feeds, outputs=list(expected), out=out)
        assert all(found[name] is array for name, array in out.items())
        same(found, expected)
        assert all(room.sound() for room in rooms.values())
        kept.append((found if not out else {}, expected if not out else {}))
        if r.random() < 0.3:
            kept.clear()
        for now, then in kept:
            same(now, then)


class Room:
    """An array like another, anywhere in memory that holds the same byte before and behind it."""

    def __init__(self, like: np.ndarray, r: Any) -> None:
        self._room = np.full(like.nbytes + 9000, 0xA5, np.uint8)
        page = -self._room.ctypes.data % 4096
        self._at = r.choice([r.randrange(4096), page + 64 * r.randrange(1, 60), page + 8 * r.randrange(1, 400)])
        self.array: np.ndarray = np.ndarray(like.shape, like.dtype, self._room, self._at)

    def sound(self) -> bool:
        behind = self._room[self._at + self.array.nbytes :]
        return bool((self._room[: self._at] == 0xA5).all() and (behind == 0xA5).all())


def drawn(array: np.ndarray, kept: list[tuple[dict[str, Any], dict[str, Any]]], r: Any) -> np.ndarray:
    """What to feed in place of an array: it, a copy in memory of any alignment or order, or an earlier result."""
    like = [y for found, _ in kept for y in found.values() if (y.dtype, y.shape) == (array.dtype, array.shape)]
    if like and r.random() < 0.3 and array.dtype.kind == "f":
        return like[0].copy() if r.random() < 0.3 else like[0]
    room = np.zeros(array.nbytes + 9000, np.uint8)
    at = r.choice([r.randrange(4096), (-room.ctypes.data - array.nbytes) % 4096])
    placed: np.ndarray = np.ndarray(array.shape, array.dtype, room, at)
    placed[...] = array
    return r.choice([array.copy(), placed, np.asfortranarray(array)])


@given(networks())
@examples(20)
def test_no_step_writes_a_feed(case: Case) -> None:
    with thresholds(direct_least=1):
        model = fg.load(case.source, threads=1)
    plan = model.plan
    if plan.direct is None:
        return
    read = {v for v in plan.graph.inputs if v.name in plan.direct.reads}
    for step in plan.program.steps:
        if not isinstance(step, Step):
            continue
        for slot, arg in zip(row(step.kernel.name).args.values(), step.args, strict=False):
            if isinstance(arg, Ref) and arg.base in read:
                assert getattr(slot, "kind", "") not in ("write", "work"), step.kernel


def doubled(rows: int = 2048, outputs: int = 1) -> Net:
    net = Net()
    x = net.input("x", [rows, 256])
    for i in range(outputs):
        net.output(net("Mul", x, np.array(2 + i, F32)))
    return net


def moved(model: fg.Model) -> tuple[int, int]:
    """How many feeds and results need no copy."""
    direct = model.plan.direct if model._stored is None else model._plans.current.direct  # type: ignore[union-attr]
    return (0, 0) if direct is None else (len(direct.reads), len(direct._results))


def test_only_large_arrays() -> None:
    assert moved(doubled(READ // 1024).load()) == (1, 1)
    assert moved(doubled(MADE // 1024).load()) == (0, 1)
    assert moved(doubled(MADE // 1024 - 1).load()) == (0, 0)


def test_a_result_that_is_a_feed_is_a_copy() -> None:
    net = Net()
    x = net.input("x", (64, 64))
    for each in (net("Identity", x), net("Reshape", x, [4096]), net("Relu", x)):
        net.output(each)
    model, other = both(net.bytes(), 2)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(F32)
    found = model.run({"x": x})
    same(found, other.run({"x": x}))
    arrays = [x, *found.values()]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def test_a_saved_program_copies_nothing_either(tmp_path: Path) -> None:
    model = doubled(outputs=2).load(threads=1)
    model.save(tmp_path / "m.fgm")
    loaded = fg.load(tmp_path / "m.fgm", threads=1)
    x = np.random.default_rng(0).standard_normal((2048, 256)).astype(F32)
    assert moved(loaded) == moved(model) == (1, 2)
    same(loaded.run({"x": x}), model.run({"x": x}))


def test_memory_of_the_plan_is_used_afterwards() -> None:
    """By `execute`, after runs, and after runs that failed."""
    model, room = doubled().load(threads=1), np.zeros(2048 * 256 + PAGESIZE // 4, F32)
    start = -room.ctypes.data % PAGESIZE // 4
    x = room[start : start + 2048 * 256].reshape(2048, 256)
    x[...] = 3
    y = model(x)
    with pytest.raises(fg.RunTimeout):
        model(x, timeout=0)
    model.input("x")[...] = 5
    model.execute()
    assert np.all(y == 6) and np.all(x == 3) and np.all(model.output(model.outputs[0].name) == 10)


def test_a_view_of_the_plans_own_memory_is_copied() -> None:
    model = doubled().load(threads=1)
    for name in ("x", model.outputs[0].name):
        view = model.input(name) if name == "x" else model.output(name)
        view[...] = 7
        assert np.all(model(view) == 14)


def test_clones_and_threads() -> None:
    model, wrong = doubled().load(threads=2), []

    def work(of: fg.Model, seed: int) -> None:
        x = np.full((2048, 256), seed, F32)
        for _ in range(30):
            if not np.all(of(x) == 2 * seed):
                wrong.append(seed)

    at_once(work, (model, model, model.clone()), range(3))
    assert not wrong


def test_plans_in_turn_share_memory_of_results() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ("n", 256))))
    model = net.load(threads=1)
    for rows in (2000, 1500, 2000, 40, 1500, 2000):
        x = np.random.default_rng(rows).standard_normal((rows, 256)).astype(F32)
        assert np.array_equal(model(x), np.maximum(x, 0))


def test_a_read_only_array() -> None:
    model, x = doubled().load(threads=1), np.ones((2048, 256), F32)
    x.flags.writeable = False
    assert np.all(model(x) == 2)


def test_an_extreme_that_another_thread_writes_over() -> None:
    """Its place is one of the row's also where it is not found again."""
    net = Net()
    x, array, stop = net.input("x", [256, 300]), np.zeros((256, 300), F32), Event()
    for last in (0, 1):
        net.output(net("ArgMax", x, axis=1, select_last_index=last), dtype=I64)
    model = net.load(threads=1)

    def write() -> None:
        while not stop.is_set():
            array[...] = 1 - array[0, 0]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write)
        try:
            places = [place for _ in range(1000) for place in model.run({x: array}).values()]
        finally:
            stop.set()
    assert all(place.min() >= 0 and place.max() < 300 for place in places)


@pytest.mark.parametrize("copied", [True, False])
def test_an_interrupt_before_memory_is_the_plans_again(copied: bool) -> None:
    """It comes where the run is over, and what it moved has not come back."""
    model, x = doubled().load(threads=1), np.ones((2048, 256), F32)

    def interrupted(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code is Runnable.let_go.__code__:
            raise KeyboardInterrupt

    usual = sys.gettrace()
    sys.settrace(interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.run({"x": x})
    finally:
        sys.settrace(usual)
    if copied:
        assert (model(np.asfortranarray(3 * x)) == 6).all()
    else:
        model.input("x")[...] = 3
        model.execute()
        assert (model.output(model.outputs[0].name) == 6).all()
    assert (x == 1).all()

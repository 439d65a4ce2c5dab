"""Random networks with open extents: a plan for many lengths gives what plans for each of them give."""

import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.errors import GraphError, PlanError
from fastgraph.freedoms import thresholds
from fastgraph.ir import is_open
from fastgraph.runtime import lengths
from fastgraph.runtime.keys import Credit, Line
from tests.compositions import draw as compositions
from tests.compositions.composition import Composition
from tests.compositions.forms import FORMS, Declined
from tests.random_nets import case, examples, nets, unchecked

pytestmark = pytest.mark.slow


def extents(net: Composition, usual: dict[str, tuple[int, ...]], n: int, places: int) -> dict[str, tuple[int, ...]]:
    """Input shapes on a line: their open extents keep their distances, and the least is n, or that of places."""

    def group(axis: int) -> int:
        return places if net.open == "both" and axis else n

    least: dict[int, int] = {}
    for name in usual:
        for axis in net.open_axes(name):
            least[bool(axis)] = min(usual[name][axis], least.get(bool(axis), 1 << 20))
    if net.open != "both":
        least = dict.fromkeys((False, True), min(least.values()))
    return {
        name: tuple(
            group(axis) + d - least[bool(axis)] if axis in net.open_axes(name) else d for axis, d in enumerate(dims)
        )
        for name, dims in usual.items()
    }


def filled(like: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers as there are in another array."""
    return rng.choice(like.reshape(-1), shape) if like.size else np.zeros(shape, like.dtype)


@pytest.fixture(autouse=True)
def no_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for many lengths that is refused, as planning it failed in a way that nobody foresaw, fails the test."""
    refuse = lengths.Lengths.refuse

    def seen(self: lengths.Lengths, wide: Line, near: bool) -> None:
        if isinstance(sys.exception(), GraphError | PlanError):
            raise AssertionError("a defect") from sys.exception()
        refuse(self, wide, near)

    monkeypatch.setattr(lengths.Lengths, "refuse", seen)


def results(model: fg.Model, feeds: dict[str, np.ndarray]) -> list[Any] | str:
    try:
        return list(model.run(feeds).values())
    except fg.FastgraphError as error:
        return type(error).__name__


@examples(80)
@given(nets(), st.sampled_from(["batch", "places", "both"]), st.integers(1, 2), st.integers(0, 1 << 20))
def test_a_plan_for_many_lengths_gives_what_their_own_give(
    net: Composition, axes: str, threads: int, seed: int
) -> None:
    net = replace(net, open=axes)
    assume(any(map(net.open_axes, net.inputs)))
    made, rng = case(net), np.random.default_rng(seed)
    usual = {name: given.shape for name, given in net.inputs.items()}
    first, step = int(rng.choice([1, 2, 5, 31, 33])), int(rng.choice([1, 1, 2, 5]))
    with thresholds(native_work=1 << 40):
        model = fg.load(made.source, threads=threads)
        model._planner.lengths._credit = Credit(1, 0)
        longest = {k: filled(made.feeds[k], dims, rng) for k, dims in extents(net, usual, first + 29, 40).items()}
        for n, m in ((0, 0), (1, 3), (3, 2), (2, 5), (29, 29), (4, 4)):
            shapes = extents(net, usual, first + n * step, 1 + m * step)
            feeds = {name: filled(made.feeds[name], dims, rng) for name, dims in shapes.items()}
            dirt = {k: np.full_like(v, np.nan) if v.dtype.kind == "f" else v for k, v in longest.items()}
            with unchecked(seed % 2 == 1):
                results(model, dirt)  # what lies in memory afterwards is no number
                found = results(model, feeds)
            wide = any(is_open(key.opens) for key in model._plans.keys())
            with thresholds(native_work=-1):
                wanted = results(fg.load(made.source, threads=threads), feeds)
            if isinstance(wanted, str) or isinstance(found, str):
                assert found == wanted, n
                continue
            for y, want in zip(found, wanted, strict=True):
                assert y.shape == want.shape and y.dtype == want.dtype, n
                close = 1e-4 * max(made.scale, 1.0) if y.dtype.kind == "f" else 0
                np.testing.assert_allclose(y, want, rtol=1e-4 if close else 0, atol=close, err_msg=f"{n}")
    event("many" if wide else "each")


def test_random_networks_reach_them() -> None:
    """A fair share of what is drawn has rules for all of its operators."""
    reached = 0
    for seed in range(60):
        net = replace(compositions.draw(seed, seed % 8), open=("batch", "places", "both")[seed % 3])
        if not any(map(net.open_axes, net.inputs)):
            continue
        with suppress(Declined), thresholds(native_work=1 << 40):
            made = FORMS["onnx f32"](net)
            model = fg.load(made.source)
            model._planner.lengths._credit = Credit(1, 0)
            usual = {name: given.shape for name, given in net.inputs.items()}
            for n in (5, 6):
                shapes = extents(net, usual, n, 2 * n)
                feeds = {name: np.resize(made.feeds[name], dims) for name, dims in shapes.items()}
                results(model, feeds)
            reached += any(is_open(key.shapes) for key in model._plans.keys())
    assert reached >= 8

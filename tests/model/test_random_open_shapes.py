"""Random networks with open extents: what was planned before leaves no trace in a plan."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fastgraph as fg
from tests.compositions.composition import Composition
from tests.model.test_plans import planned, unlinked
from tests.random_nets import case, examples, nets

pytestmark = pytest.mark.slow


def fresh(source: bytes, shapes: dict[str, tuple[int, ...]]) -> Any:
    """The first plan of a load. One that is told the shapes may see more: that a transpose moves nothing."""
    return planned(fg.load(source, threads=2, plans=2), shapes)


@examples(60)
@given(nets(), st.sampled_from(["batch", "places"]), st.data())
def test_a_plan_is_what_a_fresh_load_makes(net: Composition, axes: str, data: Any) -> None:
    """The same kernels on the same records, constants and offsets, in any order of shapes."""
    net = replace(net, open=axes)
    assume(any(map(net.open_axes, net.inputs)))
    extents = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 16]), min_size=2, max_size=2))
    usual = {name: given.shape for name, given in net.inputs.items()}
    others = [{name: tuple(extent if i in net.open_axes(name) else d for i, d in enumerate(dims))
               for name, dims in usual.items()} for extent in extents]  # fmt: skip
    source, shapes = case(net).source, [usual, *others]
    with unlinked():
        model, wanted = fg.load(source, threads=2, plans=2), [fresh(source, each) for each in shapes]
        for i in data.draw(st.permutations([0, 1, 2, 0, 1])):
            assert planned(model, shapes[i]) == wanted[i], shapes[i]

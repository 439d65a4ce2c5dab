"""Random networks with open extents: what was planned before leaves no trace in a plan."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastgraph as fg
from tests.model.test_plans import planned, said, unlinked
from tests.random_nets import Case, examples, networks

pytestmark = pytest.mark.slow

Shapes = dict[str, tuple[int, ...]]


def opened(source: bytes, data: Any) -> tuple[bytes, list[Shapes]]:
    """The network with some extents of its inputs open, its own shapes and others that differ there. Nodes that nobody
    reads are left out: plans of open shapes don't look at whether they fit.
    """
    model, usual, free = onnx.load_from_string(source), {}, {}
    live = {value.name for value in model.graph.output}
    for i, node in reversed(list(enumerate(model.graph.node))):
        if live.intersection(node.output):
            live.update(node.input)
        else:
            del model.graph.node[i]
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        usual[value.name] = tuple(d.dim_value for d in dims)
        free[value.name] = [data.draw(st.integers(0, 2)) > 0 for _ in dims]
        for i, d in enumerate(dims):
            if free[value.name][i]:
                d.dim_param = f"{value.name}{i}"
    extents = st.sampled_from([1, 2, 3, 5, 8, 16])
    others = [{name: tuple(data.draw(extents) if free[name][i] else d for i, d in enumerate(dims))
               for name, dims in usual.items()} for _ in range(2)]  # fmt: skip
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model.SerializeToString(), [usual, *others]


@examples(60)
@given(networks(), st.data())
def test_a_plan_is_what_a_fresh_load_makes(case: Case, data: Any) -> None:
    """The same kernels on the same records, constants and places, in any order of shapes."""
    source, shapes = opened(case.source, data)
    with unlinked():
        model = fg.load(source, threads=2, plans=2)
        fresh = []
        for each in shapes:
            try:
                fresh.append(said(fg.load(source, threads=2, shapes=each).plan.program))
            except fg.FastgraphError:
                fresh.append("InputError")  # type: ignore[arg-type]
        for i in data.draw(st.permutations([0, 1, 2, 0, 1])):
            assert planned(model, shapes[i]) == fresh[i], shapes[i]

"""lstm_sequence with parameters that its kernel does not take is a scan that gives what its reference gives."""

from typing import Any

import numpy as np
import pytest

from fastgraph.extras.lstm_sequence import ACTIVATIONS, BIAS, NORM, PEEPHOLE, PROJECTION, PROJECTION_BIAS, C, H, R, W
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.ops.evaluate import infer_graph
from tests.element_types import agrees
from tests.nets import F32

STEPS, BATCH, FEATURES, UNITS = 4, 3, 5, 6


LACKING = {"diagonal": 0, "narrow": 0, "single": 0, "norm": 0, "peephole": 0, "cifg": 0, "bias": 1}


def layer(fed: set[int], **attrs: Any) -> tuple[Graph, list[np.ndarray]]:
    """A graph of one node, and what its inputs are: x, the states, and those whose places are `fed`."""
    diagonal, narrow, single, norm, peephole, cifg, bias = [attrs.pop(name, value) for name, value in LACKING.items()]
    rng, width, gates = np.random.default_rng(1), narrow or UNITS, range(cifg, 4)
    lead = (BATCH,) if single else (STEPS, BATCH) if attrs.get("time_major") else (BATCH, STEPS)
    shapes: dict[int, tuple[int, ...]] = {0: (*lead, FEATURES), H: (BATCH, width), C: (BATCH, UNITS)}
    shapes |= {W + g: (UNITS, FEATURES) for g in gates}
    shapes |= {R + g: (UNITS,) if diagonal else (UNITS, width) for g in gates}
    shapes |= {place: (UNITS,) for place in range(PEEPHOLE + cifg, PEEPHOLE + 3) if peephole}
    shapes |= {BIAS + g: (UNITS,) for g in gates if bias}
    shapes |= {PROJECTION: (narrow, UNITS), PROJECTION_BIAS: (narrow,)} if narrow else {}
    shapes |= {NORM + g: (UNITS,) for g in gates if norm and g != norm}
    inputs: list[Value | None] = [None] * (NORM + 4)
    arrays = []
    for place, shape in sorted(shapes.items()):
        array = (rng.standard_normal(shape) * 0.5).astype(F32)
        if place in fed | {0, H, C}:
            inputs[place] = Value(f"x{place}", TensorType.of(array))
            arrays.append(array)
        else:
            inputs[place] = Value.constant(f"c{place}", array)
    results = [Value(name) for name in ("y", "h", "c")]
    node = Node("lstm_sequence", inputs, list(results), attrs, "n")
    graph = Graph("g", [v for v in inputs if v is not None and v.data is None], results, [node])
    infer_graph(graph)
    return graph, arrays


PARTS: list[dict[str, Any]] = [
    {"diagonal": 1},
    {"diagonal": 1, "cifg": 1, "single": 1},
    {"diagonal": 1, "norm": 4, "peephole": 1, "reverse": 1},
    {"narrow": 4, "reverse": 1, "time_major": 1, "bias": 0},
    {"norm": 4, "bias": 0},
    {"norm": 2, "peephole": 1},
    {"narrow": 9, "cifg": 1, "cell_clip": 0.2, "proj_clip": 0.1},
    *({"narrow": 4, "activation": name} for name in ACTIVATIONS),
]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_parts(parts: dict[str, Any]) -> None:
    """`norm` 2: the gates but that one have them."""
    graph, arrays = layer(set(), **parts)
    agrees(graph, arrays, choose(), 1e-5)


GROUPS = [W, R, PEEPHOLE, BIAS, PROJECTION, NORM, NORM + 4]
FED = [*map(range, GROUPS, GROUPS[1:]), range(W, NORM + 4), [R]]
OTHERS = [{"norm": 4, "narrow": 4, "peephole": 1}, {"peephole": 1}, {"dynamic": 1}, {"diagonal": 1, "cifg": 1}]


@pytest.mark.parametrize("fed", FED)
@pytest.mark.parametrize("parts", OTHERS, ids=str)
def test_parameters_that_are_fed(parts: dict[str, Any], fed: Any) -> None:
    graph, arrays = layer(set(fed), **parts)
    agrees(graph, arrays, choose(), 1e-5)

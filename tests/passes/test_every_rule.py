"""Every rule that writes an operator as others, against the operator's reference: on random and on special numbers.

Both sides are NumPy's: what the rule wrote is computed by the references of what it wrote, so a rule is held to the
meaning of its operator with nothing of kernels in between. A rule of the tables that no case makes apply fails here.

Operators without a reference of their own mean what their rules write, and are not compared with themselves: their
oracles are ONNX's recorded results (ops/test_node_cases.py), LiteRT (circle/), coremltools (mil/), and NumPy, SciPy and
other engines (extras/). A test looks that each is named there.
"""

from collections.abc import Iterator, Mapping
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import FastgraphError
from fastgraph.frontends.onnx import read
from fastgraph.ir import Graph, copy
from fastgraph.ops import OPS, registry
from fastgraph.ops.evaluate import evaluate, pure
from fastgraph.passes import decompose
from fastgraph.passes.specialize import specialize
from fastgraph.passes.stages import STAGES
from fastgraph.rules.catalog import CATALOG
from fastgraph.rules.rule import watching
from tests.blocks import groups_by_reshapes
from tests.functions.numbers import flushed
from tests.nets import Net, graph_of
from tests.ops.test_node_cases import array, cases, fed
from tests.passes.rule_cases import CASES, EACH
from tests.uncommon_nodes import GRAPHS

NOT_HERE = (".exponent", ".broadcast_matmul", ".transposed_matmul", ".phases", ".small_map", ".half")
"""Rules of that folder that other passes ask for."""


def file_and_name(rule: str) -> str:
    return ".".join(rule.split(".")[-2:])


def has_reference(op: str) -> bool:
    """Whether it has one of its own, and does not mean what its rules write."""
    return getclosurevars(OPS[op].reference).nonlocals.get("meaning") is not registry._by_rules


OWN = frozenset(op for op in OPS if has_reference(op))
PAIRS = {
    (file_and_name(rule), op)
    for rules in CATALOG.values()
    for rule, ops in rules.items()
    for op in ops.split()
    if rule.startswith(("passes.decompositions.", "extras.")) and not rule.endswith(NOT_HERE) and op in OWN
}
BEFORE = [stage for name, stage in STAGES if name in ("explicit_quantization", "canonicalize")]
HELD_BY = {
    "random.": "extras/test_random.py",
    "svdf.svdf": "circle/test_recurrent.py",
    "windows.word_pool": "circle/test_average_pool.py",
    "slice_places.slice_update": "plan/test_updates.py",
    "open_weights.open_bias": "passes/test_open_weights.py",
    "open_weights.stored_weights": "passes/test_open_weights.py",
    "element_types.scattered_bools": "plan/test_element_types.py",
}
"""Rules whose operators take more than numbers, and where they are held against references, by what they begin with."""
ORACLES = ("extras", "circle", "mil", "ops")
"""Folders of tests that hold operators to others' results."""
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 1e-3)
HUGE = (1e30, -1e30, 3e38, 89.0, -104.0, 700.0, -746.0, 1e5)
"""For single numbers: what is added up overflows on the way (docs/numerics.md)."""


@pytest.fixture
def applied() -> Iterator[set[tuple[str, str]]]:
    """The rules that applied, with their operators, of graphs that are decomposed in the test."""
    found: set[tuple[str, str]] = set()

    def note(rule: Any, node: Any) -> None:
        found.add((file_and_name(f"{rule.__module__}.{rule.__name__}"), node.op))

    with watching(note):
        yield found


def written(graph: Graph) -> Graph:
    """The graph as the rules write it."""
    done = copy(graph)
    for stage in BEFORE:
        stage(done)
    decompose.decompose(done)
    return done


def special(x: np.ndarray, huge: bool, seed: int) -> np.ndarray:
    """Some of the numbers replaced."""
    if x.dtype.kind != "f" or not x.size:
        return x
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        chosen = np.array(SPECIAL + HUGE * huge).astype(x.dtype)
    return np.where(rng.random(x.shape) < (0.7 if huge else 0.2), rng.choice(chosen, x.shape), x)


def agree(what: str, found: Any, wanted: Any, rtol: float) -> None:
    for mine, right in zip(found, wanted, strict=True):
        if not isinstance(right, np.ndarray) or right.dtype == object:
            continue
        assert (mine.dtype, mine.shape) == (right.dtype, right.shape), what
        if right.dtype.kind not in "fc":
            np.testing.assert_array_equal(mine, right, what)
            continue
        finite = np.abs(right[np.isfinite(right)])
        limit = rtol * max(1.0, float(finite.max(initial=0)) if finite.max(initial=0) < 1e6 else 1.0)
        np.testing.assert_allclose(flushed(mine), flushed(right), 16 * rtol, limit, err_msg=what)


def held(name: str, graph: Graph, feeds: Mapping[str, Any], huge: bool) -> None:
    """What the rules write against the references, on these numbers and with special ones among them."""
    done = written(graph)
    for seed in range(3):
        given = {key: special(a, huge, seed) if seed and isinstance(a, np.ndarray) else a for key, a in feeds.items()}
        with np.errstate(all="ignore"):
            wanted, found = evaluate(graph, given), evaluate(done, given)
        halves = any(isinstance(a, np.ndarray) and a.dtype == np.float16 for a in given.values())
        agree(f"{name}, seed {seed}", found, wanted, 4e-3 if halves else 2e-6)


def compared(graph: Graph) -> bool:
    return all(node.op in OWN for node in graph.nodes)


@pytest.mark.parametrize("name", [name for name, graph, _ in CASES if compared(graph)])
def test_rules_of_single_operators(name: str, applied: set[tuple[str, str]]) -> None:
    _, graph, arrays = next(case for case in CASES if case[0] == name)
    held(name, graph, {f"x{i}": a for i, a in enumerate(arrays)}, name in EACH)


def by_onnx() -> list[tuple[str, Graph, dict[str, Any]]]:
    """The onnx package's node cases as graphs with what they are fed; those that are not supported are left out."""
    found = []
    for several in cases().values():
        for case in several:
            if not case.data_sets or "expanded" in case.name:
                continue
            try:
                graph = read(case.model.SerializeToString())
                specialize(graph, {})
            except FastgraphError:
                continue
            given = zip(graph.inputs, case.data_sets[0][0], strict=False)
            found.append((case.name, graph, {v.name: fed(array(a), v.type) for v, a in given}))
    return found


def test_operators_without_a_reference_have_an_oracle() -> None:
    tests = Path(__file__).parents[1]
    texts = [path.read_text("utf-8") for folder in ORACLES for path in (tests / folder).rglob("*.py")]
    named = _plain("".join([*texts, *cases()]))
    assert not [op for op in OPS if op not in OWN and _plain(op) not in named]


def _plain(name: str) -> str:
    """A name in any format's spelling."""
    return name.lower().removesuffix("_like").replace("_", "")


@pytest.mark.slow
def test_every_rule_is_held_to_the_reference(applied: set[tuple[str, str]]) -> None:
    for name, graph, arrays in CASES:
        if compared(graph):
            held(name, graph, {f"x{i}": a for i, a in enumerate(arrays)}, name in EACH)
    for name, graph, feeds in by_onnx():
        before, done = len(applied), written(graph)
        if len(applied) == before and len(done.nodes) == len(graph.nodes) or not all(map(pure, graph.nodes)):
            continue
        if not compared(graph):
            continue
        with np.errstate(all="ignore"):
            try:
                wanted = evaluate(graph, feeds)
            except FastgraphError:
                continue
            agree(name, evaluate(done, feeds), wanted, 1e-2)
    for make in GRAPHS.values():
        written(make())
    net = Net()
    groups_by_reshapes(net)
    graph = graph_of(net.bytes())
    held("groups by reshapes", graph, {v.name: np.random.default_rng(0).random(v.type.dims, np.float32)
                                       for v in graph.inputs}, False)  # fmt: skip
    root = Path(__file__).parents[1]
    missing = PAIRS - applied
    told = {pair for pair in missing for begin, file in HELD_BY.items()
            if pair[0].startswith(begin) and _plain(pair[1]) in _plain((root / file).read_text("utf-8"))}  # fmt: skip
    assert missing == told, sorted(missing - told)

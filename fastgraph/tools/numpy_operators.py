"""`fastgraph inspect --host`: what NumPy still computes, over many files. Nothing is compiled or run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..compile import Compiled, planned
from ..errors import FastgraphError, GraphError, InputError
from ..ir import Graph, Node
from ..kernels.isa.tiers import Tier
from ..objects.progress import Progress, terminal
from ..passes.dynamic import split_dynamic
from ..plan.program import HostStep
from ..runtime.feeds import declared
from ..shared import deciders, share
from ..text import counted, shorten, table, visible
from .feeds import Shapes
from .saved import graph_of

SUFFIXES = (".onnx", ".tflite", ".circle", ".mlmodel", ".mlpackage")
EXTENTS = (8, 64, 512, 1)
"""Extents to try for all open ones, in order."""

VALUES = (1, 0, -1, 2)
"""Numbers to try for inputs that decide shapes."""


def files(paths: Iterable[str]) -> Iterator[str]:
    """The networks among these files, and those in these folders. InputError for a folder without any."""
    for path in map(Path, paths):
        if path.suffix in SUFFIXES or not path.is_dir():
            yield str(path)
            continue
        found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
        if not found:
            raise InputError(f"{path}: expected networks in this folder ({', '.join(SUFFIXES)}), found none")
        yield from (str(p) for p in found if not any(up.suffix == ".mlpackage" for up in p.parents))


def plan_of(graph: Graph, tier: Tier, shapes: Shapes | None = None) -> Compiled:
    """A plan for given or proposed input shapes, with `EXTENTS` for open extents and `VALUES` for inputs that decide
    shapes; without kernels.

    FastgraphError or MemoryError, of the last try, when there is none; GraphError where one should have been made.
    """
    declared(graph, shapes)
    *others, last = (_chosen(graph, extent) for extent in EXTENTS)
    for tried in others if last not in others else ():
        try:
            return _for_values(graph, tried, tier)
        except GraphError:
            raise
        except (FastgraphError, MemoryError):
            continue
    try:
        return _for_values(graph, last, tier)
    except GraphError:
        raise
    except FastgraphError as error:
        advice = _advice(graph)
        if not advice:
            raise
        raise InputError(f"{error}. {advice}") from error


def _advice(graph: Graph) -> str:
    """Advice where no single extent suits all open ones, as of a decoder with a past; "" where none is open."""
    open_ = [v for v in graph.inputs if not v.type.concrete and v.name not in graph.usual]
    if not open_:
        return ""
    shapes = " ".join(f"--shape {v.name}={','.join(map(str, v.type.shape or ('...',)))}" for v in open_[:2])
    return (
        f"That is with {EXTENTS[-1]} for every open extent, and none of {', '.join(map(str, EXTENTS))} for all of them "
        f"makes a plan: give numbers that go together, as {shapes}{' ...' * (len(open_) > 2)}"
    )


def _for_values(graph: Graph, shapes: Shapes, tier: Tier) -> Compiled:
    """The plan for the first of some values of the inputs that decide shapes that leaves no tail to NumPy, else that
    for any values.
    """
    plan = planned(graph, shapes, tier, 1)
    asked = deciders(share(graph), shapes) if plan.tail is not None else ()
    given = {v.name: v.type.with_shape(tuple(shapes.get(v.name, v.type.shape or ()))) for v in graph.inputs}
    for number in VALUES if asked else ():
        values = {name: np.full(given[name].dims, number, given[name].dtype) for name in asked}
        try:
            found = planned(graph, shapes, tier, 1, values=values)
        except (FastgraphError, MemoryError):
            continue
        if found.tail is None:
            return found
    return plan


def _chosen(graph: Graph, extent: int) -> dict[str, tuple[int, ...]]:
    return {
        v.name: graph.usual.get(v.name) or tuple(d if isinstance(d, int) else extent for d in v.type.shape or ())
        for v in graph.inputs
        if not v.type.concrete
    }


def on_host(plan: Compiled) -> list[Node]:
    """The nodes that NumPy computes: between native calls, and after them where shapes depend on data and no plan is
    made of these shapes during the run, or results are no numbers.
    """
    parts = None if plan.tail is None else split_dynamic(plan.tail)
    left = parts[0] if parts is not None else plan.tail
    nodes = [*(left.nodes if left is not None else ()), *(n for each in plan.leaving.values() for n in each.nodes)]
    return [*(step.node for step in plan.program.steps if isinstance(step, HostStep)), *nodes]


def report(
    paths: Sequence[str],
    tier: Tier,
    shapes: Shapes,
    function: str | None = None,
    progress: Progress = partial(terminal, what="planning"),  # noqa: B008
) -> dict[str, Any]:
    """How many files have a plan, and how many of those no host steps; NumPy's operators, by the number of files:
    nodes, files, the types of one node, and its place; and why files have no plan.
    """
    nodes: Counter[str] = Counter()
    holders: dict[str, list[str]] = {}
    examples: dict[str, str] = {}
    refused: dict[str, str] = {}
    native, listed = 0, list(files(paths))
    count = len(listed)
    for number, path in enumerate(listed):
        progress(number, count, visible(Path(path).name))
        try:
            graph = graph_of(path, function)
            names = {v.name for v in graph.inputs}
            left = on_host(plan_of(graph, tier, {name: shape for name, shape in shapes.items() if name in names}))
        except (FastgraphError, MemoryError, OSError) as error:
            refused[path] = str(error)
            continue
        native += not left
        nodes.update(node.op for node in left)
        for node in left:
            examples.setdefault(node.op, _types(node))
        for op in {node.op for node in left}:
            holders.setdefault(op, []).append(path)
    progress(count, count, "")
    order = sorted(holders, key=lambda op: (-len(holders[op]), -nodes[op], op))
    return {
        "tier": tier.name,
        "files": count,
        "native": native,
        "operators": [
            {"op": op, "nodes": nodes[op], "files": len(holders[op]), "types": examples[op], "file": holders[op][0]}
            for op in order
        ],
        "refused": refused,
    }


def _types(node: Node) -> str:
    """The types of a node's operands and results."""
    read_, made = ([str(v.type) for v in values if v is not None] for values in (node.inputs, node.outputs))
    return f"{', '.join(read_)} -> {', '.join(made)}"


def text(found: Mapping[str, Any], width: int | None = None) -> str:
    """The report for people, its table in that width where columns can be shortened, or left out, to it."""
    count, refused = found["files"], found["refused"]
    native = f"{found['native']} native from end to end, {len(refused)} without a plan"
    lines = [f"{counted(count, 'file')} for {found['tier']}: {native}"]
    if found["operators"]:
        rows = [("operator", "nodes", "files", "for example", "in")]
        for each in found["operators"]:
            counts = str(each["nodes"]), str(each["files"])
            rows.append((each["op"], *counts, shorten(each["types"], 80), shorten(each["file"], 60)))
        lines += ["", "NumPy computes:", *table(rows, (1, 2), width, {0: 12, 3: 16, 4: 16}, drop=(3,))]
    return "\n".join(lines)

"""A plan's graph as a picture: a line for each node, in order, with what it reads drawn beside it, and its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Node
from ..runtime.executable import Executable
from ..svg import LETTER, box, path, svg, words
from ..text import shorten

ROW, LANE, NAME = 20.0, 9.0, 40
"""Pixels of a node's line and between two lanes; letters of a name."""
MOST_LANES = 24
"""More are drawn over one another."""
MOST_NODES = 4000


def graph_svg(plan: Executable, rows: Sequence[Mapping[str, Any]]) -> str:
    """The picture. Nodes of loops and branches are those outside of them, with all of their time."""
    nodes = plan.graph.nodes[:MOST_NODES]
    times = node_times(plan, rows)
    most, whole = max(times.values(), default=0.0), sum(times.values()) or 1.0
    reach = spans(nodes)
    lanes = lanes_of(reach)
    count = min(max(lanes.values(), default=-1) + 1, MOST_LANES)
    left = 16 + LANE * count
    texts = [(node.op, shorten(node.out.name, NAME), str(node.out.type), times.get(node, 0.0)) for node in nodes]
    columns = [max((len(each[i]) for each in texts), default=0) * LETTER + 14 for i in range(3)]  # type: ignore[arg-type]
    width = left + sum(columns) + 130
    parts = []
    for i, (node, (op, name, kind, us)) in enumerate(zip(nodes, texts, strict=True)):
        y = ROW * i
        shade = f' fill-opacity="{0.05 + 0.6 * us / most if most else 0.05:.2f}" rx="3"'
        title = f"{node.name or name}: {op} {kind}, {us:.1f} us, {us / whole:.1%}"
        parts.append(box(left, y + 1, width - left - 4, ROW - 2, "var(--c1)", title, shade))
        x = left + 6
        for said, column in zip((op, name, kind), columns, strict=True):
            parts.append(words(x, y + 14, said))
            x += column
        if us:
            parts.append(words(width - 10, y + 14, f"{us:.1f} us  {us / whole:.1%}", "end"))
    for i, readers in reach.items():
        parts += _edge(i, readers, lanes.get(i), left)
    return svg(width, ROW * len(nodes) + 4, "".join(parts), "graph")


def _edge(i: int, readers: Sequence[int], lane: int | None, left: float) -> list[str]:
    """The lines from a node to those that read it: beside the lines, or straight down to the next."""
    middle = ROW / 2
    if lane is None:
        return [path([(left + 2, ROW * (i + 1) - 3), (left + 2, ROW * (i + 1) + 3)], "var(--soft)")]
    x = left - 6 - LANE * (lane % MOST_LANES)
    down = [(left, ROW * i + middle + 4), (x, ROW * i + middle + 4), (x, ROW * readers[-1] + middle - 4)]
    found = [path(down, "var(--soft)")]
    return found + [path([(x, ROW * j + middle - 4), (left, ROW * j + middle - 4)], "var(--soft)") for j in readers]


def spans(nodes: Sequence[Node]) -> dict[int, list[int]]:
    """The places of the nodes that read each node, in order, by its place."""
    made = {value: i for i, node in enumerate(nodes) for value in node.outputs}
    found: dict[int, list[int]] = {}
    for j, node in enumerate(nodes):
        for i in sorted({made[value] for value in node.inputs if value is not None and value in made}):
            found.setdefault(i, []).append(j)
    return found


def lanes_of(reach: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """A lane for each node that is read further on than by the next: no two in a lane overlap."""
    ends: list[int] = []
    found: dict[int, int] = {}
    for i in sorted(reach):
        if reach[i] == [i + 1]:
            continue
        lane = next((n for n, end in enumerate(ends) if end <= i), len(ends))
        ends[lane : lane + 1] = [reach[i][-1]]
        found[i] = lane
    return found


def node_times(plan: Executable, rows: Sequence[Mapping[str, Any]]) -> dict[Node, float]:
    """Microseconds of each node's native steps."""
    bodies = plan.program.bodies
    outer = {i: node for node in plan.graph.nodes if node in bodies for i in bodies[node]}
    found: dict[Node, float] = {}
    for row in rows:
        if row["step"] is not None:
            node = outer.get(row["step"], plan.program.steps[row["step"]].node)
            found[node] = found.get(node, 0.0) + row["us"]
    return found

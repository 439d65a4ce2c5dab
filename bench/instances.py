"""Buffers for the arena planner: of networks (lifetimes/NAME.csv), and cut out of a rectangle, in which they fit.

`python bench/instances.py FILE...` writes lifetimes/NAME.csv of network files.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import fastgraph as fg
from fastgraph.plan.lower import build
from fastgraph.plan.packing import Buffer

FOLDER = Path(__file__).parent / "lifetimes"
NETWORKS = tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))
CAPACITY = 1 << 20
STEPS = 4096
LEAST = 1 / 16
"""Of a side that is cut, the least that a part is."""

KEPT = 0.8
"""Of the pieces, how many are kept: where none is missing, there is one way to place them."""

CUTS = (150, 175, 200, 225, 250, 300)
"""Pieces of the instances that are cut."""

MINIMALLOC = Path(__file__).resolve().parents[2] / "shared" / "models" / "planner"
"""MiniMalloc's instances A to F, where they lie beside the repository. They fit into CAPACITY too."""


def network(name: str) -> list[Buffer]:
    """The buffers of a network, as fastgraph planned it when the file was written."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return [
            Buffer(f"b{i}", int(row["first"]), int(row["last"]), int(row["size"]))
            for i, row in enumerate(csv.DictReader(file))
        ]


def minimalloc(name: str) -> list[Buffer]:
    """One of MiniMalloc's instances; skips the test where there is none."""
    path = MINIMALLOC / f"{name}.{CAPACITY}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {MINIMALLOC}")
    with path.open(newline="") as file:
        return [
            Buffer(row["id"], int(row["lower"]), int(row["upper"]) - 1, int(row["size"]), align=1)
            for row in csv.DictReader(file)
        ]


def cut(count: int) -> list[Buffer]:
    """Buffers that fit into an arena of CAPACITY: the pieces of a rectangle of steps and bytes, without a few.

    Each time one of the largest pieces is cut in two, across its steps or its bytes.
    """
    draw = random.Random(count)
    pieces = [(0, STEPS, CAPACITY)]
    while len(pieces) < count:
        pieces.sort(key=lambda piece: (piece[1] - piece[0]) * piece[2])
        first, end, size = pieces.pop(-draw.choice((1, 1, 2, 5)) if len(pieces) > 5 else -1)
        part = draw.uniform(LEAST, 1 - LEAST)
        if draw.random() < 0.5 and end - first > 1 / LEAST:
            middle = first + round(part * (end - first))
            pieces += [(first, middle, size), (middle, end, size)]
        else:
            lower = max(1, round(part * size))
            pieces += [(first, end, lower), (first, end, size - lower)]
    pieces = draw.sample(pieces, round(KEPT * len(pieces)))
    return [Buffer(f"b{i}", first, end - 1, size, align=1) for i, (first, end, size) in enumerate(pieces)]


def write(path: Path) -> None:
    """Note the lifetimes of a network's buffers."""
    planned: list[Sequence[Buffer]] = []

    def noting(buffers: Sequence[Buffer], **options: Any) -> Any:
        planned.append(buffers)
        return plan(buffers, **options)

    plan = build.plan
    with patch.object(build, "plan", noting):
        fg.load(path, threads=1)
    with (FOLDER / f"{path.stem}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("first", "last", "size"))
        writer.writerows((b.first, b.last, b.size) for b in planned[-1])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name))

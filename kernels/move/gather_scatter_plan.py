"""The loops of gathers and scatters, for the records of gather_scatter.py.

As copy_plan.py: plain Python, strides in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from .copy_plan import Args, Move, outer_args
from .rows import COMPONENT, DEPTH, NUMBERS, OPERATIONS, PLACE_LOOP, REPORTED, WORDS

SHORT = 8
"""Where the innermost loop has fewer places, a longer one takes its place."""


class Loop(NamedTuple):
    """A loop: `n` iterations, with strides `s`, `i` and `d` in the source, in the indices and in the destination.

    `disjoint`: its iterations never write the same bytes, whatever the indices are.
    """

    n: int
    s: int
    i: int
    d: int
    disjoint: bool = True


class Component(NamedTuple):
    """An index component with a stride and an extent; `wrap` is added when it is negative."""

    extent: int
    stride: int
    wrap: int = 0


class Indices(NamedTuple):
    """Type of the indices, bytes between the components of one, and how indices out of range are handled."""

    dtype: np.dtype
    component: int = 0
    outside: int = REPORTED


def gathered(loops: Sequence[Loop], components: Sequence[Component], indices: Indices, itemsize: int) -> Move:
    """y[n] = x[n + offset] for all iterations of the loops. ValueError where a record has no room for them.

    The caller adds the pointers `dst`, `src`, `index` and `error`.
    """
    return _placed("gather", [loop._replace(disjoint=True) for loop in loops], components, indices, itemsize)


def scattered(
    loops: Sequence[Loop],
    components: Sequence[Component],
    indices: Indices,
    itemsize: int,
    reduction: tuple[str, str] | None = None,
) -> Move:
    """y[n + offset] = x[n], in the order of the loops; or with a reduction, (kind, operation). ValueError as above."""
    move = _placed("scatter", loops, components, indices, itemsize)
    if reduction is None:
        return move
    kind, operation = NUMBERS.index(reduction[0]), OPERATIONS.index(reduction[1])
    return Move("scatter_reduce", {}, {**move.args, "kind": kind, "operation": operation})


def _placed(
    kernel: str, loops: Sequence[Loop], components: Sequence[Component], indices: Indices, itemsize: int
) -> Move:
    joined = _joined(loops)
    run = itemsize
    while joined and joined[-1].i == 0 and joined[-1].s == joined[-1].d == run and joined[-1].disjoint:
        run *= joined.pop().n
    outer, inner = _innermost(joined) if joined else ([], Loop(1, 0, 0, 0))
    if not 0 < len(components) <= DEPTH:
        raise ValueError(f"places by {len(components)} indices; a record has room for 1 to {DEPTH}")
    total = prod(loop.n for loop in (*outer, inner))
    args: Args = {"index_size": indices.dtype.itemsize, "signed": int(indices.dtype.kind == "i")}
    args |= {"component": indices.component, "depth": len(components), "outside": indices.outside}
    args |= {"parts": total if kernel == "gather" else _disjoint_parts([*outer, inner])}
    args |= {"word": run if run in WORDS else 0, "run": run}
    args |= {"count": inner.n, "s": inner.s, "i": inner.i, "d": inner.d} | _components(components)
    args |= outer_args(PLACE_LOOP, [{name: getattr(loop, name) for name in PLACE_LOOP} for loop in outer])
    return Move(kernel, {}, args)


def _components(components: Sequence[Component]) -> Args:
    every = [*components, *[Component(0, 0)] * (DEPTH - len(components))]
    return {f"{name}{k}": getattr(one, name) for k, one in enumerate(every) for name in COMPONENT}


def _joined(loops: Sequence[Loop]) -> list[Loop]:
    """The fewest loops over the same elements in the same order."""
    joined: list[Loop] = []
    for loop in loops:
        if loop.n == 1:
            continue
        n, s, i, d, disjoint = loop
        if joined and joined[-1][1:] == (n * s, n * i, n * d, disjoint):
            loop = Loop(joined.pop().n * n, s, i, d, disjoint)
        joined.append(loop)
    return joined


def _innermost(loops: list[Loop]) -> tuple[list[Loop], Loop]:
    """The outer loops, and the innermost one: a short innermost loop is swapped for a longer one if that keeps the
    order of writes to the same bytes.
    """
    last = loops[-1]
    if last.n < SHORT:
        longest = max(range(len(loops)), key=lambda k: loops[k].n)
        others = [*loops[:longest], *loops[longest + 1 :]]
        if loops[longest].disjoint or all(loop.disjoint for loop in loops[longest:][1:]):
            return others, loops[longest]
    return loops[:-1], last


def _disjoint_parts(loops: Sequence[Loop]) -> int:
    """Into how many parts the outermost loops can be split that never write the same bytes."""
    count = 1
    for loop in loops:
        if not loop.disjoint:
            break
        count *= loop.n
    return count

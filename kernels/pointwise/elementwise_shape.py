"""How tensors of any rank become the loops of the elementwise kernel. Imports nothing that compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

RANK = 5
"""Loop dimensions of the kernel, after merging: three outer ones, rows, columns."""

Strides = tuple[int, ...]


class Loops(NamedTuple):
    """`dims` are RANK extents, outermost first; `y` and each of `xs` their element strides (0: broadcast).

    The last stride of y is 1; that of an input is 1 or 0.
    """

    dims: tuple[int, ...]
    y: Strides
    xs: tuple[Strides, ...]

    def args(self, y: Any) -> dict[str, Any]:
        """The slots of LOOPS for a result at address y."""
        sizes = zip(("d0", "d1", "d2", "rows", "cols"), self.dims, strict=True)
        steps = zip(("y_d0", "y_d1", "y_d2", "y_row"), self.y[:-1], strict=True)
        return {"y": y, **dict(sizes), **dict(steps)}

    def operand(self, x: Any) -> dict[str, Any]:
        """The slots of the one input, at address x."""
        return {"x": x, **dict(zip(("x_d0", "x_d1", "x_d2", "x_row"), self.xs[0][:-1], strict=True))}


def strides_of(shape: Sequence[int], row: int | None = None) -> Strides:
    """Element strides of a tensor whose rows are contiguous and `row` elements apart (dense: None)."""
    strides: list[int] = []
    step = 1
    for i, d in enumerate(reversed(shape)):
        strides.insert(0, step)
        step *= d if i or row is None else row
    return tuple(strides)


def broadcast(shape: Sequence[int], strides: Sequence[int], out: Sequence[int]) -> Strides | None:
    """Strides of a tensor as seen from the `out` shape that it is broadcast to, NumPy's way; None if it isn't."""
    missing = len(out) - len(shape)
    if missing < 0 or any(d not in (1, n) for d, n in zip(shape, out[missing:], strict=True)):
        return None
    kept = tuple(0 if d == 1 else s for d, s in zip(shape, strides, strict=True))
    return (0,) * missing + kept


def collapse(shape: Sequence[int], operands: Sequence[Strides]) -> tuple[tuple[int, ...], list[Strides]]:
    """Drop extents of 1 and merge neighbors that every operand walks as one: (dims, strides per operand)."""
    dims: list[int] = []
    steps: list[tuple[int, ...]] = []
    for d, here in zip(shape, zip(*operands, strict=True), strict=True):
        if d == 1:
            continue
        if dims and all(before == d * now for before, now in zip(steps[-1], here, strict=True)):
            dims[-1] *= d
            steps[-1] = here
        else:
            dims.append(d)
            steps.append(here)
    if not dims:
        return (), [() for _ in operands]
    return tuple(dims), list(zip(*steps, strict=True))


def loops(shape: Sequence[int], y: Strides, xs: Sequence[Strides | None]) -> Loops | None:
    """The kernel's loops for an output of `shape` with strides `y` and broadcast inputs `xs`.

    None when more than RANK dimensions remain after merging, or an input does not broadcast.
    """
    fitting = [x for x in xs if x is not None]
    if len(fitting) < len(xs):
        return None
    dims, (y, *inputs) = collapse(shape, [y, *fitting])
    if not dims or y[-1] != 1 or any(x[-1] not in (0, 1) for x in inputs):
        dims = (*dims, 1)
        y, inputs = (*y, 1), [(*x, 0) for x in inputs]
    pad = RANK - len(dims)
    if pad < 0:
        return None
    zeros = (0,) * pad
    return Loops((1,) * pad + dims, zeros + y, tuple(zeros + x for x in inputs))

"""Operators that TensorFlow Lite or Core ML has as one, and ONNX as several: their shapes, and what they are there.

take_each x i           x[n, i[n]] of the second axis: for each of the first, by indices that are fed
window x s              `size` places of `axis` from s on, which is fed
update x u [s]          x with u written over it along `axis`, from s on or from `start`
diagonal d              matrices that have the last axis as their diagonal; with_diagonal x d: x with another one
marks b s               1 for each box [n, 4] that is kept of those that lie over each other, by scores [n], else 0
memory x f t b          one step of a filter: f filters of which `rank` make a unit, t: what each place of time counts
floor_div x             x rounded, divided by the whole number `by` and rounded down
bucketize x             how many `boundaries` x rounded is not below; fake_quant x: to steps of 1/4 between -8 and 7.75
spectrum x              of the last two axes: its `part`, ABS, REAL or IMAG
sample x p              an image at places [n, h, w, 2] between -1 and 1
crop x [b]              an image from (top, left) to (bottom, right): of `places` (rows, columns) in pixels, or of
                        b [1, 4] between 0 and 1
add_rows x u            u[k] added to x[`places`[k]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .composition import Op, Shape
from .nodes import MOST
from .shapes import need

if TYPE_CHECKING:
    from .write_onnx import Writer

I64 = np.int64


def shape_of(kind: str, shapes: list[Shape], a: dict[str, Any]) -> Shape:
    x = shapes[0]
    match kind:
        case "take_each":
            need(len(x) > 1 and len(shapes[1]) == 2 and shapes[1][0] == x[0], "indices for each")
            return (*shapes[1], *x[2:])
        case "window":
            need(a["size"] <= x[a["axis"]] and shapes[1] == (1,), "size")
            return tuple(a["size"] if i == a["axis"] else d for i, d in enumerate(x))
        case "update":
            need(all(u <= d if i == a["axis"] else u == d for i, (u, d) in enumerate(zip(shapes[1], x, strict=True))),
                 "part")  # fmt: skip
            need(len(shapes) > 2 or a["start"] + shapes[1][a["axis"]] <= x[a["axis"]], "start")
        case "diagonal":
            return (*x, x[-1])
        case "with_diagonal":
            need(shapes[1] == (*x[:-2], min(x[-2:])), "diagonal")
        case "marks":
            need(x == (*shapes[1], 4), "boxes")
            return shapes[1]
        case "memory":
            need(len(x) == 2 and shapes[1][1] == x[1] and shapes[1][0] == shapes[2][0], "filters")
            need(shapes[3] == (shapes[1][0] // a["rank"],), "units")
            return (x[0], *shapes[3])
        case "sample":
            need(len(x) == 4 and shapes[1][0] == x[0] and shapes[1][3] == 2, "places")
            return (*x[:2], *shapes[1][1:3])
        case "spectrum":
            powers = len(x) > 1 and x[-1] > 1 and all(d & (d - 1) == 0 for d in x[-2:])
            need(powers, "powers of two")  # of one column LiteRT makes two numbers
            return (*x[:-1], x[-1] // 2 + 1)
        case "crop":
            need(len(x) == 4 and x[0] == 1, "one image")
            if len(shapes) > 1:
                need(shapes[1] == (1, 4), "a box")
            else:
                need(all(max(ends) <= d - 1 for ends, d in zip(a["places"], x[2:], strict=True)), "crop")
            return (*x[:2], *a["size"])
        case "add_rows":
            need(len(a["places"]) == shapes[1][0] and shapes[1][1:] == x[1:] and max(a["places"]) < x[0], "rows")
    return x


def take_each(w: Writer, op: Op, inputs: list[str]) -> None:
    x, at = inputs
    w.add("GatherND", [x, w.add("Unsqueeze", [at, w.ints(-1)])], op.outputs, batch_dims=1)


def window(w: Writer, op: Op, inputs: list[str]) -> None:
    x, start = inputs
    w.add("Slice", [x, start, w.add("Add", [start, w.ints(op.attrs["size"])]), w.ints(op.attrs["axis"])], op.outputs)


def update(w: Writer, op: Op, inputs: list[str]) -> None:
    (x, u, *start), axis, shape = inputs, op.attrs["axis"], w.shapes[op.inputs[1]]
    column = [-1 if i == axis else 1 for i in range(len(shape))]
    rows = w.const(np.arange(shape[axis]).reshape(column) + op.attrs.get("start", 0))
    places = w.add("Add", [rows, *start]) if start else rows
    w.add("ScatterElements", [x, w.add("Expand", [places, w.ints(*shape)]), u], op.outputs, axis=axis)


def diagonal(w: Writer, op: Op, inputs: list[str]) -> None:
    n = w.shapes[op.inputs[0]][-1]
    w.add("Mul", [w.add("Unsqueeze", [*inputs, w.ints(-1)]), w.const(np.eye(n, dtype=w.dtype))], op.outputs)


def with_diagonal(w: Writer, op: Op, inputs: list[str]) -> None:
    x, d = inputs
    rows, columns = w.shapes[op.inputs[0]][-2:]
    spread = w.add("Unsqueeze", [d, w.ints(-1 if rows <= columns else -2)])
    w.add("Where", [w.const(np.eye(rows, columns, dtype=bool)), spread, x], op.outputs)


def marks(w: Writer, op: Op, inputs: list[str]) -> None:
    boxes, scores = (w.add("Reshape", [name, w.ints(*shape)]) for name, shape in zip(inputs, ((1, -1, 4), (1, 1, -1)),
                                                                                  strict=True))  # fmt: skip
    a, (n,) = op.attrs, w.shapes[op.inputs[1]]
    bounds = [w.const(np.array(a["most"], I64)), w.number(a["limit"]), w.number(a["least"])]
    kept = w.add("Gather", [w.add("NonMaxSuppression", [boxes, scores, *bounds]), w.ints(2)], axis=1)
    seen = w.add("Equal", [kept, w.const(np.arange(n))])
    rows = w.add("Concat", [w.const(np.zeros((1, n), w.dtype)), w.add("Cast", [seen], to=1)], axis=0)
    w.reduced("Max", rows, op.outputs, 0)


def memory(w: Writer, op: Op, inputs: list[str]) -> None:
    x, filters, time, bias = inputs
    sums = w.add("MatMul", [x, w.add("Transpose", [filters], perm=[1, 0])])
    last = w.add("Gather", [time, w.const(np.array(-1, I64))], axis=1)
    units = w.shapes[op.inputs[0]][0], *w.shapes[op.inputs[3]], op.attrs["rank"]
    parts = w.add("Reshape", [w.add("Mul", [sums, last]), w.ints(*units)])
    w.add("Add", [w.add("ReduceSum", [parts, w.ints(2)], keepdims=0), bias], op.outputs)


def floor_div(w: Writer, op: Op, inputs: list[str]) -> None:
    held = w.add("Clip", [*inputs, w.number(-MOST), w.number(MOST)])
    v, by = w.add("Cast", [w.add("Round", [held])], to=6), w.const(np.array(op.attrs["by"], np.int32))
    whole = w.add("Div", [w.add("Sub", [v, w.add("Mod", [v, by])]), by])
    w.add("Cast", [whole], op.outputs, to=1)


def sample(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("GridSample", inputs, op.outputs, align_corners=1)


def bucketize(w: Writer, op: Op, inputs: list[str]) -> None:
    limits = w.const(np.array(op.attrs["boundaries"], w.dtype))
    reached = w.add("GreaterOrEqual", [w.add("Unsqueeze", [w.add("Round", inputs), w.ints(-1)]), limits])
    w.add("ReduceSum", [w.add("Cast", [reached], to=1), w.ints(-1)], op.outputs, keepdims=0)


def fake_quant(w: Writer, op: Op, inputs: list[str]) -> None:
    held = w.add("Clip", [*inputs, w.number(-MOST), w.number(MOST - 1 / 4)])
    w.add("Mul", [w.add("Round", [w.add("Mul", [held, w.number(4)])]), w.number(1 / 4)], op.outputs)


def spectrum(w: Writer, op: Op, inputs: list[str]) -> None:
    y, rank = w.add("Unsqueeze", [*inputs, w.ints(-1)]), len(w.shapes[op.inputs[0]])
    for axis, side in ((rank - 1, 1), (rank - 2, 0)):
        y = w.add("DFT", [y, "", w.const(np.array(axis, I64))], onesided=side)
    match op.attrs["part"]:
        case "ABS":
            squares = w.add("ReduceSum", [w.add("Mul", [y, y]), w.ints(-1)], keepdims=0)
            w.add("Sqrt", [squares], op.outputs)
        case part:
            w.add("Gather", [y, w.const(np.array(("REAL", "IMAG").index(part), I64))], op.outputs, axis=-1)


def crop(w: Writer, op: Op, inputs: list[str]) -> None:
    if len(inputs) > 1:
        _crop_box(w, op, inputs)
        return
    image = w.shapes[op.inputs[0]][2:]
    axes = [np.linspace(*ends, size) * 2 / max(d - 1, 1) - 1 for ends, size, d in
            zip(op.attrs["places"], op.attrs["size"], image, strict=True)]  # fmt: skip
    grid = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], -1)[None]
    w.add("GridSample", [*inputs, w.const(grid.astype(w.dtype))], op.outputs, align_corners=1)


def _crop_box(w: Writer, op: Op, inputs: list[str]) -> None:
    """Of ends that are computed: each place between them, from -1 to 1 in the image."""
    (x, box), sizes = inputs, op.attrs["size"]
    ends = w.add("Reshape", [w.add("Sub", [w.add("Mul", [box, w.number(2)]), w.number(1)]), w.ints(2, 2)])
    axes = []
    for i, size in enumerate(sizes):
        far = np.linspace(0, 1, size, dtype=w.dtype)
        between = w.add("MatMul", [w.const(np.stack([1 - far, far], 1)), ends])
        column = w.add("Gather", [between, w.ints(i)], axis=1)
        line = w.add("Reshape", [column, w.ints(1, *((1, size) if i else (size, 1)), 1)])
        axes.append(w.add("Expand", [line, w.ints(1, *sizes, 1)]))
    w.add("GridSample", [x, w.add("Concat", axes[::-1], axis=3)], op.outputs, align_corners=1)


def add_rows(w: Writer, op: Op, inputs: list[str]) -> None:
    x, u = inputs
    w.add("ScatterND", [x, w.const(np.array(op.attrs["places"], I64)[:, None]), u], op.outputs, reduction="add")


RULES: dict[str, Callable[[Writer, Op, list[str]], None]] = {
    "take_each": take_each, "window": window, "update": update, "diagonal": diagonal, "with_diagonal": with_diagonal,
    "marks": marks, "memory": memory, "floor_div": floor_div, "sample": sample, "crop": crop, "add_rows": add_rows,
    "bucketize": bucketize, "fake_quant": fake_quant, "spectrum": spectrum,
}  # fmt: skip

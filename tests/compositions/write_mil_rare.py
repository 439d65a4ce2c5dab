"""The operators of rare_kinds.py that Core ML has."""

from collections.abc import Callable

import numpy as np

from .composition import Op
from .nodes import MOST
from .quantized import one_in
from .write_mil import Mil, ints


def take_each(m: Mil, op: Op, x: str, out: str) -> None:
    """Indices may be checked at run time."""
    m.op("gather", out, x=x, indices=op.inputs[1], axis=np.int32(1), batch_dims=np.int32(1),
         validate_indices=np.bool_(one_in(out, 2)))  # fmt: skip


def _begin(m: Mil, x: str, axis: int, start: str | int, more: int = 0) -> object:
    """A place along an axis, 0 along the others; or `more` further, and the ends of the others."""
    rank, shape = len(m.shapes[x]), m.shapes[x]
    around = list(shape) if more else [0] * rank
    if isinstance(start, int):
        return ints(*(start + more if i == axis else d for i, d in enumerate(around)))
    at = m.raw("add", (1,), "INT32", x=start, y=np.int32(more)) if more else start
    parts = [m.program.const(ints(*part)) for part in (around[:axis], around[axis + 1 :])]
    values = [*([parts[0]] if axis else []), at, *([parts[1]] if axis < rank - 1 else [])]
    return m.raw("concat", (rank,), "INT32", values=values, axis=np.int32(0), interleave=np.bool_(False))


def window(m: Mil, op: Op, x: str, out: str) -> None:
    begin = _begin(m, x, op.attrs["axis"], op.inputs[1])
    m.op("slice_by_size", out, x=x, begin=begin, size=ints(*m.shapes[out]))


def update(m: Mil, op: Op, x: str, out: str) -> None:
    axis, u, *start = op.attrs["axis"], *op.inputs[1:]
    at = start[0] if start else op.attrs["start"]
    begin, end = (_begin(m, x, axis, at, more) for more in (0, m.shapes[u][axis]))
    m.op("slice_update", out, x=x, update=m.read(u), begin=begin, end=end)


def floor_div(m: Mil, op: Op, x: str, out: str) -> None:
    shape = m.shapes[x]
    held = m.raw("clip", shape, x=x, alpha=m.number(-MOST), beta=m.number(MOST))
    v = m.raw("cast", shape, "INT32", x=m.raw("round", shape, x=held), dtype=m.program.const("int32"))
    v = m.raw("floor_div", shape, "INT32", x=v, y=np.int32(op.attrs["by"]))
    m.op("cast", out, x=v, dtype=m.program.const("fp32" if m.element == "FLOAT32" else "fp16"))


def sample(m: Mil, op: Op, x: str, out: str) -> None:
    m.op("resample", out, x=x, coordinates=op.inputs[1], sampling_mode=m.program.const("bilinear"),
         padding_mode=m.program.const("constant"), padding_value=m.number(0), align_corners=np.bool_(True),
         coordinates_mode=m.program.const("normalized_minus_one_to_one"))  # fmt: skip


def crop(m: Mil, op: Op, x: str, out: str) -> None:
    height, width = op.attrs["size"]
    if len(op.inputs) > 1:
        far = [d - 1 for d in m.shapes[x][2:]]
        boxes = m.raw("mul", (1, 4), x=op.inputs[1], y=m.reals([[*far, *far]]))
    else:
        (top, bottom), (left, right) = op.attrs["places"]
        boxes = m.reals([[top, left, bottom, right]])
    m.op("crop_resize", out, x=x, boxes=boxes, box_indices=ints(0),
         target_height=np.int32(height), target_width=np.int32(width), normalized_coordinates=np.bool_(False),
         spatial_scale=m.number(1), box_coordinate_mode=m.program.const("CORNERS_HEIGHT_FIRST"),
         sampling_mode=m.program.const("STRICT_ALIGN_CORNERS"))  # fmt: skip


def add_rows(m: Mil, op: Op, x: str, out: str) -> None:
    m.op("scatter", out, data=x, indices=ints(*op.attrs["places"]), updates=m.read(op.inputs[1]), axis=np.int32(0),
         mode=m.program.const("add"))  # fmt: skip


RULES: dict[str, Callable[[Mil, Op, str, str], None]] = {
    "take_each": take_each, "window": window, "update": update, "floor_div": floor_div, "sample": sample, "crop": crop,
    "add_rows": add_rows,
}  # fmt: skip

"""Shapes: reshape, transpose, squeeze, joining and taking apart, blocks of pixels.

Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS16, iOS17}/tensor_transformation.py, tensor_operation.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import axis_in, extents, ints
from .call import Call, Rule, rule
from .common import axes_in

# other shapes for the same elements


@rule("reshape")
def reshape(c: Call) -> None:
    """-1 takes what is left. 0 keeps an extent: of the same axis; from iOS17 on of the one as far from the end."""
    x, shape = c.x(), c.x("shape")
    if shape.data is None or not (shape.data == 0).any():
        c.finish("reshape", [x, c.int64(shape)])
        return
    numbers = [int(n) for n in shape.data.reshape(-1)]
    shift = len(numbers) - c.rank(x)
    if shift and c.version < 7:
        c.fail(f"expected a shape of {c.rank(x)} numbers, as one of them is 0, found {numbers}")
    dims = x.type.shape or ()
    kept: list[Any] = [1 if i < shift else dims[i - shift] if n == 0 else n for i, n in enumerate(numbers)]
    kept = [n if numbers[i] else kept[i] for i, n in enumerate(numbers)]
    if all(isinstance(n, int) for n in kept):
        c.finish("reshape", [x, ints(c, kept)])
    elif not shift:
        c.finish("reshape", [x, ints(c, numbers)], allowzero=0)
    else:
        pieces = [ints(c, [n]) if isinstance(n, int) else _extent(c, x, i - shift) for i, n in enumerate(kept)]
        c.finish("reshape", [x, c.add("concat", pieces, axis=0)])


def _extent(c: Call, x: Value, axis: int) -> Value:
    """One extent, as a vector."""
    return c.add("shape", [x], start=axis, end=axis + 1)


@rule("reshape_like")
def reshape_like(c: Call) -> None:
    """The new shape is pieces of the shapes of other tensors, one after the other."""
    given = [c.values(key) for key in ("ref_tensors", "begins", "ends", "end_masks")]
    if len({len(values) for values in given}) != 1 or not given[0]:
        c.fail(f"expected as many begins, ends and end_masks as ref_tensors, found {[len(v) for v in given]}")
    pieces = []
    for ref, *limits in zip(*given, strict=True):
        begin, end, to_end = (int(_known(c, v)) for v in limits)
        pieces.append(_piece(c, ref, begin, None if to_end else end))
    shape = c.add("concat", pieces, axis=0) if any(p.data is None for p in pieces) else None
    numbers = None if shape is not None else np.concatenate([p.data for p in pieces])  # type: ignore[misc]
    c.finish("reshape", [c.x(), shape if numbers is None else ints(c, numbers)], allowzero=1)  # type: ignore[list-item]


def _known(c: Call, value: Value) -> Any:
    if value.data is None or value.data.size != 1:
        c.fail(f"expected {value} to be a constant number, found {value.type}")
    return value.data.reshape(())


def _piece(c: Call, ref: Value, begin: int, end: int | None) -> Value:
    dims = (ref.type.shape or ())[begin:end]
    if ref.type.shape is not None and all(isinstance(d, int) for d in dims):
        return ints(c, dims)  # type: ignore[arg-type]
    return c.add("shape", [ref], start=begin, end=end)


@rule("flatten2d")
def flatten2d(c: Call) -> None:
    c.finish("flatten", [c.x()], axis=int(c.known("axis", 1)))


@rule("expand_dims")
def expand_dims(c: Call) -> None:
    c.finish("unsqueeze", [c.x(), ints(c, c.ints("axes"))])


@rule("squeeze")
def squeeze(c: Call) -> None:
    """Without axes all of extent 1 go; an axis that is named and has another extent stays."""
    x, axes = c.x(), c.ints("axes", None)
    rank = c.rank(x)
    dims: Any = x.type.shape
    named = range(rank) if axes is None else axes_in(c, axes, rank)
    declared = c.outputs[0].type.shape
    gone = [a for a in named if dims[a] == 1 or (not isinstance(dims[a], int) and axes is not None)]
    if declared is not None and len(declared) != rank - len(gone):
        if axes is not None or None not in dims:
            c.unsupported(f"of axes {list(named)} of {x}, as the program leaves open which of them have one entry")
        c.finish("squeeze", [x])
        return
    c.finish("squeeze", [x, ints(c, gone)])


@rule("transpose")
def transpose(c: Call) -> None:
    perm = c.ints("perm")
    c.finish("transpose", [c.x()], perm=axes_in(c, perm, len(perm)))


@rule("shape")
def shape(c: Call) -> None:
    c.finish("shape", [c.x()])


# joining, taking apart


@rule("concat")
def concat(c: Call) -> None:
    """Scalars become vectors. `interleave`: the first slice of each, the second of each, and so on."""
    values = c.values()
    if not values:
        c.fail("expected its parameter 'values', found none")
    if c.rank(values[0]) == 0:
        values = [c.add("unsqueeze", [v, ints(c, [0])]) for v in values]
    rank = c.rank(values[0])
    axis = axis_in(c, int(c.known("axis")), rank)
    if not c.known("interleave", False) or len(values) == 1:
        c.finish("concat", values, axis=axis)
        return
    apart = [c.add("unsqueeze", [v, ints(c, [axis + 1])]) for v in values]
    joined = c.add("concat", apart, axis=axis + 1)
    factors = ints(c, [len(values) if i == axis else 1 for i in range(rank)])
    first = extents(c, values[0])
    shape = ints(c, first.data * factors.data) if first.data is not None else c.add("mul", [first, factors])  # type: ignore[operator]
    c.finish("reshape", [joined, shape])


@rule("stack")
def stack(c: Call) -> None:
    values = c.values()
    if not values:
        c.fail("expected its parameter 'values', found none")
    axis = axis_in(c, int(c.known("axis")), c.rank(values[0]) + 1)
    c.finish("concat", [c.add("unsqueeze", [v, ints(c, [axis])]) for v in values], axis=axis)


@rule("split")
def split(c: Call) -> None:
    """Into parts of `split_sizes`, or as many equal ones as there are outputs."""
    x, count = c.x(), len(c.outputs)
    axis = axis_in(c, int(c.known("axis")), c.rank(x))
    number, sizes = c.known("num_splits", count), c.value("split_sizes")
    if number != count:
        c.fail(f"expected {number} outputs, as its parameter 'num_splits' says, found {count}")
    extent = x.type.shape[axis]  # type: ignore[index]
    if sizes is None and isinstance(extent, int) and extent % count:
        c.fail(f"expected an axis of which {count} parts are equal, found extent {extent}")
    c.add("split", [x] if sizes is None else [x, c.int64(sizes)], outputs=c.outputs, axis=axis)


@rule("tile")
def tile(c: Call) -> None:
    c.finish("tile", [c.x(), c.int64(c.x("reps"))])


# pixels, channels and batches


def _pixels(op: str, mode: str, key: str) -> Rule:
    def translate(c: Call) -> None:
        if c.rank(c.x()) != 4:
            c.fail(f"expected an input of rank 4, found {c.x().type}")
        c.give(c.to_first(c.add(op, [c.to_last(c.x())], blocksize=int(c.known(key)), mode=mode)))

    return translate


rule("depth_to_space")(_pixels("depth_to_space", "DCR", "block_size"))
rule("space_to_depth")(_pixels("space_to_depth", "DCR", "block_size"))
rule("pixel_shuffle")(_pixels("depth_to_space", "CRD", "upscale_factor"))
rule("pixel_unshuffle")(_pixels("space_to_depth", "CRD", "downscale_factor"))


def _blocks(op: str, key: str) -> Rule:
    def translate(c: Call) -> None:
        if c.rank(c.x()) != 4:
            c.fail(f"expected an input of rank 4, found {c.x().type}")
        pairs = np.asarray(c.known(key), np.int64)
        block = ints(c, c.ints("block_shape"))
        if pairs.shape != (2, 2) or block.type.shape != (2,):
            c.fail(f"expected its parameters 'block_shape' and {key!r} as 2 and 2 x 2 numbers")
        c.give(c.to_first(c.add(op, [c.to_last(c.x()), block, c.const(pairs)])))

    return translate


rule("space_to_batch")(_blocks("space_to_batch", "paddings"))
rule("batch_to_space")(_blocks("batch_to_space", "crops"))

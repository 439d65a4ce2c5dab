"""Images made larger and smaller. Semantics: .../ops/defs/{iOS15, iOS16, iOS17}/image_resizing.py.

Where the grid points of `sampling_mode` lie, as canonical coordinates:
STRICT_ALIGN_CORNERS i * (in - 1) / (out - 1); ALIGN_CORNERS too, but the middle for out = 1; DEFAULT i * in / out;
UNALIGN_CORNERS (i + 0.5) * in / out - 0.5; OFFSET_CORNERS (i + 0.5) * max(1, in - 1) / out. The nearest element is
floor((i + 0.5) * in / out), of upsample_nearest_neighbor floor(i * in / out): as coremltools' tests and its TensorFlow
frontend have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Value
from ..core.common import FARTHEST, ints
from .call import Call, rule

SAMPLING = {
    "strict_align_corners": "tf_align_corners", "align_corners": "tf_align_corners", "default": "tf_asymmetric",
    "unalign_corners": "tf_half_pixel", "offset_corners": "tf_crop_and_resize",
}  # fmt: skip
SIZE_LIMIT = 1 << 24


def _spatial(c: Call, x: Value) -> tuple[int, int]:
    """The last two axes."""
    rank = c.rank(x)
    if rank < 3:
        c.fail(f"expected an input of rank 3 or more, found {x.type}")
    return rank - 2, rank - 1


def _resized(c: Call, x: Value, axes: Sequence[int], sizes: Value, sampling: str, nearest: bool = False) -> Value:
    """x with `axes` of the given sizes, sampled at the places that `sampling` says."""
    mode = SAMPLING[sampling]
    one_by_one = mode == "tf_crop_and_resize" or sampling == "align_corners"
    if not one_by_one or len(axes) < 2:
        return _sampled(c, x, axes, sizes, sampling, nearest)
    for place, axis in enumerate(axes):
        size = ints(c, sizes.data[place : place + 1]) if sizes.data is not None else c.add(
            "slice", [sizes, ints(c, [place]), ints(c, [place + 1]), ints(c, [0]), None])  # fmt: skip
        x = _sampled(c, x, (axis,), size, sampling, nearest)
    return x


def _sampled(c: Call, x: Value, axes: Sequence[int], sizes: Value, sampling: str, nearest: bool) -> Value:
    mode, roi = SAMPLING[sampling], None
    if sampling == "align_corners" and sizes.data is None:
        c.unsupported("with sampling_mode ALIGN_CORNERS to sizes that only a run knows")
    if sampling == "align_corners" and int(sizes.data[0]) == 1:  # type: ignore[index]
        mode = "tf_half_pixel"
    if sampling == "offset_corners":
        before = x.type.shape[axes[0]] if x.type.shape else None
        if sizes.data is None or not isinstance(before, int):
            c.unsupported("with sampling_mode OFFSET_CORNERS where only a run knows the sizes")
        roi = c.const(_offset(before, int(sizes.data[0])))
    return c.add("resize", [x, roi, None, sizes], mode="nearest" if nearest else "linear", axes=tuple(axes),
                 nearest_mode="floor" if mode == "tf_asymmetric" else "round_prefer_ceil",
                 coordinate_transformation_mode=mode)  # fmt: skip


def _offset(n_in: int, n_out: int) -> np.ndarray:
    """(start, end) in units of the axis, whose first and last grid points they are."""
    step = max(1, n_in - 1) / n_out
    unit = max(n_in - 1, 1)
    first, last = 0.5 * step / unit, (n_out - 0.5) * step / unit
    return np.array([(first + last) / 2] * 2 if n_out == 1 else [first, last], np.float32)


def _target(c: Call, *keys: str, default: int | None = None) -> Value:
    sizes = [int(c.known(key) if default is None else c.known(key, default)) for key in keys]
    if not all(0 < size <= SIZE_LIMIT for size in sizes):
        c.fail(f"expected sizes from 1 to {SIZE_LIMIT}, found {sizes}")
    return ints(c, sizes)


@rule("resize_bilinear")
def _bilinear(c: Call) -> None:
    sizes = _target(c, "target_size_height", "target_size_width", default=1)
    sampling = c.text("sampling_mode", *SAMPLING, default="DEFAULT")
    c.give(_resized(c, c.x(), _spatial(c, c.x()), sizes, sampling))


@rule("resize_nearest_neighbor")
def _nearest(c: Call) -> None:
    sizes = _target(c, "target_size_height", "target_size_width")
    c.give(_resized(c, c.x(), _spatial(c, c.x()), sizes, "unalign_corners", nearest=True))


def _scaled(c: Call, x: Value, axes: Sequence[int]) -> Value:
    """floor(extent * scale) of the last two axes; that the sizes are whole is all that matters of the scales."""
    factors = np.array([float(c.known(f"scale_factor_{key}", 1)) for key in ("height", "width")])
    if not np.all(np.isfinite(factors) & (factors > 0)):
        c.fail(f"expected scale factors above 0, found {factors.tolist()}")
    extents = [x.type.shape[axis] if x.type.shape else None for axis in axes]
    if all(isinstance(n, int) for n in extents):
        # In float32, as a factor of 1.1 is a little more than that: floor(10 * 1.1) is 11.
        sizes = np.floor(np.float32(factors) * np.array(extents, np.float32)).astype(np.int64)
        if not np.all((sizes >= 0) & (sizes <= SIZE_LIMIT)):
            c.fail(f"expected sizes up to {SIZE_LIMIT}, found {sizes.tolist()}")
        return ints(c, sizes)
    now = c.cast(c.add("shape", [x], start=axes[0], end=axes[1] + 1), np.float32)
    return c.int64(c.add("floor", [c.add("mul", [now, c.const(factors.astype(np.float32))])]))


@rule("upsample_bilinear")
def _upsample(c: Call) -> None:
    """half_pixel_centers is what align_corners is not, unless it is given (iOS16)."""
    corners = bool(c.known("align_corners", True))
    centers = bool(c.known("half_pixel_centers", not corners))
    if corners and centers:
        c.fail("expected not both align_corners and half_pixel_centers")
    sampling = "strict_align_corners" if corners else "unalign_corners" if centers else "default"
    axes = _spatial(c, c.x())
    c.give(_resized(c, c.x(), axes, _scaled(c, c.x(), axes), sampling))


@rule("upsample_nearest_neighbor")
def _upsample_nearest(c: Call) -> None:
    axes = _spatial(c, c.x())
    c.give(_resized(c, c.x(), axes, _scaled(c, c.x(), axes), "default", nearest=True))


@rule("resize")
def _resize(c: Call) -> None:
    """The last `resized_dims` axes, to the last numbers of `shape`, of which 0 stands for what the axis has."""
    x, shape, count = c.x(), c.x("shape"), int(c.known("resized_dims"))
    rank = c.rank(x)
    given = shape.type.shape[0] if shape.type.shape else None
    if not isinstance(given, int) or not 0 < count <= min(given, rank):
        c.fail(f"expected resized_dims from 1 to the numbers of 'shape', of the rank {rank} at most, found {count}")
    sampling = c.text("sampling_mode", *SAMPLING, default="DEFAULT")
    nearest = c.text("interpolation_mode", "linear", "nearest_neighbor", default="LINEAR") == "nearest_neighbor"
    sampling = "unalign_corners" if nearest and sampling == "default" else sampling
    axes = tuple(range(rank - count, rank))
    c.give(_resized(c, x, axes, _sizes(c, x, shape, given, axes), sampling, nearest))


def _sizes(c: Call, x: Value, shape: Value, given: int, axes: tuple[int, ...]) -> Value:
    count = len(axes)
    extents = [x.type.shape[axis] if x.type.shape else None for axis in axes]
    if shape.data is not None:
        wanted = [int(n) or extent for n, extent in zip(shape.data[given - count :], extents, strict=True)]
        if all(isinstance(n, int) and 0 < n <= SIZE_LIMIT for n in wanted):
            return ints(c, wanted)  # type: ignore[arg-type]
        if any(isinstance(n, int) and not 0 < n <= SIZE_LIMIT for n in wanted):
            c.fail(f"expected sizes from 1 to {SIZE_LIMIT}, found {wanted}")
    asked = c.add("slice", [c.int64(shape), ints(c, [given - count]), ints(c, [FARTHEST]), ints(c, [0]), None])
    now = c.add("shape", [x], start=axes[0], end=axes[-1] + 1)
    return c.add("where", [c.add("equal", [asked, ints(c, [0] * count)]), now, asked])


@rule("crop")
def _crop(c: Call) -> None:
    """Without so many rows at the top and the bottom, so many columns on the left and the right."""
    axes = _spatial(c, c.x())
    cuts = [c.ints(key) for key in ("crop_height", "crop_width")]
    if any(len(cut) != 2 or min(cut) < 0 for cut in cuts):
        c.fail(f"expected two numbers from 0 on for each axis, found {cuts}")
    ends = [-after if after else FARTHEST for _, after in cuts]
    c.finish("slice", [c.x(), ints(c, [before for before, _ in cuts]), ints(c, ends), ints(c, axes), None])

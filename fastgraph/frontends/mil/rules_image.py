"""Images resized, and sampled at places. Semantics: .../ops/defs/{iOS15, iOS16, iOS17}/image_resizing.py.

Where the grid points of `sampling_mode` lie, as canonical coordinates:
STRICT_ALIGN_CORNERS i * (in - 1) / (out - 1); ALIGN_CORNERS too, but the middle for out = 1; DEFAULT i * in / out;
UNALIGN_CORNERS (i + 0.5) * in / out - 0.5; OFFSET_CORNERS (i + 0.5) * max(1, in - 1) / out. The nearest element is
floor((i + 0.5) * in / out), of upsample_nearest_neighbor floor(i * in / out): as coremltools' tests and its TensorFlow
frontend have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import FARTHEST
from .call import Call
from .common import extents
from .signatures import Formulas, formulas, rule

SAMPLING = {
    "strict_align_corners": "tf_align_corners",
    "align_corners": "tf_align_corners",
    "default": "tf_asymmetric",
    "unalign_corners": "tf_half_pixel",
    "offset_corners": "tf_crop_and_resize",
}
SIZE_LIMIT = 1 << 24


def _spatial(c: Call, x: Value) -> tuple[int, int]:
    """The last two axes."""
    rank = c.rank(x)
    if rank < 3:
        c.fail(f"expected an input of rank 3 or more, found {x.type}")
    return rank - 2, rank - 1


def _resized(c: Call, x: Value, axes: Sequence[int], sizes: Value, sampling: str, nearest: bool = False) -> Value:
    """x with `axes` of the given sizes, sampled at the places that `sampling` says."""
    if sampling not in ("align_corners", "offset_corners") or len(axes) < 2:
        return _sampled(c, x, axes, sizes, sampling, nearest)
    for i, axis in enumerate(axes):
        size = c.cut(sizes, 0, i, i + 1) if sizes.data is None else c.number(sizes.data[i : i + 1])
        x = _sampled(c, x, (axis,), size, sampling, nearest)
    return x


def _sampled(c: Call, x: Value, axes: Sequence[int], sizes: Value, sampling: str, nearest: bool) -> Value:
    mode, roi = SAMPLING[sampling], None
    if sampling == "align_corners" and sizes.data is None:
        c.unsupported("with sampling_mode ALIGN_CORNERS to sizes that only a run knows")
    if sampling == "align_corners" and int(sizes.data[0]) == 1:  # type: ignore[index]
        mode = "tf_half_pixel"
    if sampling == "offset_corners":
        (before,) = extents(x, axes[0])
        if sizes.data is None or not isinstance(before, int):
            c.unsupported("with sampling_mode OFFSET_CORNERS where only a run knows the sizes")
        roi = _offset(before, int(sizes.data[0]))
    how: dict[str, Any] = {"mode": "nearest" if nearest else "linear", "coordinate_transformation_mode": mode}
    how["nearest_mode"] = "floor" if mode == "tf_asymmetric" else "round_prefer_ceil"
    return c("resize", x, roi, None, sizes, axes=tuple(axes), **how)


def _offset(n_in: int, n_out: int) -> np.ndarray:
    """(start, end) in units of the axis, whose first and last grid points they are."""
    step = max(1, n_in - 1) / n_out
    unit = max(n_in - 1, 1)
    first, last = 0.5 * step / unit, (n_out - 0.5) * step / unit
    return np.array([(first + last) / 2] * 2 if n_out == 1 else [first, last], np.float32)


def _fixed(c: Call, sizes: Sequence[int]) -> Value:
    if not all(0 < size <= SIZE_LIMIT for size in sizes):
        c.fail(f"expected sizes from 1 to {SIZE_LIMIT}, found {list(sizes)}")
    return c.vector(*sizes)


def _scaled(c: Call, x: Value, axes: Sequence[int], factors: np.ndarray) -> Value:
    """floor(extent * scale) of the last two axes; that the sizes are whole is all that matters of the scales."""
    if not np.all(np.isfinite(factors) & (factors > 0)):
        c.fail(f"expected scale factors above 0, found {factors.tolist()}")
    now = extents(x, *axes)
    if None not in now:
        # In float32, as a factor of 1.1 is a little more than that: floor(10 * 1.1) is 11.
        sizes = np.floor(factors * np.array(now, np.float32)).astype(np.int64)
        if not np.all((sizes >= 0) & (sizes <= SIZE_LIMIT)):
            c.fail(f"expected sizes up to {SIZE_LIMIT}, found {sizes.tolist()}")
        return c.number(sizes)
    return c.int64(c.floor(c.cast(c("shape", x, start=axes[0], end=axes[1] + 1), np.float32) * factors))


def _upsampled(c: Call, x: Value, scales: Sequence[float], sampling: str, nearest: bool = False) -> Value:
    axes = _spatial(c, x)
    return _resized(c, x, axes, _scaled(c, x, axes, np.array(scales, np.float32)), sampling, nearest)


@rule("upsample_bilinear: x scale_factor_height:float=1.0 scale_factor_width:float=1.0")
def upsample_bilinear(c: Call, x: Value, *scales: float) -> Value:
    """half_pixel_centers is the opposite of align_corners, unless it is given (iOS16)."""
    align_corners = c.known("align_corners", True)
    centers = c.known("half_pixel_centers", not align_corners)
    if align_corners and centers:
        c.fail("expected not both align_corners and half_pixel_centers")
    sampling = "strict_align_corners" if align_corners else "unalign_corners" if centers else "default"
    return _upsampled(c, x, scales, sampling)


@rule("resize: x shape:Int64 resized_dims:int sampling_mode:Sampling=default interpolation_mode:Resize=linear")
def resize(c: Call, x: Value, shape: Value, resized_dims: int, sampling_mode: str, interpolation_mode: str) -> Value:
    """The last `resized_dims` axes, to the last numbers of `shape`, of which 0 stands for what the axis has."""
    rank = c.rank(x)
    (given,) = extents(shape, 0) if shape.type.shape else (None,)
    if not isinstance(given, int) or not 0 < resized_dims <= min(given, rank):
        c.fail(
            f"expected resized_dims from 1 to the numbers of 'shape', of the rank {rank} at most, found {resized_dims}"
        )
    nearest = interpolation_mode == "nearest"
    sampling = "unalign_corners" if nearest and sampling_mode == "default" else sampling_mode
    axes = tuple(range(rank - resized_dims, rank))
    return _resized(c, x, axes, _sizes(c, x, shape, given, axes), sampling, nearest)


def _sizes(c: Call, x: Value, shape: Value, given: int, axes: tuple[int, ...]) -> Value:
    first = given - len(axes)
    if shape.data is not None:
        wanted = [int(n) or now for n, now in zip(shape.data[first:], extents(x, *axes), strict=True)]
        known = [n for n in wanted if isinstance(n, int)]
        sizes = _fixed(c, known)
        if len(known) == len(wanted):
            return sizes
    asked = c.cut(shape, 0, first, FARTHEST)
    now = c("shape", x, start=axes[0], end=axes[-1] + 1)
    return c("where", c.equal(asked, c.vector(*[0] * len(axes))), now, asked)


@rule("crop: x crop_height:Ints crop_width:Ints")
def crop(c: Call, x: Value, crop_height: tuple[int, ...], crop_width: tuple[int, ...]) -> Value:
    """Without so many rows at the top and the bottom, so many columns on the left and the right."""
    axes, cuts = _spatial(c, x), [crop_height, crop_width]
    if any(len(cut) != 2 or min(cut) < 0 for cut in cuts):
        c.fail(f"expected two numbers from 0 on for each axis, found {cuts}")
    ends = [-after if after else FARTHEST for _, after in cuts]
    return c("slice", x, c.vector(*(before for before, _ in cuts)), c.vector(*ends), c.vector(*axes), None)


FORMULAS: Formulas = {
    "resize_bilinear: x target_size_height:int=1 target_size_width:int=1 sampling_mode:Sampling=default": (
        lambda c, x, height, width, mode: _resized(c, x, _spatial(c, x), _fixed(c, (height, width)), mode)
    ),
    "resize_nearest_neighbor: x target_size_height:int target_size_width:int": lambda c, x, height, width: _resized(
        c, x, _spatial(c, x), _fixed(c, (height, width)), "unalign_corners", nearest=True
    ),
    "upsample_nearest_neighbor: x scale_factor_height:float=1.0 scale_factor_width:float=1.0": (
        lambda c, x, *scales: _upsampled(c, x, scales, "default", nearest=True)
    ),
}
formulas(FORMULAS)


# -- samples at boxes and places

MODES = {"sampling_mode": "bilinear", "padding_mode": "constant", "coordinates_mode": "normalized_minus_one_to_one"}
"""How `affine` samples images."""


@rule("""crop_resize: x:Rank4 | height<target_height:int=1 width<target_width:int=1 scale<spatial_scale:float=1.0
  normalized<normalized_coordinates:flag=0 boxes<box_coordinate_mode:Boxes=corners_height_first
  sampling<sampling_mode:Sampling=default pad_value:float=0.0""")
def crop_resize(c: Call, x: Value, height: int, width: int, **attrs: Any) -> Value:
    """Up to iOS16 boxes are [N, 1, 4 or 5, 1, 1]: of all images, or with the number of one before; results
    [N, images, C, h, w]. From iOS17 on they are [N, 4], with numbers of images beside them; results [N, C, h, w]."""
    attrs["size"] = height, width
    if c.version >= 7:
        images = c.value("box_indices")
        boxes = c.cast(c.x("boxes"), np.float32)
        return c("crop_resize", x, boxes, None if images is None else c.int64(images), **attrs)
    roi = c.x("roi")
    if c.rank(roi) != 5 or roi.type.shape is None or roi.type.shape[2] not in (4, 5):
        c.fail(f"expected 'roi' as [N, 1, 4 or 5, 1, 1], found {roi.type}")
    rows = c("reshape", roi, c.vector(-1, roi.type.shape[2]))
    if roi.type.shape[2] == 4:
        return c("crop_resize", x, rows, None, every=1, **attrs)
    images, boxes = c.several("split", 2, rows, c.vector(1, 4), axis=1)
    images = c.int64(c("reshape", images, c.vector(-1)))
    return c("unsqueeze", c("crop_resize", x, boxes, images, **attrs), c.vector(1))


@rule("affine: x:Rank4 transform_matrix:Float32 output_height:int output_width:int")
def affine(c: Call, x: Value, transform_matrix: Value, output_height: int, output_width: int) -> Value:
    """The image at the transformed places of an output of that size; zeros outside of it."""
    if min(output_height, output_width) < 1:
        c.fail(f"expected an output of 1 x 1 or more, found {output_height} x {output_width}")
    for key, mode in MODES.items():
        c.text(key, mode)
    if c.known("padding_value", 0.0) or not c.known("align_corners", True):
        c.unsupported("with padding other than zeros, or without align_corners")
    batch = c("shape", x, start=0, end=1)
    theta = c("reshape", transform_matrix, c.vector(-1, 2, 3))
    theta = c("expand", theta, c.join([batch, c.vector(2, 3)], 0))
    grid = c("affine_grid", theta, c.join([batch, c.vector(1, output_height, output_width)], 0), align_corners=1)
    y = c("grid_sample", c.to_last(x), grid, mode="linear", padding_mode="zeros", align_corners=1)
    return c.to_first(y)

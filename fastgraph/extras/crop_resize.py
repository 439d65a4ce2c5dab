"""Images sampled in boxes, channels first. Semantics: Core ML's MIL, crop_resize."""

from __future__ import annotations

import numpy as np

from ..ir import FLOAT64, INT64, Dim, Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("image iuf 4, boxes iuf 2, image_numbers? iu 1")
def _infer_crop(node: Node, types: Types) -> list[TensorType]:
    x, boxes, which = types
    images, channels = x.shape[:2] if x.shape else (None, None)
    count: Dim = boxes.shape[0] if boxes.shape else None
    check.shape(node, boxes, "boxes", count, 4)
    check.shape(node, which, "the images' numbers", count)
    check.inside(node, "the images' numbers", node.const(2), 0, images)
    if len(attr(node, "size")) != 2 or min(attr(node, "size")) < 1:
        fail(node, f"size must be two positive numbers, found {attr(node, 'size')}")
    if which is None and not attr(node, "every") and isinstance(count, int) and isinstance(images, int):
        check.inside(node, "the images' numbers", np.arange(count)[-1:], 0, images)
    if x.shape is not None and 0 in x.shape[2:]:
        fail(node, f"there is nothing to crop in an image {list(x.shape)}")
    lead = (count, images) if attr(node, "every") else (count,)
    return [TensorType(x.dtype, (*lead, channels, *attr(node, "size")))]


_BOXES = {"boxes": "corners_height_first", "sampling": "default", "normalized": 0, "scale": 1.0}
_ATTRS = {**_BOXES, "size": REQUIRED, "pad_value": 0.0, "every": 0}
define("crop_resize", _infer_crop, attrs=_ATTRS, work=squares)


@rule("rare", "crop_resize")
def crop_resize(g: Sweep, node: Node) -> bool:
    """x [B, C, H, W] in boxes [N, 4]: [N, C, h, w], of the images that the third input says (0, 1, ... without one);
    with `every`, of all: [N, B, C, h, w]. The rows and columns that boxes take, then samples at all pairs; what lies
    outside the image is `pad_value`.
    """
    x, boxes, images = node.x, node.input(1), node.input(2)
    if boxes is None or not known(x, boxes, images, node.out):
        return False
    wide, n = g.cast(boxes, FLOAT64) * attr(node, "scale"), boxes.type.dims[0]
    a, b, c, d = (g.cut(wide, 1, i, i + 1) for i in range(4))
    if attr(node, "boxes").endswith("width_first"):
        a, b, c, d = b, a, d, c
    if attr(node, "boxes").startswith("center"):
        tall, broad = c * 0.5, d * 0.5
        a, b, c, d = a - tall, b - broad, a + tall, b + broad
    pixels = [extent - 1 if attr(node, "normalized") else 1 for extent in x.type.dims[2:]]
    axes = zip((a, b), (c, d), pixels, attr(node, "size"), strict=True)
    places = [_places(g, low * size, high * size, count, attr(node, "sampling")) for low, high, size, count in axes]
    which = g.number(np.arange(n)) if images is None else g.shape(g.cast(images, INT64), n)
    told = {name: attr(node, name) for name in ("size", "pad_value", "every")}
    return g.becomes(g("sample_boxes", x, g.join(places, 1), which, outside="padded", **told))


def _places(g: Sweep, low: Value, high: Value, count: int, sampling: str) -> Value:
    """[N, count]: places from low to high [N, 1], as resizing an axis of high - low + 1 elements takes them."""
    i, span = np.arange(count, dtype=FLOAT64)[None], high - low
    if sampling == "offset_corners":  # boxes of RoI Align: at least one element wide
        return low + g.max(span, 1) / count * (i + 0.5)
    if sampling in ("default", "unalign_corners"):
        shift = 0.5 if sampling == "unalign_corners" else 0.0
        places = (span + 1) * (i + shift) / count - shift
        return low + g.min(g.max(places, g.min(span, 0)), g.max(span, 0))
    if count > 1:
        return low + span / (count - 1) * i
    return low + span * (0.5 if sampling == "align_corners" else 0.0)

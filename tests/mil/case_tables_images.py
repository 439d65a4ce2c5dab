"""Cases of images resized and sampled, against their grids of points as coremltools documents them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.mil.case_tables import Array, add, by_torch, normal, single

SAMPLING = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")


def points(mode: str, before: float, after: int) -> Array:
    """The grid points along an axis of `before` elements."""
    i = np.arange(after)
    if mode == "ALIGN_CORNERS" and after == 1:
        found = np.array([(before - 1) / 2])
    elif mode.endswith("ALIGN_CORNERS") and not mode.startswith("UN"):
        found = i * ((before - 1) / max(after - 1, 1))
    elif mode == "DEFAULT":
        found = i * (before / after)
    elif mode == "OFFSET_CORNERS":
        found = (i + 0.5) * max(1, before - 1) / after
        return found if before < 2 else np.clip(found, 0, before - 1)
    else:
        found = (i + 0.5) * before / after - 0.5
    return np.clip(found, 0, before - 1)


def linear(x: Array, rows: Array, columns: Array) -> Array:
    """x [.., H, W] at each row and column, edges going on."""

    def along(x: Array, at: Array) -> Array:
        at = np.clip(at, 0, x.shape[-1] - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[-1] - 1)
        return x[..., low] * (1 - (at - low)) + x[..., high] * (at - low)

    return along(along(x, columns).swapaxes(-1, -2), rows).swapaxes(-1, -2).astype("f4")


def resizing() -> None:
    x = normal(2, 3, 4, 7)
    for mode in SAMPLING:
        for size in ((9, 5), (1, 14), (4, 1)):
            expect = lambda x, m=mode, s=size: linear(x, points(m, 4, s[0]), points(m, 7, s[1]))  # noqa: E731
            add(f"resize_bilinear/{mode}/{size[0]}", x, lambda mb, x, m=mode, s=size: mb.resize_bilinear(
                x=x, target_size_height=s[0], target_size_width=s[1], sampling_mode=m), expect)  # fmt: skip
        add(f"resize/{mode}", x, lambda mb, x, m=mode: mb.resize(
            x=x, shape=np.int32([0, 11]), resized_dims=np.uint32(2), sampling_mode=m),
            lambda x, m=mode: linear(x, points(m, 4, 4), points(m, 7, 11)), "iOS17")  # fmt: skip
    for size in ((9, 5), (3, 14)):
        at = [np.floor((np.arange(n) + 0.5) * m / n).astype(int) for n, m in zip(size, (4, 7), strict=True)]
        add(f"resize_nearest_neighbor/{size[0]}", x, lambda mb, x, s=size: mb.resize_nearest_neighbor(
            x=x, target_size_height=s[0], target_size_width=s[1]),
            lambda x, at=at: x[..., at[0][:, None], at[1]])  # fmt: skip
    for corners in (False, True):
        add(f"upsample_bilinear/{corners}", x, lambda mb, x, c=corners: mb.upsample_bilinear(
            x=x, scale_factor_height=2.0, scale_factor_width=1.5, align_corners=c),
            by_torch(lambda x, c=corners: F.interpolate(x, (8, 10), mode="bilinear", align_corners=c)))  # fmt: skip
    add(
        "upsample_nearest_neighbor/part",
        x,
        lambda mb, x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=3.0, scale_factor_width=1.5),
        by_torch(lambda x: F.interpolate(x, (12, 10))),
    )
    single("crop", x, lambda x: x[:, :, 1:, 2:4], crop_height=[1, 0], crop_width=[2, 3])


def cropped(x: Array, boxes: Array, images: Array, size: tuple[int, int], mode: str, pad: float) -> Array:
    """[N, C, h, w] of boxes (first row, first column, last row, last column)."""
    found = []
    for (top, left, bottom, right), image in zip(boxes, images, strict=True):
        rows = top + points(mode, bottom - top + 1, size[0])
        columns = left + points(mode, right - left + 1, size[1])
        y = linear(x[image], rows, columns)
        inside = ((rows >= 0) & (rows <= x.shape[2] - 1))[:, None] & (columns >= 0) & (columns <= x.shape[3] - 1)
        found.append(np.where(inside, y, np.float32(pad)))
    return np.stack(found)


def sampling() -> None:
    x = normal(2, 3, 6, 8)
    boxes, images = np.float32([[1, 2, 4, 6.5], [0.5, 3, 7, 9], [0, 0, 5, 7]]), np.int32([1, 0, 1])
    for mode in SAMPLING:
        add(f"crop_resize/{mode}", x, lambda mb, x, m=mode: mb.crop_resize(
            x=x, boxes=boxes, box_indices=images, target_height=3, target_width=4, sampling_mode=m, pad_value=2.0),
            lambda x, m=mode: cropped(x, boxes, images, (3, 4), m, 2), "iOS17")  # fmt: skip
    centered = np.float32([[3, 2, 4, 2]]) / [7, 5, 7, 5]
    add("crop_resize/every", x, lambda mb, x: mb.crop_resize(
        x=x, roi=centered.astype("f4").reshape(1, 1, 4, 1, 1), target_height=3, target_width=4,
        normalized_coordinates=True, box_coordinate_mode="CENTER_SIZE_WIDTH_FIRST", sampling_mode="ALIGN_CORNERS"),
        lambda x: np.stack([cropped(x, np.float32([[1, 1, 3, 5]]), np.int32([b]), (3, 4), "ALIGN_CORNERS", 0)[0]
                            for b in range(2)])[None])  # fmt: skip
    where = np.random.default_rng(7).uniform(-1.6, 1.6, (2, 4, 5, 2)).astype("f4")
    torch_modes = {"constant": "zeros", "border": "border", "reflection": "reflection", "symmetric": "reflection"}
    for padding, mode in torch_modes.items():
        for kind in ("bilinear", "nearest"):
            corners = padding != "symmetric"  # PyTorch reflects at the edges of pixels without align_corners

            def resampled(x: torch.Tensor, y: torch.Tensor, m: str = mode, k: str = kind, c: bool = corners) -> Any:
                return F.grid_sample(x, y, k, m, align_corners=c)

            add(f"resample/{padding}/{kind}", [x, where], lambda mb, x, y, p=padding, k=kind, c=corners: mb.resample(
                x=x, coordinates=y, sampling_mode=k, padding_mode=p, padding_value=0.0,
                coordinates_mode="normalized_minus_one_to_one", align_corners=c), by_torch(resampled))  # fmt: skip
    add("resample/pad", [x, where], lambda mb, x, y: mb.resample(
        x=x, coordinates=y, sampling_mode="bilinear", padding_mode="constant", padding_value=5.0,
        coordinates_mode="normalized_minus_one_to_one", align_corners=True),
        by_torch(lambda x, y: F.grid_sample(x - 5, y, align_corners=True) + 5))  # fmt: skip
    add("resample/pixels", [x, (where + 1) * np.float32([3.5, 2.5])], lambda mb, x, y: mb.resample(
        x=x, coordinates=y, sampling_mode="bilinear", padding_mode="border", padding_value=0.0,
        coordinates_mode="unnormalized", align_corners=False),
        by_torch(lambda x, y: F.grid_sample(
            x, y / torch.tensor([3.5, 2.5]) - 1, "bilinear", "border", align_corners=True)))  # fmt: skip
    theta = normal(2, 6)
    add("affine/computed", [x, theta], lambda mb, x, y: mb.affine(
        x=x, transform_matrix=y, output_height=5, output_width=4, sampling_mode="bilinear", padding_mode="constant",
        padding_value=0.0, coordinates_mode="normalized_minus_one_to_one", align_corners=True),
        by_torch(lambda x, y: F.grid_sample(
            x, F.affine_grid(y.reshape(2, 2, 3), [2, 3, 5, 4], align_corners=True), align_corners=True)))  # fmt: skip

"""Cases of operators that move elements: shapes, joins, slices, fills; and element types that are narrower."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.mil.case_tables import Array, add, by_torch, normal, single, whole


def shapes() -> None:
    x = normal(2, 3, 4)
    single("reshape", x, lambda x: x.reshape(4, -1), shape=[4, -1])
    single("reshape/zero", x, lambda x: x.reshape(2, -1, 2), shape=[0, -1, 2])
    single("reshape/right", normal(2, 50), lambda x: x.reshape(1, 1, 2, 50), "iOS17", shape=[1, 0, -1, 0])
    add("reshape/computed", [x, normal(6, 4)], lambda mb, x, y: mb.reshape(x=x, shape=mb.shape(x=y)),
        lambda x, y: x.reshape(6, 4))  # fmt: skip
    add("reshape/fed", {"x": x, "s": np.int32([3, 8])}, lambda mb, x, s: mb.reshape(x=x, shape=s),
        lambda x, s: x.reshape(s))  # fmt: skip
    add("reshape_like", [x, normal(6, 2), normal(1, 2)],
        lambda mb, x, y, z: mb.reshape_like(x=x, ref_tensors=(y, z), begins=(0, 1), ends=(2, 0),
                                            end_masks=(False, True)),
        lambda x, y, z: x.reshape(6, 2, 2), "iOS16")  # fmt: skip
    single("transpose", x, lambda x: x.transpose(2, 0, 1), perm=[-1, 0, 1])
    single("expand_dims", x, lambda x: x[None, ..., None], axes=[0, -1])
    single("squeeze", normal(1, 3, 1, 2), lambda x: x[:, :, 0], axes=[-2])
    single("squeeze/all", normal(1, 3, 1, 2), np.squeeze)
    for axis in (-1, 1, 2):
        add(f"flatten2d/{axis}".replace("-", "m"), x, lambda mb, x, a=axis: mb.flatten2d(x=x, axis=a),
            lambda x, a=axis: x.reshape(int(np.prod(x.shape[:a])), -1))  # fmt: skip
    single("shape", x, lambda x: np.int32(x.shape))
    single("tile", x, lambda x: np.tile(x, (1, 2, 3)), reps=[1, 2, 3])
    maps = normal(4, 8, 4, 6)
    single("depth_to_space", maps, _depth_to_space, block_size=2)
    single("space_to_depth", maps, _space_to_depth, block_size=2)
    single("pixel_shuffle", maps, by_torch(lambda x: F.pixel_shuffle(x, 2)), upscale_factor=2)
    single("pixel_unshuffle", maps, by_torch(lambda x: F.pixel_unshuffle(x, 2)), "iOS16", downscale_factor=np.uint32(2))
    add("space_to_batch", maps, lambda mb, x: mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[1, 1], [2, 1]]),
        lambda x: _space_to_batch(np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 1)))))  # fmt: skip
    single("batch_to_space", normal(6, 2, 3, 3), _batch_to_space, block_shape=[2, 3], crops=[[1, 0], [2, 1]])


def _depth_to_space(x: Array) -> Array:
    """TensorFlow's: the block is the outer part of the channels."""
    n, c, h, w = x.shape
    return x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)


def _space_to_depth(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def _space_to_batch(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 3, 3).transpose(3, 5, 0, 1, 2, 4).reshape(6 * n, c, h // 2, w // 3)


def _batch_to_space(x: Array) -> Array:
    n, c, h, w = x.shape
    y = x.reshape(2, 3, n // 6, c, h, w).transpose(2, 3, 4, 0, 5, 1).reshape(n // 6, c, 2 * h, 3 * w)
    return y[:, :, 1:, 2:-1]


def joins() -> None:
    x, y = normal(2, 3, 4), normal(2, 3, 4)
    add("concat", [x, normal(2, 1, 4)], lambda mb, x, y: mb.concat(values=(x, y), axis=1),
        lambda x, y: np.concatenate((x, y), 1))  # fmt: skip
    add("concat/interleave", [x, y], lambda mb, x, y: mb.concat(values=(x, y), axis=-2, interleave=True),
        lambda x, y: np.stack((x, y), 2).reshape(2, 6, 4))  # fmt: skip
    add("stack", [x, y], lambda mb, x, y: mb.stack(values=(x, y), axis=-1), lambda x, y: np.stack((x, y), -1))
    single("split", x, lambda x: np.split(x, 2, -1), num_splits=2, axis=-1)
    single("split/sizes", x, lambda x: (x[:, :1], x[:, 1:]), split_sizes=[1, 2], axis=1)
    single("identity", x, lambda x: x)


def slices() -> None:
    x = normal(5, 6, 7)

    def index(name: str, expect: Any, **parts: Any) -> None:
        single(f"slice_by_index/{name}", x, expect, **parts)

    index("plain", lambda x: x[1:4, :, -5:-1], begin=[1, 0, -5], end=[4, 6, -1])
    index("strides", lambda x: x[::2, 1::3, 6:1:-2], begin=[0, 1, 6], end=[5, 6, 1], stride=[2, 3, -2])
    index("masks", lambda x: x[:3, 2:, ::-1], begin=[4, 2, 3], end=[3, 3, 3], stride=[1, 1, -1],
          begin_mask=[True, False, True], end_mask=[False, True, True])  # fmt: skip
    index("squeeze", lambda x: x[2, :, -1], begin=[2, 0, -1], end=[0, 6, 0], squeeze_mask=[True, False, True])
    add("slice_by_index/fed", {"x": x, "b": np.int32([1, 2, 0]), "e": np.int32([4, 5, 7])},
        lambda mb, x, b, e: mb.slice_by_index(x=x, begin=b, end=e), lambda x, b, e: x[1:4, 2:5, :7])  # fmt: skip
    single("slice_by_size", x, lambda x: x[1:, -2:, :3], begin=[1, -2, 0], size=[-1, 2, 3])
    add("slice_by_size/fed", {"x": x, "b": np.int32([1, -2, 0])},
        lambda mb, x, b: mb.slice_by_size(x=x, begin=b, size=[3, 2, -1]),
        lambda x, b: x[1:4, -2:])  # fmt: skip
    for name, parts, cut in (
        ("plain", {"begin": [1, 0, 2], "end": [4, 6, 7], "stride": [2, 1, 1]}, np.s_[1:4:2, :, 2:7]),
        ("masks", {"begin": [1, 0, 2], "end": [4, 2, 3], "end_mask": [False, False, True],
                   "squeeze_mask": [True, False, False]}, np.s_[1, 0:2, 2:]),
    ):  # fmt: skip
        add(f"slice_update/{name}", [x, normal(*x[cut].shape)],
            lambda mb, x, y, p=parts: mb.slice_update(x=x, update=y, **p),
            lambda x, y, c=cut: _written(x, y, c), "iOS18")  # fmt: skip
    single("reverse", x, lambda x: x[::-1, :, ::-1], axes=[0, -1])
    single("reverse/all", x, lambda x: x[::-1, ::-1, ::-1])
    add("reverse_sequence", [normal(3, 4, 2), np.int32([0, 2, 4])],
        lambda mb, x, y: mb.reverse_sequence(x=x, lengths=y, seq_axis=1, batch_axis=0),
        lambda x, y: np.stack([np.concatenate((r[:n][::-1], r[n:])) for r, n in zip(x, y, strict=True)]))  # fmt: skip
    for mode, name in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge")):
        more: dict[str, Any] = {"constant_values": 1.5} if mode == "constant" else {}
        add(f"pad/{mode}", x, lambda mb, x, m=mode: mb.pad(x=x, pad=[1, 2, 3, 0], mode=m, constant_val=1.5),
            lambda x, n=name, k=more: np.pad(x, ((0, 0), (1, 2), (3, 0)), n, **k))  # fmt: skip
    add("pad/fed", {"x": normal(2, 3), "p": np.int32([1, 0, 0, 2])}, lambda mb, x, p: mb.pad(x=x, pad=p),
        lambda x, p: np.pad(x, ((1, 0), (0, 2))))  # fmt: skip
    square = normal(2, 5, 6)
    single("band_part", square, lambda x: np.triu(np.tril(x, 2), -1), lower=1, upper=2)
    single("band_part/lower", square, np.tril, lower=-1, upper=0)


def _written(x: Array, y: Array, cut: Any) -> Array:
    x = x.copy()
    x[cut] = y
    return x


def fills() -> None:
    add("fill", np.int32([2, 3]), lambda mb, x: mb.fill(shape=x, value=1.5), lambda x: np.full(x, np.float32(1.5)))
    add("fill/int", normal(2, 3), lambda mb, x: mb.fill(shape=mb.shape(x=x), value=7),
        lambda x: np.full(x.shape, np.int32(7)))  # fmt: skip
    add("fill_like", normal(2, 3), lambda mb, x: mb.fill_like(ref_tensor=x, value=True),
        lambda x: np.full(x.shape, True), "iOS16")  # fmt: skip
    add("range_1d", {"s": np.float32([0.5]), "e": np.float32([3])},
        lambda mb, s, e: mb.range_1d(start=mb.squeeze(x=s), end=mb.squeeze(x=e), step=0.4),
        lambda s, e: np.arange(0.5, 3, 0.4, np.float32))  # fmt: skip
    add("range_1d/int", {"s": np.int32([9]), "e": np.int32([-2])},
        lambda mb, s, e: mb.range_1d(start=mb.squeeze(x=s), end=mb.squeeze(x=e), step=-3),
        lambda s, e: np.arange(9, -2, -3, np.int32))  # fmt: skip


def narrow() -> None:
    for dtype in ("i1", "u1", "i2", "u2"):
        x = whole(2, 3, 4, low=0, high=99, dtype=dtype)
        name = x.dtype.name
        single(f"transpose/{name}", x, lambda x: x.transpose(1, 0, 2), "iOS17", perm=[1, 0, 2])
        single(f"reshape/{name}", x, lambda x: x.reshape(3, -1), "iOS17", shape=[0, -1])
        add(f"cast/{name}", normal(5) * 30 + 50, lambda mb, x, n=name: mb.cast(x=x, dtype=n),
            lambda x, d=dtype: x.astype(np.int32).astype(d), "iOS17")  # fmt: skip
    halves = normal(2, 3, 4, 5).astype(np.float16)
    weights = normal(2, 3, 3, 3).astype(np.float16)
    add("conv/f16", halves, lambda mb, x: mb.conv(x=x, weight=weights, pad_type="same"),
        lambda x: F.conv2d(torch.from_numpy(x).float(), torch.from_numpy(weights).float(), padding=1).numpy(),
        "iOS16")  # fmt: skip
    single("exp/f16", halves, lambda x: np.exp(x.astype(np.float32)), "iOS16")

"""Cases of layers: convolutions, products, pools, normalizations, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.mil.case_tables import add, by_torch, normal, single, uniform, whole


def _same(x: torch.Tensor, kernel: Any, strides: Any, lower: bool = False, dilation: int = 1) -> torch.Tensor:
    """x padded as pad_type same says."""
    pads: list[int] = []
    for size, k, s in reversed(list(zip(x.shape[2:], kernel, strides, strict=True))):
        total = max((-(-size // s) - 1) * s + (k - 1) * dilation + 1 - size, 0)
        pads += [total - total // 2, total // 2] if lower else [total // 2, total - total // 2]
    return F.pad(x, pads)


def convolutions() -> None:
    maps, w, b = normal(2, 4, 8, 9), normal(6, 4, 3, 2), normal(6)
    tw, tb = torch.from_numpy(w), torch.from_numpy(b)
    add("conv/valid", maps, lambda mb, x: mb.conv(x=x, weight=w, bias=b, pad_type="valid", strides=[2, 1]),
        by_torch(lambda x: F.conv2d(x, tw, tb, (2, 1))))  # fmt: skip
    add("conv/custom", maps, lambda mb, x: mb.conv(x=x, weight=w, pad_type="custom", pad=[1, 2, 0, 3]),
        by_torch(lambda x: F.conv2d(F.pad(x, (0, 3, 1, 2)), tw)))  # fmt: skip
    for lower in (False, True):
        kind = "same_lower" if lower else "same"
        add(f"conv/{kind}", maps, lambda mb, x, k=kind: mb.conv(x=x, weight=w, bias=b, pad_type=k, strides=[2, 2]),
            by_torch(lambda x, low=lower: F.conv2d(_same(x, (3, 2), (2, 2), low), tw, tb, 2)), "iOS16")  # fmt: skip
    add("conv/dilated", maps, lambda mb, x: mb.conv(x=x, weight=w, pad_type="same", dilations=[2, 2]),
        by_torch(lambda x: F.conv2d(_same(x, (3, 2), (1, 1), dilation=2), tw, dilation=2)))  # fmt: skip
    grouped, deep = normal(6, 2, 3, 3), normal(4, 1, 3, 3)
    add("conv/groups", maps, lambda mb, x: mb.conv(x=x, weight=grouped, groups=2, pad_type="valid"),
        by_torch(lambda x: F.conv2d(x, torch.from_numpy(grouped), groups=2)))  # fmt: skip
    add("conv/depthwise", maps, lambda mb, x: mb.conv(x=x, weight=deep, groups=4, pad_type="same"),
        by_torch(lambda x: F.conv2d(x, torch.from_numpy(deep), groups=4, padding=1)))  # fmt: skip
    line, cube = normal(5, 4, 3), normal(3, 2, 2, 3, 2)
    add("conv/1d", normal(2, 4, 11),
        lambda mb, x: mb.conv(x=x, weight=line, strides=[2], pad_type="custom", pad=[2, 1]),
        by_torch(lambda x: F.conv1d(F.pad(x, (2, 1)), torch.from_numpy(line), stride=2)))  # fmt: skip
    add("conv/3d", normal(1, 2, 4, 5, 6), lambda mb, x: mb.conv(x=x, weight=cube, pad_type="valid", strides=[1, 2, 1]),
        by_torch(lambda x: F.conv3d(x, torch.from_numpy(cube), stride=(1, 2, 1))))  # fmt: skip
    add("conv/computed", [maps, w], lambda mb, x, y: mb.conv(x=x, weight=y, pad_type="valid"), by_torch(F.conv2d))

    t, g, tl = normal(4, 5, 3, 2), normal(4, 3, 3, 3), normal(4, 5, 4)
    tt, tg = torch.from_numpy(t), torch.from_numpy(g)
    small = normal(2, 4, 5, 6)
    add("conv_transpose/valid", small, lambda mb, x: mb.conv_transpose(x=x, weight=t, strides=[2, 3], pad_type="valid"),
        by_torch(lambda x: F.conv_transpose2d(x, tt, stride=(2, 3))))  # fmt: skip
    add("conv_transpose/custom", small,
        lambda mb, x: mb.conv_transpose(x=x, weight=g, groups=2, strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1]),
        by_torch(lambda x: F.conv_transpose2d(x, tg, stride=2, padding=1, groups=2)))  # fmt: skip
    add("conv_transpose/output_shape", small,
        lambda mb, x: mb.conv_transpose(x=x, weight=g, groups=2, strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1],
                                        output_shape=[2, 6, 10, 12]),
        by_torch(lambda x: F.conv_transpose2d(x, tg, stride=2, padding=1, groups=2, output_padding=1)))  # fmt: skip
    add("conv_transpose/same", small,
        lambda mb, x: mb.conv_transpose(x=x, weight=g, groups=2, strides=[2, 2], pad_type="same"),
        by_torch(lambda x: F.conv_transpose2d(x, tg, stride=2, groups=2)[:, :, :10, :12]))  # fmt: skip
    add("conv_transpose/1d", normal(1, 4, 6),
        lambda mb, x: mb.conv_transpose(x=x, weight=tl, strides=[2], dilations=[2]),
        by_torch(lambda x: F.conv_transpose1d(x, torch.from_numpy(tl), stride=2, dilation=2)))  # fmt: skip

    dense, bias = normal(6, 5), normal(6)
    for rank, x in enumerate((normal(5), normal(3, 5), normal(2, 3, 5)), 1):
        single(f"linear/{rank}d", x, lambda x: x @ dense.T + bias, weight=dense, bias=bias)
    single("matmul", [normal(2, 3, 4), normal(4, 5)], np.matmul)
    add("matmul/transposed", [normal(2, 4, 3), normal(2, 5, 4)],
        lambda mb, x, y: mb.matmul(x=x, y=y, transpose_x=True, transpose_y=True),
        lambda x, y: x.swapaxes(1, 2) @ y.swapaxes(1, 2))  # fmt: skip
    single("matmul/int", [whole(3, 4), whole(4, 2)], np.matmul)


def pools() -> None:
    maps, line, cube = normal(2, 3, 7, 8), normal(2, 3, 9), normal(1, 2, 4, 5, 6)
    kernel: dict[str, Any] = {"kernel_sizes": [3, 2], "strides": [2, 2]}
    for name, pool in {"max_pool": F.max_pool2d, "avg_pool": F.avg_pool2d, "l2_pool": _l2}.items():
        single(f"{name}/valid", maps, by_torch(lambda x, f=pool: f(x, (3, 2), 2)), pad_type="valid", **kernel)
        add(f"{name}/custom", maps,
            lambda mb, x, n=name: getattr(mb, n)(x=x, pad_type="custom", pad=[1, 1, 1, 1], **kernel),
            by_torch(lambda x, f=pool: f(x, (3, 2), 2, 1)))  # fmt: skip
    for lower in (False, True):
        kind = "same_lower" if lower else "same"
        add(f"max_pool/{kind}", maps, lambda mb, x, k=kind: mb.max_pool(x=x, pad_type=k, **kernel),
            by_torch(lambda x, low=lower: _max_same(x, low)), "iOS16")  # fmt: skip
        add(f"avg_pool/{kind}", maps, lambda mb, x, k=kind: mb.avg_pool(x=x, pad_type=k, **kernel),
            by_torch(lambda x, low=lower: F.avg_pool2d(_same(x, (3, 2), (2, 2), low), (3, 2), 2)), "iOS16")  # fmt: skip
    for name, pool in {"max_pool": F.max_pool2d, "avg_pool": F.avg_pool2d}.items():
        add(f"{name}/ceil", maps,
            lambda mb, x, n=name: getattr(mb, n)(x=x, pad_type="custom", pad=[1, 1, 0, 0], ceil_mode=True,
                                                 kernel_sizes=[2, 3], strides=[3, 2]),
            by_torch(lambda x, f=pool: f(x, (2, 3), (3, 2), (1, 0), ceil_mode=True)))  # fmt: skip
    add("avg_pool/exclude", maps,
        lambda mb, x: mb.avg_pool(x=x, pad_type="custom", pad=[1] * 4, exclude_padding_from_average=True, **kernel),
        by_torch(lambda x: F.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False)))  # fmt: skip
    for name, one, three in (("max_pool", F.max_pool1d, F.max_pool3d), ("avg_pool", F.avg_pool1d, F.avg_pool3d)):
        add(f"{name}/1d", line,
            lambda mb, x, n=name: getattr(mb, n)(x=x, pad_type="valid", kernel_sizes=[2], strides=[2]),
            by_torch(lambda x, f=one: f(x, 2, 2)))  # fmt: skip
        add(f"{name}/3d", cube, lambda mb, x, n=name: getattr(mb, n)(x=x, pad_type="valid", kernel_sizes=[2, 2, 3]),
            by_torch(lambda x, f=three: f(x, (2, 2, 3), 1)))  # fmt: skip


def _l2(x: torch.Tensor, kernel: Any, stride: int, padding: int = 0) -> torch.Tensor:
    area = float(np.prod(kernel))
    return torch.sqrt(F.avg_pool2d(x * x, kernel, stride, padding) * area)


def _max_same(x: torch.Tensor, lower: bool) -> torch.Tensor:
    lowest = torch.full_like(x, 1.0)
    inside = _same(lowest, (3, 2), (2, 2), lower)
    return F.max_pool2d(torch.where(inside > 0, _same(x, (3, 2), (2, 2), lower), -torch.inf), (3, 2), 2)


def normalizations() -> None:
    maps, line = normal(2, 3, 4, 5), normal(2, 3, 7)
    mean, var, gamma, beta = normal(3), uniform(3), normal(3), normal(3)
    tensors = [torch.from_numpy(v) for v in (mean, var, gamma, beta)]
    for name, x in (("batch_norm", maps), ("batch_norm/1d", line), ("batch_norm/3d", normal(1, 3, 2, 2, 3))):
        add(name, x, lambda mb, x: mb.batch_norm(x=x, mean=mean, variance=var, gamma=gamma, beta=beta, epsilon=1e-3),
            by_torch(lambda x: F.batch_norm(x, *tensors, eps=1e-3)))  # fmt: skip
    add("batch_norm/plain", maps, lambda mb, x: mb.batch_norm(x=x, mean=mean, variance=var),
        by_torch(lambda x: F.batch_norm(x, *tensors[:2], eps=1e-5)))  # fmt: skip
    for name, x in (("instance_norm", maps), ("instance_norm/1d", line)):
        add(name, x, lambda mb, x: mb.instance_norm(x=x, gamma=gamma, beta=beta, epsilon=1e-2),
            by_torch(lambda x: F.instance_norm(x, weight=tensors[2], bias=tensors[3], eps=1e-2)))  # fmt: skip
    single("instance_norm/plain", maps, by_torch(lambda x: F.instance_norm(x)))
    last = normal(4, 5)
    add("layer_norm", maps, lambda mb, x: mb.layer_norm(x=x, axes=[2, -1], gamma=last, beta=last, epsilon=1e-3),
        by_torch(lambda x: F.layer_norm(x, (4, 5), torch.from_numpy(last), torch.from_numpy(last), 1e-3)))  # fmt: skip
    single("layer_norm/all", maps, by_torch(lambda x: F.layer_norm(x, x.shape)), axes=[0, 1, 2, 3])
    add("layer_norm/channels", maps, lambda mb, x: mb.layer_norm(x=x, axes=[1], gamma=gamma, beta=beta),
        by_torch(lambda x: F.layer_norm(x.movedim(1, -1), (3,), *tensors[2:]).movedim(-1, 1)))  # fmt: skip
    add("l2_norm", maps, lambda mb, x: mb.l2_norm(x=x, epsilon=1e-2),
        lambda x: x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True) + np.float32(1e-2)))  # fmt: skip
    wide = normal(2, 7, 3, 3)
    add("local_response_norm", wide, lambda mb, x: mb.local_response_norm(x=x, size=3, alpha=0.5, beta=0.6, k=1.5),
        by_torch(lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 1.5)))  # fmt: skip


def reductions() -> None:
    x = uniform(3, 4, 5)
    for name, function in {
        "reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min,
        "reduce_prod": np.prod, "reduce_l1_norm": lambda x, **k: np.abs(x).sum(**k),
        "reduce_l2_norm": lambda x, **k: np.sqrt((x * x).sum(**k)), "reduce_log_sum": lambda x, **k: np.log(x.sum(**k)),
        "reduce_log_sum_exp": lambda x, **k: np.log(np.exp(x).sum(**k)),
        "reduce_sum_square": lambda x, **k: (x * x).sum(**k),
    }.items():  # fmt: skip
        for axes, keep in (((1,), True), ((0, -1), False), (None, False)):
            label = "all" if axes is None else "".join(map(str, axes)).replace("-", "m")
            given: dict[str, Any] = {"keep_dims": keep} if axes is None else {"axes": axes, "keep_dims": keep}
            single(f"{name}/{label}", x, lambda x, f=function, a=axes, k=keep: f(x, axis=a, keepdims=k), **given)
    for name in ("sum", "max", "min", "prod"):
        add(f"reduce_{name}/int", whole(3, 4, low=1), lambda mb, x, n=name: getattr(mb, f"reduce_{n}")(x=x, axes=[1]),
            lambda x, n=name: getattr(np, n)(x, axis=1))  # fmt: skip
    for name, find in (("reduce_argmax", np.argmax), ("reduce_argmin", np.argmin)):
        single(name, x, lambda x, f=find: f(x, 1), axis=1)
        add(f"{name}/uint16", x, lambda mb, x, n=name: getattr(mb, n)(x=x, keep_dims=True, output_dtype="uint16"),
            lambda x, f=find: f(x, -1, keepdims=True), "iOS17")  # fmt: skip
    single("cumsum", x, lambda x: np.cumsum(x, 1), axis=1)
    add("cumsum/reverse", x, lambda mb, x: mb.cumsum(x=x, axis=-1, reverse=True, exclusive=True),
        lambda x: np.flip(np.cumsum(np.flip(x, -1), -1), -1) - x)  # fmt: skip
    single("cumsum/int", whole(3, 4), lambda x: np.cumsum(x, 0), axis=0)

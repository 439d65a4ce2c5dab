"""Sliding windows for tests: random shapes, and every tap of a window as a plain array."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from fastgraph.kernels.gemm.pick_conv import Triple
from fastgraph.kernels.window.pick import Window


@dataclass(frozen=True)
class Case:
    """`gap`: f32 between the pixels of x and y; `seed` of the data; `general`: for the kernels that do any
    window; `across`: pixels are in lanes; `copied`: vectors of channels that are copied together, if any are.
    """

    window: Window
    gap: int = 0
    seed: int = 0
    general: bool = False
    across: bool = False
    copied: int = 0


def random_case(
    pick: Random, lanes: int, window: Any = None, dilation: int = 1, multiplier: int = 1, ceil: bool = False
) -> Case:
    """Windows over small images: any padding short of the window, channels up to two vectors and one.

    `window`: (kernel, strides), with which it is flat, or any. With `ceil` the last windows may go beyond the padding.
    """
    flat = window is not None
    dilations = (1, dilation, dilation) if flat else tuple(pick.randint(1, 3) for _ in range(3))
    some = (pick.randint(1, 2), pick.randint(1, 4), pick.randint(1, 5))
    kernel, strides = window or (some, (pick.randint(1, 2), pick.randint(1, 3), pick.randint(1, 3)))
    size, out, pads, ends = [], [], [], []
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        span, before, after = (k - 1) * d + 1, pick.randint(0, k - 1), pick.randint(0, k - 1)
        least, most = max(1, span - before - after), 1 if flat and axis == 0 else 30 if flat and axis == 2 else 9
        n = pick.randint(least, max(least, most))
        room = n + before + after - span
        count = room // s + 1
        if ceil and room % s and count * s < n + before:
            count += pick.randint(0, 1)
        size.append(n)
        out.append(count)
        pads.append(before)
        ends.append(after)
    channels = pick.choice((pick.randint(1, 2 * lanes + 1), 4 * lanes - 3)) * multiplier
    shape = (tuple(size), kernel, tuple(out), strides, dilations, tuple(pads), tuple(ends))
    window = Window(pick.randint(1, 2), channels, *shape)
    return Case(window, pick.choice((0, 3)), pick.randint(0, 99), not flat)


def pixels(x: Any, gap: int, fill: Any) -> Any:
    """x with `gap` more elements after every pixel's channels."""
    return np.concatenate([x, np.full((*x.shape[:-1], gap), fill, x.dtype)], -1)


def padded_taps(case: Case, x: Any) -> Iterator[tuple[Triple, Any, Any]]:
    """For every tap of the window: (its index, what it reads in f64, whether that is inside of x)."""
    g = case.window
    for index in np.ndindex(*g.kernel):
        places, inside = [], np.ones((1, *g.out, 1), bool)
        for axis, (n, o, s, d, pad) in enumerate(zip(g.size, g.out, g.strides, g.dilations, g.pads, strict=True)):
            at = np.arange(o) * s + index[axis] * d - pad
            shape = [1] * 5
            shape[axis + 1] = o
            inside = inside & ((at >= 0) & (at < n)).reshape(shape)
            places.append(at.clip(0, n - 1))
        part = x[:, places[0]][:, :, places[1]][:, :, :, places[2]]
        yield index, part.astype(float), inside


def counted(g: Window, index: Any) -> Any:
    """Whether tap `index` of each output is inside of the padded image."""
    inside = np.ones((1, *g.out, 1), bool)
    for axis in range(3):
        at = np.arange(g.out[axis]) * g.strides[axis] + index[axis] * g.dilations[axis]
        shape = [1] * 5
        shape[axis + 1] = -1
        inside = inside & (at < g.pads[axis] + g.size[axis] + g.ends[axis]).reshape(shape)
    return inside

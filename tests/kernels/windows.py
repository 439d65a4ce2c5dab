"""Sliding windows for tests: shapes drawn by hypothesis, and every tap of a window as a plain array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.gemm.pick_conv import Triple
from fastgraph.kernels.pointwise import rows
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from fastgraph.kernels.window.pick import Window
from tests.kernels.harness import f32_bits
from tests.kernels.walking import Constants, kernel_address, strided, table_of


@dataclass(frozen=True)
class Case:
    """`gap`: f32 between the pixels of x and y; `seed` of the data; `general`: for the kernels that do any
    window.
    """

    window: Window
    gap: int = 0
    seed: int = 0
    general: bool = False


@st.composite
def cases(
    draw: Any,
    lanes: int,
    kernel: Triple | None = None,
    strides: Triple | None = None,
    dilation: int = 1,
    multiplier: int = 1,
    ceil: bool = False,
) -> Case:
    """Windows over small images: any padding short of the window, channels up to two vectors and one.

    Flat ones of the given kernel, strides and dilation, or of any three. With `ceil` the last windows may
    reach beyond the padding.
    """
    flat = kernel is not None
    dilations = (1, dilation, dilation) if flat else tuple(draw(st.integers(1, 3)) for _ in range(3))
    kernel = kernel or (draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    strides = strides or (draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    size, out, pads, ends = [], [], [], []
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        reach = (k - 1) * d + 1
        before, after = draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))
        least = max(1, reach - before - after)
        most = 1 if flat and axis == 0 else 30 if flat and axis == 2 else 9
        n = draw(st.integers(least, max(least, most)))
        room = n + before + after - reach
        count = room // s + 1
        if ceil and room % s and count * s < n + before:
            count += draw(st.integers(0, 1))
        size.append(n)
        out.append(count)
        pads.append(before)
        ends.append(after)
    channels = draw(st.integers(1, 2 * lanes + 1) | st.just(4 * lanes - 3)) * multiplier
    shape = (tuple(size), kernel, tuple(out), strides, dilations, tuple(pads), tuple(ends))
    window = Window(draw(st.integers(1, 2)), channels, *shape)
    return Case(window, draw(st.sampled_from([0, 3])), draw(st.integers(0, 99)), not flat)


KEPT: list[Any] = []
"""What tables refer to."""

FORMS = (*rows.FORMS, *rows.LONG_FORMS)
GATED = (("sigmoid", 0), ("mul", 0, 1))
BOUNDS = (("clip", 0, -0.5, 1.0),)
CHAIN = (("mul", 0, 1), ("sigmoid", 3), ("mul", 0, 4), ("add", 5, 2))


def endings(tier: Any, g: Window, rng: np.random.Generator) -> dict[str, tuple[Any, list[Any], dict[str, Any]]]:
    """Ways to end by name: (what it means as a chain, its operands as they broadcast to y, slots of EPILOGUE)."""
    c, area = g.channels, int(np.prod(g.out))
    full = rng.standard_normal((g.images, *g.out, c + 3)).astype(np.float32)
    image = rng.standard_normal((g.images, 1, 1, 1, c)).astype(np.float32)
    added = {"addend": full, "addend_image": area * (c + 3), "addend_row": c + 3}
    bounds = {"low": f32_bits(-0.5), "high": f32_bits(1.0)}
    constants = Constants(tier)
    reads = [
        strided(constants, image.reshape(g.images, 1, c), ("row",)),
        strided(constants, np.ascontiguousarray(full[..., :c]).reshape(g.images, area, c)),
    ]
    words = table_of(constants, CHAIN, [None, *reads])
    KEPT.append((constants, words))
    walk = {"walk": kernel_address(Kernel("chain"), tier), "table": words}
    return {
        "none": ((), [], NO_EPILOGUE),
        "bounds": (BOUNDS, [], NO_EPILOGUE | bounds),
        "addend": ((("add", 0, 1), ("clip", 2, -0.5, 1.0)), [full[..., :c]], NO_EPILOGUE | bounds | added),
        "sigmoid_mul": (GATED, [], NO_EPILOGUE | {"form": FORMS.index("sigmoid_mul")}),
        "swish": ((("swish", 0, 0.7),), [], NO_EPILOGUE | {"form": FORMS.index("swish"), "low": f32_bits(0.7)}),
        "chain": (CHAIN, [image, full[..., :c]], NO_EPILOGUE | walk),
    }


def draws(case: Case, channels: int) -> tuple[np.random.Generator, Any]:
    """A generator of numbers, and x [images, d, h, w, channels]."""
    rng = np.random.default_rng(case.seed)
    return rng, rng.standard_normal((case.window.images, *case.window.size, channels)).astype(np.float32)


def pixels(x: Any, gap: int) -> Any:
    """x with `gap` NaN after every pixel's channels."""
    return np.concatenate([x, np.full((*x.shape[:-1], gap), np.nan, np.float32)], -1)


def outputs(g: Window, gap: int) -> Any:
    """Where y goes: all sevens, `gap` f32 after every pixel."""
    return np.full((g.images, *g.out, g.channels + gap), 7, np.float32)


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

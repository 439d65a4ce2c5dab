"""Sliding windows of convolutions and pools, channels last: padding, output extents, taps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Dim, Node
from . import check
from .registry import fail

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
FAR = 1 << 15
"""Larger strides, dilations and pads are left to the reference, as kernels derive scratch and addresses from them."""


def is_near(node: Node) -> bool:
    """Whether all numbers of a node's window are small."""
    for name in ("strides", "dilations", "pads", "output_padding"):
        for n in node.attrs.get(name) or ():
            if n is not None and not 0 <= n < FAR:
                return False
    return True


def window_attrs(node: Node, rank: int, kernel: Sequence[int]) -> dict[str, Any]:
    """strides, dilations and pads of a node as full tuples, checked against the number of spatial axes."""
    a = node.attrs
    found: dict[str, Any] = {
        "strides": _filled(a.get("strides"), rank, 1),
        "dilations": _filled(a.get("dilations"), rank, 1),
    }
    found["pads"] = _filled(a.get("pads"), 2 * rank, 0)
    found["auto_pad"] = a.get("auto_pad") or "NOTSET"
    check.one_of(node, "auto_pad", found["auto_pad"], AUTO_PADS)
    for name, values in (("kernel_shape", kernel), ("strides", found["strides"]), ("dilations", found["dilations"])):
        if len(values) != rank or min([v for v in values if isinstance(v, int)], default=1) < 1:
            fail(node, f"{name} must be {rank} positive numbers, found {tuple(values)}")
    if len(found["pads"]) != 2 * rank or min(found["pads"], default=0) < 0:
        fail(node, f"pads must be {2 * rank} numbers from 0 on (begins, then ends), found {found['pads']}")
    return found


def _filled(values: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    return tuple(map(int, values)) if values else (default,) * count


def resolve_pads(
    spatial: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    auto_pad: str,
    pads: Sequence[int],
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Padding before and after each spatial axis; None where auto_pad needs an extent that is not known.

    SAME pads so that the output has ceil(in / stride) positions; an odd element goes after (UPPER) or before
    (LOWER).
    """
    rank = len(strides)
    if auto_pad == "VALID":
        return (0,) * rank, (0,) * rank
    if auto_pad == "NOTSET":
        return tuple(pads[:rank]), tuple(pads[rank:])
    begin: list[int | None] = []
    end: list[int | None] = []
    for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
        if not isinstance(k, int) or (not isinstance(size, int) and s != 1):
            begin.append(None)
            end.append(None)
            continue
        reach = (k - 1) * d + 1
        positions = -(-size // s) if isinstance(size, int) else 0
        total = max((positions - 1) * s + reach - size, 0) if isinstance(size, int) else reach - 1
        small = total // 2
        begin.append(small if auto_pad == "SAME_UPPER" else total - small)
        end.append(total - small if auto_pad == "SAME_UPPER" else small)
    return tuple(begin), tuple(end)


def output_size(
    spatial: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[Any],
    end: Sequence[Any],
    ceil_mode: int = 0,
) -> tuple[int | None, ...]:
    """Window positions along each axis; None where not known, below 1 where the window does not fit.

    In ceil mode the last window may run over the end, unless it would start in the padding after the data.
    """
    sizes: list[int | None] = []
    for size, k, s, d, b, e in zip(spatial, kernel, strides, dilations, begin, end, strict=True):
        if not (isinstance(size, int) and isinstance(k, int)) or b is None or e is None:
            sizes.append(None)
            continue
        room = size + b + e - ((k - 1) * d + 1)
        if room < 0 and not ceil_mode:
            sizes.append(0)
            continue
        count = max((-(-room // s) if ceil_mode else room // s) + 1, 0)
        if ceil_mode and (count - 1) * s >= size + b:
            count -= 1
        sizes.append(count)
    return tuple(sizes)


def padded(x: np.ndarray, begin: Sequence[int], extents: Sequence[int], fill: Any) -> np.ndarray:
    """x [N, spatial..., C] placed at offset `begin` in an array of the given extents, cropped to them.

    Negative offsets crop.
    """
    out = np.full((x.shape[0], *extents, x.shape[-1]), fill, x.dtype)
    target, source = [slice(None)], [slice(None)]
    for b, size, extent in zip(begin, x.shape[1:-1], extents, strict=True):
        lo, hi = max(b, 0), min(b + size, extent)
        target.append(slice(lo, max(hi, lo)))
        source.append(slice(lo - b, max(hi, lo) - b))
    out[tuple(target)] = x[tuple(source)]
    return out


def steps_within(offset: int, stride: int, count: int, extent: int) -> range:
    """The numbers i in range(count) for which 0 <= offset + i * stride < extent."""
    first = max(-(offset // stride), 0)
    return range(first, max(min((extent - 1 - offset) // stride + 1, count), first))


def reach(out: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """The spatial extents that `out` windows cover."""
    return [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(out, kernel, strides, dilations, strict=True)]


def tap(index: Sequence[int], out: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> tuple[Any, ...]:
    """The slices of a padded [N, spatial..., C] that kernel element `index` meets at all `out` positions."""
    spans = (
        slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in zip(index, out, strides, dilations, strict=True)
    )
    return (slice(None), *spans)

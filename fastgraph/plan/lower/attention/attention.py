"""Attention of f32 queries, keys and values with any strides."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....freedoms import threshold
from ....ir import FLOAT32, Node, Value
from ....kernels.attention.pick_attention import FEW, Blocks, pick, pick_few, pick_pairs, pick_tiles
from ....kernels.attention.rows import BLIND, FAR, MASKS
from ....kernels.isa.tiers import multiplies_pairs, multiplies_tiles
from ....ops.registry import attr
from ...quantized import f32_bits
from ...storage import byte_strides
from ..registry import Emit, Narrow, Slot, lowers

LEAST = 9
"""Queries from which on products of bf16 fill tiles enough."""
LEAST_PAIRS = 3
"""Queries of a head of keys from which on its packing pays for pairs of bf16."""


class Heads(NamedTuple):
    """Extents of a tensor [images, heads, rows, size], or [images, rows, heads * size] where it is `flat`."""

    images: int
    heads: int
    rows: int
    size: int
    flat: bool

    def steps(self, strides: tuple[int, ...]) -> tuple[int, int, int]:
        """Bytes from image to image, head to head, row to row."""
        if self.flat:
            return strides[0], strides[2] * self.size, strides[1]
        return strides[0], strides[1], strides[2]


def heads_of(value: Value, count: int | None) -> Heads:
    dims = value.type.dims
    if len(dims) == 4:
        return Heads(*dims, flat=False)
    return Heads(dims[0], count or 1, dims[1], dims[2] // (count or 1), flat=True)


class Operands(NamedTuple):
    """Queries, keys and values, and the result, which is like queries with the size of values."""

    q: Heads
    k: Heads
    v: Heads
    y: Heads

    @property
    def together(self) -> int:
        """Queries that share a head of keys."""
        return self.q.rows * (self.q.heads // self.k.heads)


def _match(node: Node) -> Operands | None:
    q, k, v = node.operands[:3]
    mask, valid = node.input(3), node.input(6)
    if len(node.outputs) > 1 or node.has(4) or node.has(5):
        return None
    if any(not x.type.concrete or x.type.dtype != FLOAT32 for x in (q, k, v, node.out)):
        return None
    precision = attr(node, "softmax_precision")
    if not node.out.type.size or not q.type.size or (precision and np.dtype(precision) not in (FLOAT32, np.float64)):
        return None
    counts = attr(node, "q_num_heads"), attr(node, "kv_num_heads")
    heads, groups = counts
    found = Operands(heads_of(q, heads), heads_of(k, groups), heads_of(v, groups), heads_of(node.out, heads))
    if valid is not None and (valid.type.dtype != np.int64 or not valid.type.concrete):
        return None
    return found if mask is None or _readable(mask, found.k.rows) else None


def _readable(mask: Value, keys: int) -> bool:
    """Whether a mask is f32 or bool and covers all keys."""
    known = mask.type.concrete and mask.type.dtype in (FLOAT32, np.dtype(np.bool_))
    return known and len(mask.type.dims) > 0 and mask.type.dims[-1] == keys


def _of_bf16(e: Emit, plan: Operands) -> str:
    """The kernel of products of bf16, or nothing."""
    if e.precision != "bfloat16":
        return ""
    if multiplies_tiles(e.tier):
        return "attention_tiles" if plan.q.rows >= threshold("tiles_least", LEAST) else ""
    pairs = multiplies_pairs(e.tier) and plan.together >= threshold("tiles_least", LEAST_PAIRS)
    return "attention_pairs" if pairs else ""


def _narrow(e: Emit, node: Node, plan: Operands) -> Narrow:
    """Products of bf16 take queries, keys and values in bfloat16, and give the result in it."""
    places = frozenset({0, 1, 2})
    return Narrow(places, gives=True, rounds=places) if _of_bf16(e, plan) else Narrow()


@lowers("attention", match=_match, strided_in=True, strided_out=True, narrow=_narrow)
def attention(e: Emit, node: Node, plan: Operands) -> None:
    q, k, v = node.operands[:3]
    mask, valid = node.input(3), node.input(6)
    s, t, past = plan.q.rows, plan.k.rows, attr(node, "place")
    scale = attr(node, "scale")
    share = plan.q.heads // plan.k.heads
    kernel, blocks = _blocks(e, plan)
    args: dict[str, Slot] = {"batch": plan.q.images, "heads": plan.q.heads, "share": share, "s": s, "t": t}
    args |= {"d": plan.q.size, "e": plan.v.size, "cap": f32_bits(attr(node, "softcap") or 0)}
    args |= {"scale": f32_bits(1 / math.sqrt(plan.q.size) if scale is None else scale), "place": past or 0}
    args |= {"valid": valid, "follows": valid is not None and past is None, "blind": BLIND.index(attr(node, "blind"))}
    args["scratch"] = e.scratch(blocks["scratch_bytes"] * e.threads)
    for name, value, heads in (("q", q, plan.q), ("k", k, plan.k), ("v", v, plan.v), ("y", node.out, plan.y)):
        args |= {name: value} | _steps(name, heads.steps(e.strides(value)))
    if kernel == "attention_tiles":
        from ....kernels.amx.pack_amx import configuration

        args["config"] = configuration(2, 2, blocks["tile"])
    if "tile" in blocks:
        args |= {f"{name}_item": x.type.itemsize for name, x in (("q", q), ("k", k), ("v", v), ("y", node.out))}
    args |= {**_limits(node), **_mask(e, mask), **blocks}
    e.kernel(kernel, {}, args)


def _blocks(e: Emit, plan: Operands) -> tuple[str, Blocks]:
    s, t, d, size = plan.q.rows, plan.k.rows, plan.q.size, plan.v.size
    if kernel := _of_bf16(e, plan):
        pick_blocks = pick_tiles if kernel == "attention_tiles" else pick_pairs
        return kernel, pick_blocks(e.tier, s, t, d, size)
    if plan.together <= FEW:
        return "attention_few", pick_few(e.tier, plan.together, t, size)
    return "attention", pick(e.tier, s, t, d, size)


def _steps(name: str, steps: tuple[int, ...]) -> dict[str, Any]:
    return dict(zip((f"{name}_image", f"{name}_head", f"{name}_row"), steps, strict=True))


def _limits(node: Node) -> dict[str, Slot]:
    """The slots that limit the keys of a query by its position."""
    left, right = attr(node, "left_window_size"), attr(node, "right_window_size")
    high = min([FAR, *([1] if attr(node, "is_causal") else []), *([right + 1] if right >= 0 else [])])
    return {"low": -left if left >= 0 else -FAR, "high": high}


def _mask(e: Emit, mask: Value | None) -> dict[str, Slot]:
    if mask is None:
        return {"mask": 0, "kind": 0, **_steps("mask", (0, 0, 0))}
    dims = mask.type.dims
    strides = byte_strides(dims, mask.type.itemsize, e.stride(mask))
    steps = [0, 0, 0, *(0 if extent == 1 else step for extent, step in zip(dims, strides, strict=True))][-4:-1]
    kind = MASKS.index("bool" if mask.type.dtype == np.bool_ else "f32")
    return {"mask": mask, "kind": kind, **_steps("mask", tuple(steps))}

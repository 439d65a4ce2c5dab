"""A call of an attention kernel over arrays in any layout, and its meaning by the operator's reference."""

from contextlib import nullcontext
from typing import Any

import numpy as np

from fastgraph.ir import Node, TensorType, Value
from fastgraph.kernels.amx.pack_amx import configuration
from fastgraph.kernels.attention.pick_attention import pick, pick_few, pick_pairs, pick_tiles
from fastgraph.kernels.attention.rows import BLIND, FAR, MASKS
from fastgraph.kernels.core.table import row
from fastgraph.ops.registry import OPS
from tests.amx_trap import tiles
from tests.kernels.harness import f32_bits, run

OF_BF16 = ("attention_tiles", "attention_pairs")
PICKS = {"attention": pick, "attention_tiles": pick_tiles, "attention_pairs": pick_pairs}


def bits(x: float) -> int:
    return f32_bits(x) if x else 0


def steps(x: np.ndarray) -> tuple[int, ...]:
    return x.strides[:3]


def call(
    kernel: str, tier: Any, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None,
    valid: np.ndarray | None = None, threads: int = 1, scale: float = 1.0, cap: float = 0.0, causal: bool = False,
    window: tuple[int, int] = (-1, -1), past: int = 0, blind: str = "zeros", y: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """The result [B, H, S, E]; operands are views [B, heads, rows, size] of dense arrays whose last axis is dense.
    Those of kernels OF_BF16 may be uint16, for bf16.
    """
    (b, h, s, d), (_, groups, t, e) = q.shape, v.shape
    y = np.full((b, h, s, e), 7, q.dtype) if y is None else y
    args: dict[str, Any] = {}
    for name, x in (("q", q), ("k", k), ("v", v), ("y", y)):
        args[name] = x if x.base is None else x.base
        args |= dict(zip((f"{name}_image", f"{name}_head", f"{name}_row"), steps(x), strict=True))
    full = None if mask is None else np.ascontiguousarray(np.broadcast_to(mask, (b, h, s, t)))
    places = (0, 0, 0) if full is None else steps(full)
    args |= dict(zip(("mask_image", "mask_head", "mask_row"), places, strict=True))
    left, right = window
    high = min([FAR, *([1] if causal else []), *([right + 1] if right >= 0 else [])])
    blocks: Any
    if kernel == "attention_few":
        blocks = pick_few(tier, s * (h // groups), t, e)
    else:
        blocks = PICKS[kernel](tier, s, t, d, e)
    args |= {
        "batch": b, "heads": h, "share": h // groups, "s": s, "t": t, "d": d, "e": e, "scale": bits(scale),
        "cap": bits(cap), "mask": 0 if full is None else full, "kind": _kind(mask), "low": -left if left >= 0 else -FAR,
        "high": high, "place": past, "valid": 0 if valid is None else valid, "follows": valid is not None and not past,
        "blind": BLIND.index(blind), "scratch": np.zeros(threads * blocks["scratch_bytes"], np.uint8), **blocks,
    }  # fmt: skip
    if kernel in OF_BF16:
        args |= {f"{name}_item": args[name].itemsize for name in "qkvy"}
    if kernel == "attention_tiles":
        args["config"] = configuration(2, 2, blocks["tile"])
    record = row(kernel).args.filled(**args)
    arrays = [i for i, a in enumerate(record) if isinstance(a, np.ndarray)]
    with tiles() if kernel == "attention_tiles" else nullcontext():
        found = run(row(kernel), {}, record, tier, threads, offset=0)
    made = found[arrays.index(list(row(kernel).args).index("y"))]
    if y.base is None:
        return made
    result = np.lib.stride_tricks.as_strided(made.reshape(-1), y.shape, y.strides)
    found = result.copy()
    result[...] = y
    assert np.array_equal(made, y.base), "the kernel wrote between rows"
    return found


def _kind(mask: np.ndarray | None) -> int:
    return MASKS.index("none" if mask is None else "bool" if mask.dtype == bool else "f32")


def meaning(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, valid: np.ndarray | None = None,
    scale: float = 1.0, cap: float = 0.0, causal: bool = False, window: tuple[int, int] = (-1, -1), past: int = 0,
) -> np.ndarray:  # fmt: skip
    """By the reference; `past` of the keys and values come as such."""
    attrs = {
        "scale": scale, "softcap": cap, "is_causal": int(causal), "left_window_size": window[0],
        "right_window_size": window[1],
    }  # fmt: skip
    before = (k[:, :, :past], v[:, :, :past]) if past else (None, None)
    inputs = [q, k[:, :, past:], v[:, :, past:], mask, *before, valid]
    values = [None if x is None else Value(f"x{i}", TensorType(x.dtype, x.shape)) for i, x in enumerate(inputs)]
    node = Node("attention", values, [Value("y", TensorType(np.dtype(np.float32), None))], attrs, "attention")
    y: np.ndarray = OPS["attention"].reference(node, inputs)[0]
    return y

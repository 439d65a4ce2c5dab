"""The kernels of attention, and their record. Strides are in bytes, sizes in elements."""

from __future__ import annotations

from ..core.record import Record, number, reads, strides, works, writes
from ..core.table import Row, has_rounds, of_pairs, rounds
from ..isa.tiers import BF16

MASKS = ("none", "f32", "bool")
"""Nothing, what is added to scores, or which keys a query sees."""
BLIND = ("zeros", "nan", "never nan")
"""The result of a query whose scores are all -inf; `never nan`: zeros, also where a score is NaN or inf."""
STATE = Record(
    top="the largest score so far",
    base="the largest one of a block, then what scores are relative to",
    total="the sum of the weights",
    factor="of what was summed before the block",
)
"""Lines of f32 that a block has, with a number for each query."""

ATTENTION = Record(
    q=reads("the queries: rows of d f32", "4 * d", "batch: q_image, heads: q_head, s: q_row"),
    k=reads("the keys, alike", "4 * d", "batch: k_image, heads // share: k_head, t: k_row"),
    v=reads("the values: rows of e f32", "4 * e", "batch: v_image, heads // share: v_head, t: v_row"),
    y=writes("the result, with rows of e f32 for each query", "4 * e", "batch: y_image, heads: y_head, s: y_row"),
    batch="images",
    heads=number("of the queries", "% share == 0"),
    share=number("of them that read one head of keys and values", "> 0"),
    s="queries",
    t="keys",
    d="f32 of a query",
    e="f32 of a value",
    **strides("q k v y", "image head row"),
    scale="f32 bits: what products of queries and keys are multiplied by",
    cap="f32 bits: c in c * tanh(score / c), 0 for scores as they are",
    mask=reads(
        "the mask, or 0; bools are read in whole vectors",
        "(4 if kind == 1 else 1) * t",
        "batch: mask_image, heads: mask_head, s: mask_row",
        over="0 if kind == 1 else lanes - 1",
        when="kind",
    ),
    kind=number("MASKS: what a mask holds", f"in range({len(MASKS)})"),
    **strides("mask", "image head row"),
    low="keys from a query's place to the first that it sees",
    high="keys from a query's place to behind the last that it sees",
    place="the place of the first query among the keys",
    valid=reads("[batch] int64: how many keys of an image there are, or 0: all", "8 * batch", optional=True),
    follows="whether the queries of an image are its last valid keys; then `place` means nothing",
    blind=number("BLIND: what becomes of queries that see no key", f"in range({len(BLIND)})"),
    rows=number("queries of a block; of `few`, all of a head of keys", "> 0 and (not few or rows == s * share)"),
    keys=number("keys of a block, whole panels", "> 0 and keys % panel == 0"),
    scratch=works("scratch_bytes for each thread, 64-byte aligned; it begins with packed keys", "scratch_bytes"),
    scratch_bytes=number("bytes", f">= state_at + {4 * len(STATE)} * ceil_div(rows, lanes) * lanes"),
    values_at=number("bytes to packed values; `few` has none", ">= (0 if few else 4 * ceil_div(t, panel) * panel * d)"),
    scores_at=number("bytes to scores, rows of keys + a vector", ">= values_at + (0 if few else 4 * t * columns)"),
    sums_at=number("bytes to products with values, rows of whole panels", ">= scores_at + 4 * rows * (keys + lanes)"),
    state_at=number("bytes to STATE of each query of a block", ">= sums_at + 4 * columns * (1 if few else rows)"),
)
"""y = softmax(scale * q x k + mask) x v for each image and head. A query's place is its number plus that of the first.
"""

_ITEM = "bytes of an element of {}: 4, f32, or 2, bf16"
ATTENTION_PAIRS = Record(
    ATTENTION
    | {
        "q": reads("the queries: rows of d", "q_item * d", "batch: q_image, heads: q_head, s: q_row"),
        "k": reads("the keys, alike", "k_item * d", "batch: k_image, heads // share: k_head, t: k_row"),
        "v": reads("the values: rows of e", "v_item * e", "batch: v_image, heads // share: v_head, t: v_row"),
        "y": writes(
            "the result, with rows of e for each query", "y_item * e", "batch: y_image, heads: y_head, s: y_row"
        ),
        **{f"{name}_item": number(_ITEM.format(name), "in (4, 2)") for name in "qkvy"},
        "tile": number("queries of a tile", "in range(1, 15)"),
        "rows": number("queries of a block, whole tiles", "> 0 and rows % tile == 0"),
        "keys": number("keys of a block, whole panels", "> 0 and keys % panel == 0"),
        "values_at": number("bytes to packed values", ">= ceil_div(t, panel) * panel * line"),
        "queries_at": number(
            "bytes to queries, whole lines", ">= values_at + 2 * columns * ceil_div(t, panel) * panel"
        ),
        "scores_at": number("bytes to scores, rows of keys + a vector", ">= queries_at + rows * line"),
        "parts_at": number("bytes to a vector for each query", ">= sums_at + 4 * columns * rows"),
        "state_at": number("bytes to STATE of each query", ">= parts_at + 64 * ceil_div(rows, lanes) * lanes"),
    }
)
"""As ATTENTION, for products of bf16."""
ATTENTION_TILES = Record(
    ATTENTION_PAIRS
    | {
        "tile": number("queries of a tile", "in range(1, 17)"),
        "config": reads("the 64 bytes of pack_amx.configuration for 2 x 2 tiles of `tile` queries", "64"),
    }
)
"""The same, for tiles."""

FAR = 1 << 40
"""More keys than there are: `low` and `high` that limit nothing."""


ROWS: tuple[Row, ...] = (
    Row("attention", "attention.attention_many", "make", ATTENTION, product=True),
    Row("attention_few", "attention.attention_few", "make", ATTENTION, product=True),
    Row("attention_tiles", "attention.attention_tiles", "make", ATTENTION_TILES, exists=lambda tier, params: tier.tiles,
        product=True, needs=lambda params: BF16, unit=lambda params: "tiles"),
    Row("attention_pairs", "attention.attention_pairs", "make", ATTENTION_PAIRS, {}, has_rounds, product=True,
        needs=rounds, unit=of_pairs),
)  # fmt: skip

"""The kernels of attention, and their record. Strides are in bytes, sizes in elements."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import Row

ATTENTION = Record(
    q="address of the queries: an image, head and row has d f32 beside one another",
    k="address of the keys, alike, with rows of d f32",
    v="address of the values, alike, with rows of e f32",
    y="address of the result, with rows of e f32 for each query",
    batch="images",
    heads="of the queries",
    share="of them that read one head of keys and values",
    s="queries",
    t="keys",
    d="f32 of a query",
    e="f32 of a value",
    q_image="from image to image",
    q_head="from head to head",
    q_row="from row to row",
    k_image="",
    k_head="",
    k_row="",
    v_image="",
    v_head="",
    v_row="",
    y_image="",
    y_head="",
    y_row="",
    scale="f32 bits: what products of queries and keys are multiplied by",
    cap="f32 bits: c in c * tanh(score / c), 0 for scores as they are",
    mask="address of what says more of the scores, or 0",
    kind="MASKS: what a mask holds",
    mask_image="",
    mask_head="",
    mask_row="",
    low="keys from a query's place to the first that it sees",
    high="keys from a query's place to behind the last that it sees",
    place="the place of the first query among the keys",
    valid="address of [batch] int64: how many keys of an image there are, or 0: all",
    follows="whether the queries of an image are its last valid keys; then `place` means nothing",
    blind="BLIND: what becomes of queries that see no key",
    rows="queries of a block; of `few`, all that share a head of keys",
    keys="keys of a block, whole panels",
    scratch="address of scratch_bytes for each thread, 64-byte aligned; it begins with packed keys",
    scratch_bytes="bytes",
    values_at="bytes to the packed values (`few` packs nothing)",
    scores_at="bytes to the scores of a block, rows of keys + a vector",
    sums_at="bytes to a block's products with values, rows of whole panels (`few`: one of whole vectors)",
    state_at="bytes to STATE of each query of a block",
)
"""y = softmax(scale * q x k + mask) x v for each image and head. A query's place is its number plus that of the first.
"""

MASKS = ("none", "f32", "bool")
"""Nothing, what is added to scores, or which keys a query sees."""
BLIND = ("zeros", "nan", "never nan")
"""What a query gets whose scores are all -inf; `never nan`: zeros, also where one of them is NaN or inf."""
STATE = Record(
    top="the largest score so far",
    base="the largest one of a block, then what scores are relative to",
    total="the sum of the weights",
    factor="of what was summed before the block",
)
"""Lines of f32 that a block has, with a number for each query."""
FAR = 1 << 40
"""More keys than there are: `low` and `high` that limit nothing."""

ROWS: tuple[Row, ...] = (
    Row("attention", "attention.attention_many", "make", ATTENTION, product=True),
    Row("attention_few", "attention.attention_few", "make", ATTENTION, product=True),
)

"""What attention reaches."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.attention.pick_attention import NV
from ...kernels.attention.rows import BLIND, MASKS, STATE
from .call import Call, Reach, need, parts, reaches, read, work, write


@reaches("attention", "attention_few")
def attention(c: Call) -> Iterator[Reach]:
    r = c.record("batch heads s t d e values_at scores_at sums_at state_at scratch_bytes", "share rows keys")
    need(r.heads % r.share == 0, f"{r.heads} heads in groups of {r.share}")
    need(0 <= r.kind < len(MASKS) and 0 <= r.blind < len(BLIND), f"kind is {r.kind}, blind {r.blind}")
    few = c.kernel == "attention_few"
    width = c.lanes if few else NV * c.lanes
    need(r.keys % width == 0, f"keys is {r.keys}, expected a multiple of {width}")
    need(not few or r.rows == r.s * r.share, f"rows is {r.rows}, expected {r.s} queries of {r.share} heads")
    groups = r.heads // r.share
    queries = (r.batch, r.q_image), (r.heads, r.q_head), (r.s, r.q_row)
    yield read("q", 4 * r.d, *queries)
    yield read("k", 4 * r.d, (r.batch, r.k_image), (groups, r.k_head), (r.t, r.k_row))
    yield read("v", 4 * r.e, (r.batch, r.v_image), (groups, r.v_head), (r.t, r.v_row))
    yield from _mask(c)
    if c.slots["valid"] != 0:
        yield read("valid", 8 * r.batch)
    yield write("y", 4 * r.e, (r.batch, r.y_image), (r.heads, r.y_head), (r.s, r.y_row))
    columns = parts(r.e, width) * width
    packed = (0, 0) if few else (parts(r.t, width) * width * r.d, r.t * columns)
    lines = len(STATE) * parts(r.rows, c.lanes) * c.lanes
    sizes = *packed, r.rows * (r.keys + c.lanes), columns * (1 if few else r.rows), lines
    starts = 0, r.values_at, r.scores_at, r.sums_at, r.state_at, r.scratch_bytes
    for start, size, end in zip(starts, sizes, starts[1:], strict=False):
        need(start + 4 * size <= end, f"{4 * size} bytes of scratch between {start} and {end}")
    yield work("scratch", r.scratch_bytes, (c.threads, r.scratch_bytes))


def _mask(c: Call) -> Iterator[Reach]:
    """A bool mask is read in whole vectors."""
    r = c.record()
    if not r.kind:
        need(c.slots["mask"] == 0, "there is a mask, and its kind is none")
        return
    item = 4 if MASKS[r.kind] == "f32" else 1
    rows = (r.batch, r.mask_image), (r.heads, r.mask_head), (r.s, r.mask_row)
    yield read("mask", item * r.t, *rows, over=0 if item == 4 else c.lanes - 1)

"""Names for the records of sliding windows, and conditions of their kernels on several slots."""

from __future__ import annotations

from functools import partial

from ...kernels.window.pick import ROWS
from ...kernels.window.pick_depthwise_int8 import Scheme, fill_bytes, group_of, scheme_of
from ...kernels.window.pick_int8_pairs import pair_lines
from ...kernels.window.rows import MOST_PAIR_ROWS, STRIP, across_channels, has_across, pair_rows
from .call import KNOWN, Call, need, parts, reaches


def _repeat(c: Call) -> int:
    """Output channels per input channel."""
    return c.record().multiplier if c.params.get("repeated", "multiplier" in c.slots) else 1


def _scheme(c: Call) -> Scheme:
    return scheme_of(c.tier, c.params["size"], c.params["stride"], c.params["wide"])


def _terms(c: Call) -> int:
    """Vectors of weights for a vector of outputs."""
    if "size" in c.params:
        return len(_scheme(c).terms)
    r = c.record()
    return parts(r.k_h, group_of(c.params["wide"])) * r.k_w


def _tap(c: Call) -> int:
    """Bytes to the farthest tap of a window in a line of planes."""
    r, stride = c.record(), int(c.params["stride"])
    return max(r.plane * (q % stride) + r.c * (q // stride) for q in range(c.params["size"]))


KNOWN["pair_rows"], KNOWN["strip"] = lambda c: pair_rows, lambda c: STRIP * c.lanes
KNOWN["pair_lines"] = lambda c: partial(pair_lines, c.params["stride"])
KNOWN["most"] = lambda c: MOST_PAIR_ROWS
KNOWN["width"] = lambda c: c.params.get("vectors", 1) * c.lanes
KNOWN["repeat"] = _repeat
KNOWN["scheme"], KNOWN["terms"], KNOWN["tap"] = _scheme, _terms, _tap
KNOWN["piece"] = lambda c: c.vector // c.params.get("pieces", 1)
KNOWN["blank"] = lambda c: fill_bytes(c.tier, c.params, 1) - c.vector + 1
KNOWN["packed_vectors"] = lambda c: c.record().period if "period" in c.slots else parts(c.record().c, c.vector)


@reaches("depthwise")
def depthwise(c: Call) -> None:
    """Windows of ROWS columns have at most ROWS rows, which the kernel unrolls."""
    r = c.record()
    need(not c.params["narrow"] or c.slots["walk"] == 0, "a chain is walked over results in bf16")
    need(r.k_h <= ROWS or r.k_w != ROWS, f"k_h is {r.k_h}, for windows of {r.k_w} columns")


@reaches("depthwise_any")
def depthwise_any(c: Call) -> None:
    """Vectors run across pixels in dense rows, with nothing added to them, for windows that have a body for it."""
    r, p = c.record(), c.params
    if not r.across:
        return
    need(p["vectors"] == STRIP and not p["repeated"], f"across is {r.across}, for vectors that don't run across pixels")
    need(r.across == across_channels(r.c, c.lanes), f"across is {r.across}, for {r.c} channels")
    need(r.ldx == r.ldy == r.c, f"ldx is {r.ldx} and ldy {r.ldy}, expected rows without gaps: {r.c}")
    flat = r.d == r.out_d == r.k_d == r.stride_x == r.stride_y == r.dilation_y == 1
    need(flat and has_across(c.tier, r.k_h), f"across is {r.across}, for windows that are computed by channels")
    need(c.slots["addend"] == 0, "something is added to vectors across pixels")


@reaches("depthwise_int8_pairs")
def depthwise_int8_pairs(c: Call) -> None:
    """The constants are of the rows and channels that lines have."""
    r = c.record()
    need(r.pairs == pair_rows(r.k_h), f"pairs is {r.pairs}, for windows of {r.k_h} rows")
    need(r.across == across_channels(r.block, c.lanes), f"across is {r.across}, for blocks of {r.block} channels")


@reaches("grouped")
def grouped(c: Call) -> None:
    """As `depthwise`, of whole groups."""
    r = c.record()
    need(r.y_item == 4 or c.slots["walk"] == 0, "a chain is walked over results in bf16")
    need(r.k_h <= ROWS or r.k_w != ROWS, f"k_h is {r.k_h}, for windows of {r.k_w} columns")
    need(r.c % c.params["group"] == 0, f"c is {r.c}, for groups of {c.params['group']} channels")


@reaches("depthwise_int8")
def depthwise_int8(c: Call) -> None:
    """No window lies in padding altogether; a vector of several pieces has all channels in each."""
    r, p = c.record(), c.params
    need(p["pieces"] == 1 or r.c == r.piece, f"c is {r.c} for vectors of {c.vector} bytes in {p['pieces']} pieces")
    outside = not 0 <= r.pad_x < p["size"] or (r.out_w - 1) * p["stride"] - r.pad_x >= r.w
    need(r.run >= r.out_w, f"run is {r.run}, for whole rows of {r.out_w} columns")
    need(not outside, f"pad_x is {r.pad_x}, {r.out_w} outputs of {r.w} columns: too much lies outside")


@reaches("depthwise_int8_across")
def depthwise_int8_across(c: Call) -> None:
    """Several rows of y are computed as one."""
    r = c.record("pad_x")
    need(r.ldy == r.c, f"ldy is {r.ldy}, expected rows of y without gaps: {r.c}")
    need(r.out_h >= _scheme(c).rows, f"{r.out_h} rows of outputs, less than {_scheme(c).rows}")

"""What sliding windows reach: depthwise convolutions and pools, of f32 and of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.gemm.rows import STORES
from ...kernels.isa.lanes import PARTS
from ...kernels.window.pick import ROWS
from ...kernels.window.pick_depthwise_int8 import Scheme, fill_bytes, group_of, scheme_of
from .call import Call, Reach, need, parts, reaches, read, short, work, write
from .walked import epilogue


@reaches("depthwise", "pool")
def window(c: Call) -> Iterator[Reach]:
    steps = "stride_y stride_x dilation_y dilation_x"
    r, p = c.record("n h w c out_h out_w k_h", f"{steps} band block", "pad_y pad_x"), c.params
    fits = r.k_w == p["size"] and p["stride"] * r.dilation_x % r.stride_x == 0
    if c.kernel == "pool":
        c.record("d out_d k_d", "stride_z dilation_z", "pad_z")
    else:
        fits = fits and r.d == r.out_d == r.k_d == 1
    need(fits and (r.k_h <= ROWS or r.k_w != ROWS or "op" in p),
         f"a window of {r.k_d} x {r.k_h} x {r.k_w}, strides {r.stride_y} and {r.stride_x}, "
         f"dilations {r.dilation_y} and {r.dilation_x}")  # fmt: skip
    yield from _windows(c)


@reaches("depthwise_any", "depthwise_int8_any", "pool_any")
def window_any(c: Call) -> Iterator[Reach]:
    c.record(
        "n d h w c out_d out_h out_w k_d k_h k_w",
        "stride_z stride_y stride_x dilation_z dilation_y dilation_x band block",
        "pad_z pad_y pad_x",
    )
    yield from _windows(c)


def _windows(c: Call) -> Iterator[Reach]:
    r, p = c.record(), c.params
    width, item = p.get("vectors", 1) * c.lanes, 1 if "multipliers" in c.slots else 4
    each = r.multiplier if p.get("repeated", "multiplier" in c.slots) else 1
    need(each > 0 and r.c % each == 0, f"c is {r.c}, expected a multiple of {each}")
    need(r.block % width == 0, f"block is {r.block}, expected a multiple of {width}")
    out = r.out_d * r.out_h * r.out_w
    over, run = 4 * short(r.c, width), 4 * r.c if r.n * out else 0
    first = max(parts(r.c, width) - 1, 0) * width // each
    behind = max(first + width - r.c // each, 0)
    yield read("x", item * run // 4 // each, (r.n * r.d * r.h * r.w, item * r.ldx), over=item * behind)
    if "weights" in c.slots:
        yield read("weights", r.k_d * r.k_h * r.k_w * run, over=over)
        yield read("bias", run, over=over)
    if item == 1:
        yield read("multipliers", run, over=over)
        item = STORES[p["out"]]
    else:
        yield from epilogue(c, r.n, out, run, over=over, apart=True)
    yield write("y", item * r.c, (r.n * out, item * r.ldy))


@reaches("depthwise_int8")
def depthwise_int8(c: Call) -> Iterator[Reach]:
    r, p, width = c.record("n h w out_h out_w", "c band block", "pad_y"), c.params, c.vector
    _in_vectors(c)
    each, used, scheme = width // p["pieces"], int(r.n * r.out_h * r.out_w > 0), _scheme(c)
    need(p["pieces"] == 1 or r.c == each, f"c is {r.c} for vectors of {width} bytes in {p['pieces']} pieces")
    outside = not 0 <= r.pad_x < p["size"] or (r.out_w - 1) * p["stride"] - r.pad_x >= r.w
    need(not used or not outside, f"pad_x is {r.pad_x}, {r.out_w} outputs of {r.w} columns: too much lies outside")
    blank = fill_bytes(c.tier, p, 1) - width + 1
    yield read("x", used * r.c, (r.n * r.h * r.w, r.ldx), over=max(each - r.c, 0))
    yield read("fill", used * each, (blank, r.ldx))
    yield read("packed", used * parts(r.c, width) * (2 + len(scheme.terms)) * PARTS * width)
    yield write("y", r.c, (r.n * r.out_h * r.out_w, r.ldy))


def _in_vectors(c: Call) -> None:
    """What kernels need that compute a vector of channels at a time, of one plane."""
    r = c.record()
    need(r.d == r.out_d == r.k_d == 1, f"{r.d} planes of x, {r.out_d} of y, {r.k_d} of the window")
    need(r.block == c.vector, f"block is {r.block}, expected {c.vector}")


def _scheme(c: Call) -> Scheme:
    return scheme_of(c.tier, c.params["size"], c.params["stride"], c.params["wide"])


@reaches("depthwise_int8_across")
def depthwise_int8_across(c: Call) -> Iterator[Reach]:
    r, p = c.record("n h w out_h out_w pad_x scratch_bytes line plane", "c lines period", "pad_y"), c.params
    need(r.ldy == r.c, f"ldy is {r.ldy}, expected rows of y without gaps: {r.c}")
    scheme, vector, lines, stride = _scheme(c), c.vector, r.lines, p["stride"]
    used = int(r.n * r.out_h * r.out_w > 0)
    need(not used or r.out_h >= scheme.rows, f"{r.out_h} rows of outputs, less than {scheme.rows}")
    need(r.plane % r.c == 0 and r.plane >= r.pad_x * r.c, f"plane is {r.plane}, with pixels of {r.c}")
    need(lines > scheme.lines[-1], f"{lines} lines, expected {scheme.lines[-1] + 1}")
    need(stride * r.plane <= r.line and lines * r.line <= r.scratch_bytes,
         f"{lines} lines of {stride} planes of {r.plane} in {r.scratch_bytes}")  # fmt: skip
    tap = max(r.plane * (q % stride) + r.c * (q // stride) for q in range(p["size"]))
    row = r.out_w * r.c
    need(tap + row <= r.line, f"line is {r.line}, less than the {tap + row} that are read")
    yield read("x", used * r.c, (r.n * r.h * r.w, r.ldx))
    yield work("scratch", used * max(lines * r.line, (lines - 1) * r.line + tap + parts(row, vector) * vector),
               (c.threads, r.scratch_bytes))  # fmt: skip
    yield read("packed", used * r.period * (2 + len(scheme.terms)) * PARTS * vector)
    yield write("y", used * r.n * r.out_h * row)


@reaches("depthwise_int8_window")
def depthwise_int8_window(c: Call) -> Iterator[Reach]:
    steps = "dilation_y dilation_x"
    r = c.record("n h w out_h out_w k_h k_w", f"c {steps} band block", "stride_y stride_x pad_y pad_x")
    _in_vectors(c)
    used = int(r.n * r.out_h * r.out_w > 0)
    yield read("x", used * r.c, (r.n * r.h * r.w, r.ldx), over=max(c.vector - r.c, 0))
    yield read("fill", used * c.vector)
    terms = parts(r.k_h, group_of(c.params["wide"])) * r.k_w
    yield read("packed", used * parts(r.c, c.vector) * (2 + terms) * PARTS * c.vector)
    yield write("y", r.c, (r.n * r.out_h * r.out_w, r.ldy))


@reaches("pool_int8")
def pool_int8(c: Call) -> Iterator[Reach]:
    steps = "stride_y stride_x dilation_y dilation_x"
    r = c.record("n h w c out_h out_w k_h k_w", f"{steps} band block", "pad_y pad_x")
    need(r.d == r.out_d == r.k_d == 1, f"{r.d} planes of x, {r.out_d} of y, {r.k_d} of the window")
    out = r.n * r.out_h * r.out_w
    yield read("x", r.c if out else 0, (r.n * r.h * r.w, r.ldx), over=max(c.vector - r.c, 0))
    yield write("y", r.c, (out, r.ldy))

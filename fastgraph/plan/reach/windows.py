"""What sliding windows reach: depthwise convolutions and pools, of f32 and of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.isa.lanes import PARTS
from ...kernels.window.pick_depthwise_int8 import scheme_of
from .call import Call, Reach, need, parts, prod, reaches, read, short, work, write

BITS = 63
"""Rows and columns of a window that fit the bits of an int64."""


@reaches("depthwise", "pool")
def window(c: Call) -> Iterator[Reach]:
    p, channels, n = c.params, c.count("c"), c.count("n")
    size, out = prod(c.counts("h w")), prod(c.counts("oh ow"))
    c.count("band", 1)
    c.numbers("pad_top pad_left")
    vectors = p.get("vectors", 1)
    span = (p["tile"] - 1) * p["sw"] + (p["kw"] - 1) * p.get("dw", 1) + 1
    need(span <= BITS and p["kh"] <= BITS, f"a window of {p['kh']} x {span}")
    over, used = 4 * short(channels, vectors * c.lanes), int(n * out > 0)
    yield read("x", used * 4 * channels, (n * size, 4 * c.number("ldx")), over=over)
    if c.step.kernel.name == "depthwise":
        yield read("weights", used * 4 * p["kh"] * p["kw"] * channels, over=over)
        yield read("bias", used * 4 * channels, over=over)
    yield from c.extras(n, out, used * 4 * channels, over=over)
    yield write("y", 4 * channels, (n * out, 4 * c.number("ldy")))


@reaches("depthwise_any", "pool_any")
def window_any(c: Call) -> Iterator[Reach]:
    channels, n, each = c.count("c"), c.count("n"), c.params.get("multiplier", 1)
    size, out = prod(c.counts("d h w")), prod(c.counts("od oh ow"))
    kernel = prod(c.counts("kd kh kw"))
    c.counts("dd dh dw", 1)
    c.numbers("sd sh sw pad_front pad_top pad_left")
    need(channels % each == 0, f"c is {channels}, expected a multiple of {each}")
    together = max(1, c.lanes // each)
    width, used = together * each, int(n * out * channels > 0)
    first = parts(channels, width) - 1
    wide = 1 if each > c.lanes else c.lanes
    yield read("x", used * 4 * (channels // each), (n * size, 4 * c.number("ldx")),
               over=4 * max(first * together + wide - channels // each, 0))  # fmt: skip
    over = 4 * max(first * width + (parts(each, c.lanes) - 1) * c.lanes + c.lanes - channels, 0)
    if c.step.kernel.name == "depthwise_any":
        yield read("weights", used * 4 * kernel * channels, over=over)
        yield read("bias", used * 4 * channels, over=over)
    yield from c.extras(n, out, used * 4 * channels, over=over)
    yield write("y", 4 * channels, (n * out, 4 * c.number("ldy")))


@reaches("depthwise_int8")
def depthwise_int8(c: Call) -> Iterator[Reach]:
    p, channels, n = c.params, c.count("c", 1), c.count("n")
    h, w, oh, ow = c.counts("h w oh ow")
    c.count("band", 1)
    pad_left, ldx = c.numbers("pad_left ldx")
    c.number("pad_top")
    width, reach = 4 * p["lanes"], (p["kw"] - 1) * p["dw"]
    each, used = width // p["pieces"], int(n * oh * ow > 0)
    fits = channels <= width if p["partial"] else channels >= width if p["pieces"] == 1 else channels == each
    need(fits, f"c is {channels} for vectors of {width} bytes in {p['pieces']} pieces")
    if used:
        need(oh >= p["rows"] and ow >= p["tile"], f"{oh} x {ow} outputs, less than a tile of {p['rows']} x {p['tile']}")
        inner = 0 <= pad_left <= reach and (ow - 1) * p["sw"] - pad_left < w
        need(inner, f"pad_left is {pad_left}, {ow} outputs of {w} columns: more lies outside than a kernel reaches")
    yield read("x", used * channels, (n * h * w, ldx), over=max(each - channels, 0))
    span = (p["tile"] - 1) * p["sw"] + reach + 1
    yield read("fill", used * each, (span, ldx))
    yield read("packed", used * parts(channels, width) * (2 + len(scheme_of(p).terms)) * PARTS * width)
    yield write("y", channels, (n * oh * ow, c.number("ldy")))


@reaches("depthwise_int8_across")
def depthwise_int8_across(c: Call) -> Iterator[Reach]:
    p, channels, n = c.params, c.count("c", 1), c.count("n")
    h, w, oh, ow = c.counts("h w oh ow")
    pad_left, each, line, plane = c.counts("pad_left scratch_bytes line plane")
    lines, period = c.counts("lines period", 1)
    c.number("pad_top")
    need(c.number("ldy") == channels, f"ldy is {c.slots['ldy']}, expected rows of y without gaps: {channels}")
    scheme, vector = scheme_of(p), c.vector
    used = int(n * oh * ow > 0)
    need(not used or oh >= p["rows"], f"{oh} rows of outputs, less than {p['rows']}")
    need(plane % channels == 0 and plane >= pad_left * channels, f"plane is {plane}, with pixels of {channels}")
    need(lines > scheme.lines[-1], f"{lines} lines, expected {scheme.lines[-1] + 1}")
    need(p["sw"] * plane <= line and lines * line <= each, f"{lines} lines of {p['sw']} planes of {plane} in {each}")
    tap = max(plane * (q * p["dw"] % p["sw"]) + channels * (q * p["dw"] // p["sw"]) for q in range(p["kw"]))
    row = ow * channels
    need(tap + row <= line, f"line is {line}, less than the {tap + row} that are read")
    yield read("x", used * channels, (n * h * w, c.number("ldx")))
    yield work("scratch", used * max(lines * line, (lines - 1) * line + tap + parts(row, vector) * vector),
               (c.threads, each))  # fmt: skip
    yield read("packed", used * period * (2 + len(scheme.terms)) * PARTS * vector)
    yield write("y", used * n * oh * row)


@reaches("depthwise_int8_any")
def depthwise_int8_any(c: Call) -> Iterator[Reach]:
    channels, n, each = c.count("c"), c.count("n"), c.params["multiplier"]
    size, out, kernel = prod(c.counts("h w")), prod(c.counts("oh ow")), prod(c.counts("kh kw"))
    c.counts("dh dw", 1)
    c.numbers("sh sw pad_top pad_left")
    need(channels % each == 0, f"c is {channels}, expected a multiple of {each}")
    used, item = int(n * out * channels > 0), 4 if c.params["out"] == "f32" else 1
    last = max(channels - 1, 0) // c.lanes * c.lanes
    reached = last // each + ((c.lanes + each - 2) // each + 1 if each > 1 else c.lanes)
    yield read("x", used * (channels // each), (n * size, c.number("ldx")), over=max(reached - channels // each, 0))
    yield read("packed", used * 4 * (2 + kernel) * channels, over=4 * short(channels, c.lanes))
    yield write("y", item * channels, (n * out, item * c.number("ldy")))


@reaches("pool_int8")
def pool_int8(c: Call) -> Iterator[Reach]:
    p, channels, n = c.params, c.count("c"), c.count("n")
    size, out = prod(c.counts("h w")), prod(c.counts("oh ow"))
    kernel = c.counts("kh kw")
    c.counts("dh dw", 1)
    c.numbers("sh sw pad_top pad_left end_y end_x")
    width = 4 * p["lanes"]
    need(not p["kh"] or kernel == [p["kh"], p["kw"]], f"a window of {kernel}, expected {p['kh']} x {p['kw']}")
    need(channels <= width if p["partial"] else channels >= width, f"c is {channels} for vectors of {width} bytes")
    used = int(n * out > 0)
    yield read("x", used * channels, (n * size, c.number("ldx")), over=max(width - channels, 0))
    yield write("y", channels, (n * out, c.number("ldy")))

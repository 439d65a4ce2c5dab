"""Ranges of convolutions that copy bands of rows to scratch: rows of x, bands, and reads of either."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .call import MOST_PLACES, Call, Loop, Reach, grid, need, offsets, parts, read, short, work


def copied(c: Call, item: int, *loops: Loop) -> Iterator[Reach]:
    """Rows of x that are copied: `pixels` runs, in whole vectors."""
    r = c.record("run pixels")
    over = short(r.run * item, c.vector)
    yield read("x", r.run * item, *loops, (r.pixels, r.x_step), start=r.x_first, over=over)


def line_end(c: Call, item: int) -> int:
    """Bytes from the start of a band's row to the end of the bytes written for it."""
    r = c.record("left run pixels right pixel_step")

    def whole(n: int) -> int:
        return parts(n, c.vector) * c.vector

    left, right, inner = r.left * item, r.right * item, r.left * item + r.pixels * r.pixel_step
    need(inner + right == r.band_y, f"a row of a band has {r.band_y} bytes, of which {inner + right} are filled")
    ends = [whole(r.band_y), whole(left), inner + whole(right)]
    ends += [inner - r.pixel_step + whole(r.run * item)] if r.pixels else []
    return max(ends)


def band(c: Call, item: int, height: int, count: int, made: int = 0) -> Iterator[Reach]:
    """Bands for `height` of `count` rows of output, one in each thread's scratch, and the rows of x that they copy.
    made: bytes that an element has in a band, where not as many as in x.
    """
    if not height:
        return
    r = c.record("move_y reach band_z band_y images sets d h out_d scratch_bytes")
    rows = (min(height, count) - 1) * r.move_y + r.reach
    z = grid(r.out_d, r.stride_z, r.k_d, r.dilation_z) - r.pad_z
    top = grid(parts(count, height), height * r.stride_y, rows, r.step_y) - r.pad_y
    slices_down = r.k_d if r.shift else 1
    need(slices_down * top.size <= MOST_PLACES, f"there are {slices_down} times {top.size} rows")
    y = top[..., None] + np.arange(slices_down) * r.shift
    slices, lines = offsets(z[(z >= 0) & (z < r.d)] * r.x_z), offsets(y[(y >= 0) & (y < r.h)] * r.x_y)
    yield from copied(c, item, (r.images, r.x_image), (r.sets, r.x_set), slices, lines)
    end = (r.k_d - 1) * r.band_z + (rows - 1) * r.band_y + line_end(c, made or item)
    need(end <= r.scratch_bytes, f"a band takes {end} bytes of scratch_bytes {r.scratch_bytes}")
    need(rows * r.band_y <= r.band_z or r.k_d == 1, f"band_z is {r.band_z}, less than {rows} rows of {r.band_y}")
    yield work("scratch", end, (c.threads, r.scratch_bytes))


def taps(c: Call, table: np.ndarray, length: int, over: int, height: int, out_w: int) -> Iterator[Reach]:
    """Words that are read `table` bytes from where each output begins: in bands for `height` rows of them, or in x."""
    r = c.record("band_z band_y move_y reach k_d out_h scratch_bytes")
    loops: tuple[tuple[int, int], ...]
    if r.direct:
        slot, kind = "x", "read"
        loops = (r.images, r.x_image), (r.sets, r.x_set), (r.out_d, r.stride_z * r.x_z), (r.out_h, r.gs), (out_w, r.rs)
    else:
        slot, kind, height = "scratch", "work", min(height, r.out_h)
        loops = (c.threads, r.scratch_bytes), (height, r.gs), (out_w, r.rs)
        if table.size and all(n > 0 for n, _ in loops):
            first, end = (
                read(slot, length - over, *loops[1:], start=int(at)).span()[side]
                for side, at in enumerate((table.min(), table.max()))
            )
            filled = (r.k_d - 1) * r.band_z + ((height - 1) * r.move_y + r.reach) * r.band_y
            need(0 <= first and end <= filled, f"taps read bytes {first}..{end} of a band of {filled}")
    for at in np.unique(table).tolist():
        yield Reach(slot, kind, length - over, loops, at, over)

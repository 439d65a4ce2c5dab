"""The kernel `chain`: rows x columns of a chain's result, by the steps of its table. Elements go through all steps in
blocks, whose temporaries stay in the first-level cache."""

from __future__ import annotations

from collections.abc import Callable

from ..core.primitives import call
from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import I64, U8, Value, divide, room, smaller, traced
from .rows import CALL, CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value

_VALUES = -(-value(MOST_VALUES) // 64) * 64
_BYTES = _VALUES + 4 * ROOM


@traced
def stack() -> tuple[Value, Value]:
    """A walk's values as int64s, temporaries behind them; and their address."""
    values = room(U8, _BYTES, align=64)
    return values.bits(I64), values.address


def make(tier: Tier) -> Callable[..., None]:
    """The walker: its record is CALL."""
    operand_at, read_bytes, size, offset = 8 * len(CHAIN), 8 * len(READ), len(VALUE), value(0) // 8
    step_at, room = 8 * len(STEP), _VALUES

    def chain(args, thread, threads):
        c = fields(args, CALL)
        t = fields(c.table, CHAIN)
        words, values = stack()
        height, width = c.rows, c.columns
        if t.temporaries > 0 and height * width > t.block:
            width = smaller(width, t.block)
            height = divide(t.block, width)
        for i in range(t.temporaries):
            slot = offset + size * (2 + t.operands + i)
            words[slot] = values + room + 4 * t.block * i
            words[slot + 2] = 4
        top = 0
        while top < c.rows:
            count = smaller(height, c.rows - top)
            left = 0
            while left < c.columns:
                n = smaller(width, c.columns - left)
                words[0] = count
                words[1] = n
                words[offset] = c.x + top * c.x_row + 4 * left
                words[offset + 1] = c.x_row
                words[offset + 2] = 4
                words[offset + 3] = c.y + top * c.y_row + t.item * left
                words[offset + 4] = c.y_row
                words[offset + 5] = t.item
                slot = offset + 2 * size
                at = c.table + operand_at
                for _ in range(t.operands):
                    o = fields(at, READ)
                    outer = o.operand_d0 * c.d0 + o.operand_d1 * c.d1 + o.operand_image * c.image
                    inner = o.operand_row * (c.row + top) + o.operand_column * (c.column + left)
                    words[slot] = o.operand + outer + inner
                    words[slot + 1] = o.operand_row
                    words[slot + 2] = o.operand_column
                    slot += size
                    at += read_bytes
                for _ in range(t.temporaries):
                    words[slot + 1] = 4 * n
                    slot += size
                for _ in range(t.steps):
                    call(I64[at], at + step_at, values, 0)
                    at += 8 * I64[at + 8]
                left += n
            top += count

    return chain

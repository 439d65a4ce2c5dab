"""The kernel `chain`: rows x columns of a chain's result, by the steps of its table.

What a step makes for later ones stays in the first-level cache: elements go through all steps in blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.primitives import call
from ..core.record import reader
from ..isa.tiers import Tier
from ..lang import I64, U8, Value, divide, room, smaller, traced
from .rows import CALL, CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value

_VALUES = -(-value(MOST_VALUES) // 64) * 64
_BYTES = _VALUES + 4 * ROOM


@traced
def stack() -> Value:
    """The address of a walk's values, and of its temporaries behind them."""
    return room(U8, _BYTES, align=64).address


def make(tier: Tier) -> Callable[..., None]:
    """The walker: its record is CALL."""
    fields, head, read = reader(CALL), reader(CHAIN), reader(READ)
    operand_at, words, size, offset = 8 * len(CHAIN), 8 * len(READ), len(VALUE), value(0) // 8
    step_at, room = 8 * len(STEP), _VALUES

    def chain(args, thread, threads):
        c = fields(args)
        t = head(c.table)
        values = stack()
        height, width = c.rows, c.columns
        if t.temporaries > 0 and height * width > t.block:
            width = smaller(width, t.block)
            height = divide(t.block, width)
        for i in range(t.temporaries):
            slot = offset + size * (2 + t.operands + i)
            I64[values + 8 * slot] = values + room + 4 * t.block * i
            I64[values + 8 * (slot + 2)] = 4
        top = 0
        while top < c.rows:
            count = smaller(height, c.rows - top)
            left = 0
            while left < c.columns:
                n = smaller(width, c.columns - left)
                I64[values + 8 * 0] = count
                I64[values + 8 * 1] = n
                I64[values + 8 * offset] = c.x + top * c.x_row + 4 * left
                I64[values + 8 * (offset + 1)] = c.x_row
                I64[values + 8 * (offset + 2)] = 4
                I64[values + 8 * (offset + 3)] = c.y + top * c.y_row + t.item * left
                I64[values + 8 * (offset + 4)] = c.y_row
                I64[values + 8 * (offset + 5)] = t.item
                slot = offset + 2 * size
                at = c.table + operand_at
                for _ in range(t.operands):
                    o = read(at)
                    outer = o.operand_d0 * c.d0 + o.operand_d1 * c.d1 + o.operand_image * c.image
                    inner = o.operand_row * (c.row + top) + o.operand_column * (c.column + left)
                    I64[values + 8 * slot] = o.operand + outer + inner
                    I64[values + 8 * (slot + 1)] = o.operand_row
                    I64[values + 8 * (slot + 2)] = o.operand_column
                    slot += size
                    at += words
                for _ in range(t.temporaries):
                    I64[values + 8 * (slot + 1)] = 4 * n
                    slot += size
                for _ in range(t.steps):
                    call(I64[at], at + step_at, values, 0)
                    at += 8 * I64[at + 8]
                left += n
            top += count

    return chain

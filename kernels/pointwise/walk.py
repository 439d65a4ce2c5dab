"""The kernel `chain`: rows x columns of a chain's result, by the steps of its table. Elements go through all steps in
blocks, whose temporaries stay in the first-level cache."""

from __future__ import annotations

from ..core.primitives import call
from ..core.record import fields
from ..lang import I64, U8, Value, divide, every_tier, room, smaller, traced
from .rows import CALL, CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value

_VALUES = -(-value(MOST_VALUES) // 64) * 64
_BYTES = _VALUES + 4 * ROOM
_OPERANDS, _READ, _STEP = 8 * len(CHAIN), 8 * len(READ), 8 * len(STEP)
_FIRST, _SIZE = value(0) // 8, len(VALUE)


@traced
def stack() -> tuple[Value, Value]:
    """A walk's values as int64s, temporaries behind them; and their address."""
    values = room(U8, _BYTES, align=64)
    return values.bits(I64), values.address


@every_tier
def make(args, thread, threads):
    """The walker: its record is CALL."""
    c = fields(args, CALL)
    t = fields(c.table, CHAIN)
    words, values = stack()
    height, width = c.rows, c.columns
    if t.temporaries > 0 and height * width > t.block:
        width = smaller(width, t.block)
        height = divide(t.block, width)
    for i in range(t.temporaries):
        slot = _FIRST + _SIZE * (2 + t.operands + i)
        words[slot] = values + _VALUES + 4 * t.block * i
        words[slot + 2] = 4
    top = 0
    while top < c.rows:
        count = smaller(height, c.rows - top)
        left = 0
        while left < c.columns:
            n = smaller(width, c.columns - left)
            words[0] = count
            words[1] = n
            at = _place(c, t, words, top, left, n)
            for _ in range(t.steps):
                call(I64[at], at + _STEP, values, 0)
                at += 8 * I64[at + 8]
            left += n
        top += count


def _place(c, t, words, top, left, n):
    """Write the values of a block of n columns from a row and column on: the kernel's results, the chain's result, its
    operands and its temporaries. The address of the chain's first step.
    """
    _put(words, _FIRST, c.x + top * c.x_row + 4 * left, c.x_row, 4)
    _put(words, _FIRST + _SIZE, c.y + top * c.y_row + t.item * left, c.y_row, t.item)
    slot = _FIRST + 2 * _SIZE
    at = c.table + _OPERANDS
    for _ in range(t.operands):
        o = fields(at, READ)
        outer = o.operand_d0 * c.d0 + o.operand_d1 * c.d1 + o.operand_image * c.image
        inner = o.operand_row * (c.row + top) + o.operand_column * (c.column + left)
        _put(words, slot, o.operand + outer + inner, o.operand_row, o.operand_column)
        slot += _SIZE
        at += _READ
    for _ in range(t.temporaries):
        words[slot + 1] = 4 * n
        slot += _SIZE
    return at


def _put(words, slot, address, row, column):
    """Write a VALUE."""
    words[slot] = address
    words[slot + 1] = row
    words[slot + 2] = column

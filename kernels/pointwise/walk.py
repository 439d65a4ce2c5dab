"""The kernel `chain`: rows x columns of a chain's result, by the steps of its table.

What a step makes for later ones stays in the first-level cache: elements go through all steps in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.primitives import call, put
from ..core.record import reader
from ..isa.loops import divide, smaller
from ..isa.tiers import Tier
from ..isa.vector import arg, emits
from .epilogue import buffer
from .rows import CALL, CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value

_VALUES = -(-value(MOST_VALUES) // 64) * 64
_BYTES = _VALUES + 4 * ROOM


@emits
def stack(b: Any) -> Any:
    """The address of a walk's values, and of its temporaries behind them."""
    return buffer(b, _BYTES)


def make(tier: Tier) -> Callable[..., None]:
    """The walker: its record is CALL."""
    fields, head, read = reader(CALL), reader(CHAIN), reader(READ)
    operand_at, words, size, offset = 8 * len(CHAIN), 8 * len(READ), len(VALUE), value(0) // 8
    step_at, room = 8 * len(STEP), _VALUES

    def chain(args: int, thread: int, threads: int) -> None:
        c = fields(args)
        t = head(c.table)
        values = stack()
        height, width = c.rows, c.columns
        if t.temporaries > 0 and height * width > t.block:
            width = smaller(width, t.block)
            height = divide(t.block, width)
        for i in range(t.temporaries):
            slot = offset + size * (2 + t.operands + i)
            put(values, slot, values + room + 4 * t.block * i)
            put(values, slot + 2, 4)
        top = 0
        while top < c.rows:
            count = smaller(height, c.rows - top)
            left = 0
            while left < c.columns:
                n = smaller(width, c.columns - left)
                put(values, 0, count)
                put(values, 1, n)
                put(values, offset, c.x + top * c.x_row + 4 * left)
                put(values, offset + 1, c.x_row)
                put(values, offset + 2, 4)
                put(values, offset + 3, c.y + top * c.y_row + t.item * left)
                put(values, offset + 4, c.y_row)
                put(values, offset + 5, t.item)
                slot = offset + 2 * size
                at = c.table + operand_at
                for _ in range(t.operands):
                    o = read(at)
                    outer = o.operand_d0 * c.d0 + o.operand_d1 * c.d1 + o.operand_image * c.image
                    inner = o.operand_row * (c.row + top) + o.operand_column * (c.column + left)
                    put(values, slot, o.operand + outer + inner)
                    put(values, slot + 1, o.operand_row)
                    put(values, slot + 2, o.operand_column)
                    slot += size
                    at += words
                for _ in range(t.temporaries):
                    put(values, slot + 1, 4 * n)
                    slot += size
                for _ in range(t.steps):
                    call(arg(at, 0), at + step_at, values, 0)
                    at += 8 * arg(at, 1)
                left += n
            top += count

    return chain

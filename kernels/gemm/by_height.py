"""One body of code for each height of a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..lang import I64, Value, builder
from ..lang.blocks import Block, goto, here

Found = tuple[Block, int, list[Value]]
"""The block that the body of a height ends with, which goes nowhere yet; the height; and what the body gave."""


def by_height(
    height: Value, heights: Iterable[int], body: Callable[[int], list[Value] | None]
) -> tuple[list[Found], Block]:
    """Write body(rows) for each height, and jump to that of the height at hand: the results of the bodies, and the
    block behind them. A body without results goes there itself.
    """
    found, done = [], Block("done")
    jump = builder().switch(height.x, done.block)
    for rows in heights:
        block = Block(f"rows{rows}")
        jump.add_case(I64.llvm(rows), block.block)
        block.write()
        if (results := body(rows)) is None:
            goto(done)
        else:
            found.append((here(), rows, results))
    done.write()
    return found, done

"""Blocks of code that several others go on to, for what is neither loop nor branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .types import Type
from .values import Value, builder


class Block:
    """A block of the kernel's code. Each that goes on to it hands it values of these types: there they are `values`."""

    def __init__(self, name: str, types: Sequence[Type] = ()) -> None:
        b = builder()
        self.block = b.append_basic_block(name)
        inside = type(b)(self.block)
        self.values = [Value(inside.phi(kind.llvm), kind) for kind in types]

    def write(self) -> list[Value]:
        """Have what follows go into this block; its values."""
        builder().position_at_end(self.block)
        return self.values

    def _handed(self, values: Sequence[Value]) -> Any:
        for own, value in zip(self.values, values, strict=True):
            own.x.add_incoming(value.x, builder().block)
        return self.block


def here() -> Block:
    """The block that is being written, to go on with later."""
    found = Block.__new__(Block)
    found.block, found.values = builder().block, []
    return found


def goto(block: Block, values: Sequence[Value] = ()) -> None:
    """Go on in a block, with values for it."""
    builder().branch(block._handed(values))


def branch(condition: Value, yes: Block, no: Block, values: Sequence[Value] = ()) -> Any:
    """Go on in one of two blocks, of which those that take values get these; LLVM's instruction."""
    targets = (each._handed(values if each.values else ()) for each in (yes, no))
    return builder().cbranch(condition.x, *targets)


def switch(value: Value, blocks: Mapping[int, Block], otherwise: Block, values: Sequence[Value] = ()) -> None:
    """Go on in the block of the case that a number is, or in another; they all get these values."""
    jump = builder().switch(value.x, otherwise._handed(values))
    for case, block in blocks.items():
        jump.add_case(value.type.llvm(case), block._handed(values))

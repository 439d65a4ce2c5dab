"""Ranges of walked chains: their tables are followed, and with them all operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ...kernels.core.kernel import Kernel
from ...kernels.core.record import Record
from ...kernels.pointwise.rows import CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value
from ...kernels.pointwise.steps import NUMBER, STEPS
from ..program import Table
from .call import SIZES, Call, Loop, Numbers, Reach, count, need, read

LOOPS = "d0", "d1", "image", "row"
X, Y, FIRST = 0, 1, 2


def walked(
    c: Call, dims: Sequence[int], run: int, *columns: Loop, start: int = 0, here: bool = True, x: bool = True,
    item: int = 4,
) -> Iterator[Reach]:  # fmt: skip
    """The reads of the chain in the slots WALK. extents: of its loops; of f32, `run` bytes at `start` and all of
    `columns` offsets. x: whether it has a value 0; item: bytes of an element of y."""
    walk, held = c.slots["walk"], c.slots["table"]
    if not isinstance(walk, Kernel):
        need(walk == 0 and held == 0, f"walk is {walk} and table {held}, expected the kernel `chain`, or 0 twice")
        return
    need(walk == Kernel("chain"), f"walk is {walk}, expected the kernel `chain`")
    need(isinstance(held, Table), f"table is {held}, expected a table")
    words = iter(held.words)
    head = Numbers(_named(CHAIN, words))
    sizes = [head.operands, head.steps, head.temporaries, head.block]
    need(min(sizes) >= 0 and head.block * head.temporaries <= ROOM and head.steps > 0, f"a table begins with {sizes}")
    need(head.temporaries == 0 or head.block > 0, "a table has blocks of nothing")
    values = FIRST + head.operands + head.temporaries
    need(values <= MOST_VALUES, f"a table has {values} values")
    need(head.item == item, f"a table makes elements of {head.item} bytes, expected {item}")
    operands = [_named(READ, words, i) for i in range(head.operands)]
    steps = _Steps(head.operands, values, item, {X} if x else set())
    for i in range(head.steps):
        steps.follow(words, last=i == head.steps - 1)
    need(next(words, None) is None, "a table has words too many")
    for i, slots in enumerate(operands):
        c.slots.update(slots)
        size, row = steps.sizes.get(FIRST + i, 0), _Row(run, columns, start, steps.over(c, FIRST + i))
        yield _operand(Numbers(slots), i, size, dims, row, here and size == item)


def _named(record: Record, words: Iterator[Any], number: int | None = None) -> dict[str, Any]:
    found = list(islice(words, len(record)))
    need(len(found) == len(record), "a table ends too early")
    return {name if number is None else f"{name}{number}": word for name, word in zip(record, found, strict=True)}


class _Row(NamedTuple):
    """A row of f32: `run` bytes at `start` and all of `columns` offsets; `over`: bytes that are read behind it."""

    run: int
    columns: Sequence[Loop]
    start: int
    over: int


def _operand(r: Numbers, i: int, size: int, dims: Sequence[int], row: _Row, here: bool) -> Reach:
    """The range of an operand with elements of `size` bytes: one number for each row, or as many as y has."""
    slot, column = f"operand{i}", getattr(r, f"operand_column{i}")
    need(column in (0, size), f"operand_column{i} is {column}, of elements of {size} bytes")
    loops = [(n, getattr(r, f"operand_{loop}{i}")) for n, loop in zip(dims, LOOPS, strict=True)]
    if column:
        need(size == 4 or not row.columns and not row.start, f"{slot} has elements of {size} bytes")
        return read(slot, row.run // 4 * size, *loops, *row.columns, start=row.start, over=row.over, here=here)
    empty = row.run <= 0 or any(count(loop) <= 0 for loop in row.columns)
    return read(slot, 0 if empty else size, *loops, here=here)


@dataclass
class _Steps:
    """The steps of a table. `made`: values computed so far; `sizes` and `narrow`: how operands are read."""

    operands: int
    values: int
    item: int
    made: set[int]
    sizes: dict[int, int] = field(default_factory=dict)
    narrow: dict[int, str] = field(default_factory=dict)

    def follow(self, words: Iterator[Any], last: bool) -> None:
        """Misfit unless the next step's operands exist, and its result, if it is the last step, is y."""
        kernel, size = (*islice(words, len(STEP)), None, None)[:2]
        need(isinstance(kernel, Kernel) and kernel.name == "vector_op", f"a step of a table is {kernel}")
        step = STEPS[dict(kernel.params)["op"]]
        need(size == len(STEP) + 1 + step.arity, f"a step of a table, {kernel}, has {size} words")
        named = [self._number(word) for word in islice(words, 1 + step.arity)]
        need(len(named) == 1 + step.arity, "a table ends too early")
        temporaries = range(FIRST + self.operands, self.values)
        need(named[0] == Y if last else named[0] in temporaries, f"a step of a table makes value {named[0]}")
        need(SIZES[step.out] == (self.item if last else 4), f"a step of a table, {kernel}, makes {step.out}")
        kinds = [*step.elements, *[NUMBER] * (step.arity - len(step.elements))]
        for place, kind in zip(named[1:], kinds, strict=True):
            self._takes(place, "f32" if kind == NUMBER else kind)
        self.made.add(named[0])

    def _takes(self, place: int, kind: str) -> None:
        if FIRST <= place < FIRST + self.operands:
            known = self.sizes.setdefault(place, SIZES[kind])
            need(
                known == SIZES[kind], f"value {place} of a table is read as elements of {known} and {SIZES[kind]} bytes"
            )
            if kind not in ("f32", "bf16"):  # which are read under masks
                self.narrow[place] = kind
        else:
            need(place in self.made, f"value {place} of a table is not made before it is taken")
            need(kind == "f32", f"value {place} of a table is f32, and taken as {kind}")

    def _number(self, word: Any) -> int:
        number, rest = divmod(word - value(0), 8 * len(VALUE)) if isinstance(word, int) else (-1, 0)
        need(rest == 0 and 0 <= number < self.values, f"a step of a table takes {word}")
        return number

    def over(self, c: Call, place: int) -> int:
        """Bytes that are read behind an operand's rows: of four vectors of bytes, or of one vector."""
        kind = self.narrow.get(place)
        if kind is None:
            return 0
        return (4 * c.lanes if SIZES[kind] == 1 else c.lanes * SIZES[kind]) - SIZES[kind]

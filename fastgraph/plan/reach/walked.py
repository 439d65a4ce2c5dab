"""What the chains reach that kernels end with: tables are followed, and every operand in them is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ...kernels.core.kernel import Kernel
from ...kernels.core.record import Record
from ...kernels.pointwise.rows import CHAIN, MOST_VALUES, READ, ROOM, STEP, VALUE, value
from ...kernels.pointwise.steps import arity
from ..program import Ref, Table
from .call import Call, Loop, Numbers, Reach, count, need, read

LOOPS = "d0", "d1", "image", "row"


def epilogue(
    c: Call, images: int, rows: int, run: int, *columns: Loop, start: int = 0, over: int = 0, here: bool = True
) -> Iterator[Reach]:
    """What is read for the slots EPILOGUE of a record: at each image and row, `run` bytes of f32 at `start` and all of
    `columns` offsets, as they would be of f32 beside one another. over, here: as of Reach, of what is f32.
    """
    r = c.record(numbers="low high addend_image addend_row")
    if isinstance(c.slots["addend"], Ref):
        loops = (images, 4 * r.addend_image), *columns, (rows, 4 * r.addend_row)
        yield read("addend", run, *loops, start=start, over=over, here=here)
    else:
        need(c.slots["addend"] == 0, f"addend is {c.slots['addend']}, expected an address or 0")
    yield from walked(c, (1, 1, images, rows), run, *columns, start=start, here=here)


def walked(
    c: Call, dims: Sequence[int], run: int, *columns: Loop, start: int = 0, here: bool = True, x: bool = True
) -> Iterator[Reach]:
    """What the chain of the slots WALK reads: extents of its loops, then as `epilogue`. x: whether it has a value 0."""
    walk, table = c.slots["walk"], c.slots["table"]
    if not isinstance(walk, Kernel):
        need(walk == 0 and table == 0, f"walk is {walk} and table {table}, expected the kernel `chain`, or 0 twice")
        return
    need(walk == Kernel("chain"), f"walk is {walk}, expected the kernel `chain`")
    need(isinstance(table, Table), f"table is {table}, expected a table")
    words = iter(table.words)
    head = Numbers(_named(CHAIN, words))
    sizes = [head.operands, head.steps, head.temporaries, head.block]
    need(min(sizes) >= 0 and head.block * head.temporaries <= ROOM and head.steps > 0, f"a table begins with {sizes}")
    values = 2 + head.operands + head.temporaries
    need(values <= MOST_VALUES, f"a table has {values} values")
    need(head.temporaries == 0 or head.block > 0, "a table has blocks of nothing")
    for i in range(head.operands):
        slots = _named(READ, words, i)
        c.slots.update(slots)
        yield _operand(Numbers(slots), i, dims, run, columns, start, here and head.item == 4)
    _steps(words, head, values, x)


def _named(record: Record, words: Iterator[Any], number: int | None = None) -> dict[str, Any]:
    found = list(islice(words, len(record)))
    need(len(found) == len(record), "a table ends too early")
    return {name if number is None else f"{name}{number}": word for name, word in zip(record, found, strict=True)}


def _operand(
    r: Numbers, i: int, dims: Sequence[int], run: int, columns: Sequence[Loop], start: int, here: bool
) -> Reach:
    """An operand of f32, or a number for each row."""
    slot = f"operand{i}"
    column = getattr(r, f"operand_column{i}")
    need(column in (0, 4), f"operand_column{i} is {column}")
    loops = [(n, getattr(r, f"operand_{loop}{i}")) for n, loop in zip(dims, LOOPS, strict=True)]
    if column:
        return read(slot, run, *loops, *columns, start=start, here=here)
    empty = run <= 0 or any(count(loop) <= 0 for loop in columns)
    return read(slot, 0 if empty else 4, *loops, here=here)


def _steps(words: Iterator[Any], head: Numbers, values: int, x: bool) -> None:
    """Misfit unless each step takes what is there, and the last one makes the result."""
    made = {0, *range(2, 2 + head.operands)} if x else set(range(2, 2 + head.operands))
    for i in range(head.steps):
        kernel, size = islice(words, len(STEP))
        need(isinstance(kernel, Kernel) and kernel.name == "vector_op", f"step {i} of a table is {kernel}")
        taken = arity(dict(kernel.params)["op"])
        need(size == len(STEP) + 1 + taken, f"step {i} of a table has {size} words")
        result, *operands = (_number(word, values) for word in islice(words, 1 + taken))
        need(made.issuperset(operands), f"step {i} of a table takes values {operands}, of which some are not made")
        last = i == head.steps - 1
        place = {1} if last else set(range(2 + head.operands, values))
        need(result in place, f"step {i} of a table makes value {result}")
        made.add(result)
    need(next(words, None) is None, "a table has words too many")


def _number(word: Any, values: int) -> int:
    number, rest = divmod(word - value(0), 8 * len(VALUE)) if isinstance(word, int) else (-1, 0)
    need(rest == 0 and 0 <= number < values, f"a step of a table takes {word}")
    return number

"""What elementwise kernels reach, tables, casts, and those that go along an axis: softmax, reductions."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.pointwise.rows import OPERAND, ROUNDING, TABLE
from .call import Call, Loop, Reach, need, reaches, read, short, write
from .moves import SIZES

BYTES = ("u8", "s8", "bool")


def _loops(c: Call) -> tuple[list[Loop], int]:
    dims = c.counts("d0 d1 d2 rows")
    return [(n, step) for n, step in zip(dims, c.numbers("y_d0 y_d1 y_d2 y_row"), strict=True)], c.count("cols")


def _scaled(loops: list[Loop], steps: list[int], size: int) -> list[Loop]:
    return [(loop[0], size * step) for loop, step in zip(loops, steps, strict=True)]


def _over_rows(c: Call, out: int, inputs: list[tuple[str, int, int]]) -> Iterator[Reach]:
    """y of elements of `out` bytes, then inputs: (kind, bytes of an element, elements over the end of a row)."""
    loops, cols = _loops(c)
    for i, (kind, size, over) in enumerate(inputs):
        c.more(*(f"x{i}" if slot == "x" else f"x{i}_{slot}" for slot in OPERAND))
        steps = _scaled(loops, c.numbers(f"x{i}_d0 x{i}_d1 x{i}_d2 x{i}_row"), size)
        vector = kind == "vector"
        run = size * cols if vector or not cols else size
        yield read(f"x{i}", run, *steps, over=over * size if vector else 0, here=size == out)
    yield write("y", out * cols, *_scaled(loops, [step for _, step in loops], out))  # type: ignore[misc]


@reaches("elementwise")
def elementwise(c: Call) -> Iterator[Reach]:
    yield from _over_rows(c, 4, [(kind, 4, 0) for kind in c.params["kinds"]])


def _covered(c: Call, cols: int, wide: bool) -> int:
    """Elements that a loop over whole vectors touches behind the end: more than a vector is a block of four if wide."""
    rest = cols % (4 * c.lanes)
    return 4 * c.lanes - rest if wide and rest > c.lanes else short(rest, c.lanes)


@reaches("elementwise_stored")
def elementwise_stored(c: Call) -> Iterator[Reach]:
    kinds = [kind.split(":") for kind in c.params["kinds"] if kind != "number"]
    wide = c.lanes == 16 and all(element in (*BYTES, "f32") for _, element in kinds)
    over = _covered(c, c.count("cols"), wide)
    inputs = [(kind, SIZES[element], 0 if element == "f32" else over) for kind, element in kinds]
    yield from _over_rows(c, SIZES[c.params["out"]], inputs)
    c.more(*(f"number{i}" for i in range(c.params["kinds"].count("number"))), *ROUNDING)


@reaches("table")
def table(c: Call) -> Iterator[Reach]:
    index, value = c.params["index"], c.params["value"]
    vectors = index in BYTES and value in BYTES and c.lanes > 4
    over = short(c.count("cols"), 4 * c.lanes) if vectors else 0
    yield from _over_rows(c, SIZES[value], [("vector", SIZES[index], over)])
    c.more(*TABLE)
    yield read("table", SIZES[value] << 8 * SIZES[index])


@reaches("flip")
def flip(c: Call) -> Iterator[Reach]:
    yield from _over_rows(c, 1, [("vector", 1, _covered(c, c.count("cols"), c.lanes == 16))])


@reaches("cast")
def cast(c: Call) -> Iterator[Reach]:
    yield from _over_rows(c, SIZES[c.params["target"]], [("vector", SIZES[c.params["source"]], 0)])


def _axis(c: Call, least: int = 0) -> tuple[int, int, int]:
    outer, n, inner = c.count("outer"), c.count("n", least), c.count("inner")
    need(inner == 1 or not c.params["last"], f"inner is {inner}, expected 1 where the axis is the last")
    return outer, n, inner


@reaches("softmax")
def softmax(c: Call) -> Iterator[Reach]:
    outer, n, inner = _axis(c)
    yield read("x", 4 * outer * n * inner, here=True)
    yield write("y", 4 * outer * n * inner)


@reaches("reduce", "reduce_bytes")
def reduce(c: Call) -> Iterator[Reach]:
    outer, n, inner = _axis(c)
    bytewise = "element" in c.params
    size, line = (1, c.vector) if bytewise else (4, 1)
    need(n > 0 or not bytewise, "n is 0, expected 1 or more")
    run = n if c.params["last"] else inner
    yield read("x", size * outer * n * inner, over=short(run, line))
    yield write("y", size * outer * inner)


@reaches("arg_extreme")
def arg_extreme(c: Call) -> Iterator[Reach]:
    outer, n, inner = _axis(c, least=1)
    run = n if c.params["last"] else inner
    over = 0 if c.params["element"] == "f32" else short(run, c.lanes)
    yield read("x", SIZES[c.params["element"]] * outer * n * inner, over=over)
    yield write("y", 8 * outer * inner)

"""What elementwise kernels reach, tables, casts, and those that go along an axis: softmax, reductions."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.core.kernel import Kernel
from ...kernels.pointwise.exact_names import ELEMENTS, arity, is_truth, operations
from ...kernels.pointwise.rows import CAST, OPERAND, RUNS, TABLE, TARGETS
from .call import Call, Reach, need, reaches, read, short, write
from .walked import walked

BYTES = ("u8", "s8", "bool")


def _over_rows(c: Call, out: int, inputs: list[tuple[str, int, int]]) -> Iterator[Reach]:
    """y of elements of `out` bytes, then inputs: (kind, bytes of an element, elements over the end of a row)."""
    r = c.record("d0 d1 d2 rows cols")
    dims = {"d0": r.d0, "d1": r.d1, "d2": r.d2, "row": r.rows}

    def loops(name: str, size: int) -> list[tuple[int, int]]:
        return [(n, size * getattr(r, f"{name}_{step}")) for step, n in dims.items()]

    for i, (kind, size, over) in enumerate(inputs):
        name, vector = f"x{i}", kind == "vector"
        c.more(*(name if slot == "x" else f"{name}_{slot}" for slot in OPERAND))
        run = size * r.cols if vector or not r.cols else size
        yield read(name, run, *loops(name, size), over=over * size if vector else 0, here=size == out)
    yield write("y", out * r.cols, *loops("y", out))


@reaches("elementwise")
def elementwise(c: Call) -> Iterator[Reach]:
    r = c.record("d0 d1 d2 rows cols", "item")
    need(isinstance(c.slots["walk"], Kernel), "walk is 0, expected the kernel `chain`")
    yield from walked(c, (r.d0, r.d1, r.d2, r.rows), 4 * r.cols, x=False, item=r.item)
    yield from _over_rows(c, r.item, [])


def _covered(c: Call, cols: int, wide: bool) -> int:
    """Elements that a walk by whole vectors touches behind the end: more than a vector is a block of four if wide."""
    rest = cols % (4 * c.lanes)
    return 4 * c.lanes - rest if wide and rest > c.lanes else short(rest, c.lanes)


@reaches("table")
def table(c: Call) -> Iterator[Reach]:
    index, value = c.params["index"], c.params["value"]
    vectors = index == value == 1 and c.tier.byte_shuffle
    over = short(c.record("cols").cols, 4 * c.lanes) if vectors else 0
    yield from _over_rows(c, value, [("vector", index, over)])
    c.more(*TABLE)
    yield read("table", value << 8 * index)


@reaches("flip")
def flip(c: Call) -> Iterator[Reach]:
    yield from _over_rows(c, 1, [("vector", 1, _covered(c, c.record("cols").cols, c.tier.masks))])


@reaches("cast")
def cast(c: Call) -> Iterator[Reach]:
    at = len(c.slots) + len(OPERAND) + list(CAST).index("target")
    number = c.step.args[at] if at < len(c.step.args) else -1
    kind = dict(enumerate(TARGETS)).get(number if isinstance(number, int) else -1, "")
    need(kind != "", f"target is {number}, expected a place in TARGETS")
    source, target = (1 if each == "bool" else int(each[1:]) // 8 for each in (c.params["source"], kind))
    yield from _over_rows(c, target, [("vector", source, 0)])
    c.more(*CAST)


@reaches("exact")
def exact(c: Call) -> Iterator[Reach]:
    r = c.record("d0 d1 d2 rows cols", "item")
    element = c.params["element"]
    size, names = ELEMENTS[element], operations(element)
    need(0 <= r.operation < len(names), f"operation is {r.operation}, expected one of {len(names)}")
    name = names[r.operation]
    need(r.item == (1 if is_truth(name) else size), f"item is {r.item} of a result of {name}")
    used = {"a": size, "b": size if arity(name) > 1 else 0, "c": 1 if name == "where" else 0}
    for slot, width in used.items():
        steps = {dim: getattr(r, f"{slot}_{dim}") for dim in ("d0", "d1", "d2", "row", "column")}
        need(steps["column"] in (0, width), f"{slot}_column is {steps['column']}, expected {width} or 0")
        if width == 0:
            need(c.slots[slot] == 0 and not any(steps.values()), f"{slot} is no operand of {name}")
            continue
        dims = [(n, steps[dim]) for n, dim in ((r.d0, "d0"), (r.d1, "d1"), (r.d2, "d2"), (r.rows, "row"))]
        yield read(slot, width * (r.cols if steps["column"] else min(r.cols, 1)), *dims, here=width == r.item)
    dims = [(n, r.item * step) for n, step in ((r.d0, r.y_d0), (r.d1, r.y_d1), (r.d2, r.y_d2), (r.rows, r.y_row))]
    yield write("y", r.item * r.cols, *dims)


@reaches("product")
def product(c: Call) -> Iterator[Reach]:
    r, size = c.record("m k n batch"), ELEMENTS[c.params["element"]]
    batch = r.batch if r.m and r.n else 0
    yield read("a", size * r.m * r.k, (batch, r.a_batch))
    yield read("b", size * r.k * r.n, (batch, r.b_batch))
    yield write("y", size * r.batch * r.m * r.n)


@reaches("softmax")
def softmax(c: Call) -> Iterator[Reach]:
    r = c.record("outer n inner")
    yield read("x", 4 * r.outer * r.n * r.inner, here=True)
    yield write("y", 4 * r.outer * r.n * r.inner)


@reaches("norm")
def norm(c: Call) -> Iterator[Reach]:
    r = c.record("rows", "n")
    used = 4 * r.n * int(r.rows > 0)
    yield read("x", used, (r.rows, r.x_row), here=True)
    yield read("scale", used)
    if c.slots["bias"] != 0:
        yield read("bias", used)
    yield write("y", used, (r.rows, r.y_row))


@reaches("running")
def running(c: Call) -> Iterator[Reach]:
    r, size = c.record("outer inner", "n"), ELEMENTS[c.params["element"]]
    need(0 <= r.operation < len(RUNS), f"operation is {r.operation}, expected one of {len(RUNS)}")
    yield read("x", size * r.outer * r.n * r.inner, here=True)
    yield write("y", size * r.outer * r.n * r.inner)


@reaches("reduce")
def reduce(c: Call) -> Iterator[Reach]:
    r, element = c.record("outer n inner"), c.params["element"]
    if element == "f32":
        yield from walked(c, (1, 1, 1, r.outer), 4 * r.inner)
    over = short(r.n if r.inner == 1 else r.inner, c.vector) if element == "i8" else 0
    yield read("x", ELEMENTS[element] * r.outer * r.n * r.inner, over=over)
    yield write("y", ELEMENTS[element] * r.outer * r.inner)


@reaches("arg_extreme")
def arg_extreme(c: Call) -> Iterator[Reach]:
    r, element = c.record("outer inner", "n"), c.params["element"]
    need(r.least in (0, 1) and r.signed in (0, 1), f"least is {r.least} and signed {r.signed}")
    over = (short(r.n, c.vector) if r.inner == 1 else short(r.inner, c.lanes)) if element == "i8" else 0
    yield read("x", ELEMENTS[element] * r.outer * r.n * r.inner, over=over)
    yield write("y", 8 * r.outer * r.inner)


@reaches("random")
def random(c: Call) -> Iterator[Reach]:
    r = c.record("blocks")
    need(r.threefry in (0, 1) and r.fresh in (0, 1), f"threefry {r.threefry}, fresh {r.fresh}")
    for name in ("key", "high", "counter"):
        yield read(name, 8)
    yield write("y", (8 if r.threefry else 16) * r.blocks)

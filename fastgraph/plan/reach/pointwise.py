"""Ranges of elementwise kernels whose operands are given by a table or by an operation."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.core.kernel import Kernel
from ...kernels.pointwise.exact_names import ELEMENTS, arity, is_truth, operations
from .call import Call, Reach, need, reaches, read
from .walked import walked


@reaches("elementwise")
def elementwise(c: Call) -> Iterator[Reach]:
    r = c.record()
    need(isinstance(c.slots["walk"], Kernel), "walk is 0, expected the kernel `chain`")
    yield from walked(c, (r.d0, r.d1, r.d2, r.rows), 4 * r.cols, x=False, item=r.item)


@reaches("exact")
def exact(c: Call) -> Iterator[Reach]:
    r = c.record()
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

"""The slots EPILOGUE of a record, from the chain that the node ends with."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan
from typing import NamedTuple, cast

import numpy as np

from ...freedoms import free
from ...ir import Node, Value
from ...kernels.pointwise.chain import Chain
from ...kernels.pointwise.rows import FORMS, LONG_FORMS, NO_EPILOGUE
from ..layer import chain_of, extra_values
from ..program import Ref
from .moves import emit_copy
from .registry import Emit, Slot, last, row_count
from .walk import Read, f32_bits, table, walker


class Ending(NamedTuple):
    """form(sum + addend), where `form` is one of FORMS or LONG_FORMS and addend a value of the chain or a number."""

    addend: int | float | None = None
    low: float = -inf
    high: float = inf
    form: str = "clip"


def ending(chain: Chain, operands: int) -> Ending | None:
    """A chain over the sum and `operands` others as an Ending, where EPILOGUE needs no table; else None."""
    found = _formed(chain, operands)
    if found is not None:
        return found
    addend: int | float | None = None
    low, high, x = -inf, inf, 0
    for i, (name, *rest) in enumerate(chain):
        taken = cast("list[int | float]", rest)
        others = [o for o in taken if isinstance(o, float) or o != x]
        if len(others) != len(taken) - 1:
            return None
        if name == "add" and i == 0:
            addend = others[0]
        elif name not in ("relu", "min", "max", "clip") or any(isinstance(o, int) or isnan(o) for o in others):
            return None
        elif name == "clip" and taken[0] != x:
            return None
        # Of bounds that compare as equal the first one stays, as it does in steps.
        if name in ("relu", "max", "clip"):
            least = 0.0 if name == "relu" else float(others[0])
            low, high = max(low, least), max(high, least)
        if name in ("min", "clip"):
            low, high = min(low, float(others[-1])), min(high, float(others[-1]))
        x = operands + 1 + i
    return Ending(addend, low, high)


def _formed(chain: Chain, operands: int) -> Ending | None:
    """The Ending of a chain whose form is not clip."""
    gate = operands + 1
    match chain:
        case (("leaky_relu", 0, float(slope)),):
            return Ending(None, slope, 0.0, "leaky_relu")
        case (("swish", 0, float(alpha)),):
            return Ending(None, alpha, 0.0, "swish")
        case (("gelu" | "gelu_tanh" as name, 0),):
            return Ending(None, form=name)
        case (("sigmoid", 0), ("mul", x, y)) if {x, y} == {0, gate}:
            return Ending(None, form="sigmoid_mul")
        case (("hard_swish", 0),):
            return Ending(None, 1 / 6, 0.5, "hard_sigmoid_mul")
        case (("hard_sigmoid", 0, float(slope), float(shift)), ("mul", x, y)) if {x, y} == {0, gate}:
            return Ending(None, slope, shift, "hard_sigmoid_mul")
    return None


def epilogue(
    e: Emit, node: Node, row: int = 0, images: int | None = None, in_place: bool = False, long: bool = False
) -> dict[str, Slot]:
    """The slots of EPILOGUE for a kernel that makes a node's result from its row `row` on.

    images: how many equal parts the kernel divides the rows of the result into; those of the result when None.
    in_place: sums lie in the result's place while a chain is walked, so that its operands may not. long: it has
    LONG_FORMS.
    """
    if node not in e.endings:
        chain, kinds = chain_of(node)
        e.endings[node] = chain, kinds, ending(chain, len(kinds))
    chain, kinds, found = e.endings[node]
    reads = _extras(e, node, kinds, row, images)
    if found is not None and isinstance(found.addend, int) and kinds[found.addend - 1] == "scalar":
        found = None
    if found is not None and found.form in LONG_FORMS and not long:
        found = None
    if found is None:
        if in_place:
            reads = [_unshared(e, node, r, value) for r, value in zip(reads, extra_values(node), strict=True)]
        operands = [
            Read(r.address, image=4 * r.per_image, row=4 * r.per_row, column=0 if kind == "scalar" else 4)
            for r, kind in zip(reads, kinds, strict=True)
        ]
        return {**NO_EPILOGUE, "walk": walker(e), "table": table(e, chain, [None, *operands])}
    form = (*FORMS, *LONG_FORMS).index(found.form)
    numbers = {"form": form, "low": f32_bits(found.low), "high": f32_bits(found.high)}
    slots: dict[str, Slot] = {**NO_EPILOGUE, **numbers}
    if isinstance(found.addend, int):
        r = reads[found.addend - 1]
        return {**slots, "addend": r.address, "addend_image": r.per_image, "addend_row": r.per_row}
    if isinstance(found.addend, float):
        slots["addend"] = e.packed(_repeated, found.addend, last(node.out))
    return slots


def addend_item(node: Node) -> int:
    """Bytes of an element of what a layer adds first."""
    chain, kinds = chain_of(node)
    found = ending(chain, len(kinds))
    at = None if found is None else found.addend
    return extra_values(node)[at - 1].type.itemsize if isinstance(at, int) else 4


def product_ending(e: Emit, node: Node, row: int = 0, images: int | None = None, long: bool = False) -> dict[str, Slot]:
    """As `epilogue`, with the slot `later` of products: where tiles are small a chain is walked over many, unless
    an operand of it lies where the sums do until then.
    """
    slots = epilogue(e, node, row, images, long=long)
    shared = (e.address(value).base is e.address(node.out).base for value in extra_values(node))
    many = e.tier.registers < 32 and free("later") and not any(shared)
    return {**slots, "later": int(slots["walk"] != 0 and many)}


def _repeated(number: float, count: int) -> np.ndarray:
    return np.full(count, number, np.float32)


def _unshared(e: Emit, node: Node, extra: _Extra, value: Value) -> _Extra:
    """The operand, or a copy of it where it shares memory with the node's result."""
    if extra.address.base is not e.address(node.out).base:
        return extra
    dims, step = value.type.dims, e.stride(value)
    copy = e.scratch(4 * row_count(value) * step)
    strides = e.strides(value)
    emit_copy(e, dims, 4, (e.address(value), strides), (copy, strides))
    return extra._replace(address=Ref(copy.base, extra.address.offset - e.address(value).offset))


class _Extra(NamedTuple):
    """Where an operand is read: the address of its first row, elements from image to image and from row to row."""

    address: Ref
    per_image: int
    per_row: int


def operand_rows(e: Emit, node: Node, row: int) -> list[Ref]:
    """Where the operands of a layer's chain are read for the rows of its result from `row` on."""
    if node.op not in ("conv", "dense"):
        return []
    return [extra.address for extra in _extras(e, node, chain_of(node)[1], row, None)]


def _extras(e: Emit, node: Node, kinds: Sequence[str], row: int, images: int | None) -> list[_Extra]:
    """The operands of a node's chain, which broadcast as `kinds` say, as of `epilogue`."""
    dims = node.out.type.dims
    count = images or max(dims[0] if len(dims) > 1 else 1, 1)
    found = []
    for value, kind in zip(extra_values(node), kinds, strict=True):
        stride = e.stride(value)
        per_row = stride if kind == "full" else 0
        per_image = {"full": stride * row_count(node.out) // count, "image": stride}.get(kind, 0)
        found.append(_Extra(e.address(value, value.type.itemsize * per_row * row), per_image, per_row))
    return found

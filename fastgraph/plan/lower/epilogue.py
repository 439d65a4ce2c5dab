"""How a kernel ends: the slots EPILOGUE of its record, made of the chain that its node ends with."""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

import numpy as np

from ...ir import Node
from ...kernels.pointwise.chain import EXTRA, Chain
from ...kernels.pointwise.rows import NO_EPILOGUE
from ..program import Ref
from .extras import chain_of, extra_slots
from .registry import Arg, Emit, last
from .walk import Read, f32_bits, table, walker


class Ending(NamedTuple):
    """clip(sum + addend, low, high); the addend is a value of the chain or a number."""

    addend: int | float | None = None
    low: float = -inf
    high: float = inf


def ending(chain: Chain, operands: int) -> Ending | None:
    """A chain over a sum and `operands` more as EPILOGUE says it without a table, if that can."""
    addend: int | float | None = None
    low, high, x = -inf, inf, 0
    for i, (name, *taken) in enumerate(chain):
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


def epilogue(e: Emit, node: Node, row: int = 0, images: int | None = None) -> dict[str, Arg]:
    """The slots of EPILOGUE for a kernel that makes a node's result from its row `row` on.

    images: how many equal parts the kernel divides the rows of the result into; those of the result when None.
    """
    chain, kinds = chain_of(node)
    extras = extra_slots(e, node, row, images)
    reads = [_Extra(*extras[i : i + len(EXTRA)]) for i in range(0, len(extras), len(EXTRA))]  # type: ignore[arg-type]
    found = ending(chain, len(kinds))
    if found is not None and isinstance(found.addend, int) and kinds[found.addend - 1] == "scalar":
        found = None
    if found is None:
        operands = [
            Read(r.address, image=4 * r.per_image, row=4 * r.per_row, column=0 if kind == "scalar" else 4)
            for r, kind in zip(reads, kinds, strict=True)
        ]
        return {**NO_EPILOGUE, "walk": walker(e), "table": table(e, chain, [None, *operands])}
    slots: dict[str, Arg] = {**NO_EPILOGUE, "low": f32_bits(found.low), "high": f32_bits(found.high)}
    if isinstance(found.addend, int):
        r = reads[found.addend - 1]
        return {**slots, "addend": r.address, "addend_image": r.per_image, "addend_row": r.per_row}
    if isinstance(found.addend, float):
        number, n = np.float32(found.addend), last(node.out)
        slots["addend"] = e.packed(("channels", n, number.tobytes()), lambda: np.full(n, number))
    return slots


class _Extra(NamedTuple):
    """Of an operand: EXTRA."""

    address: Ref
    per_image: int
    per_row: int

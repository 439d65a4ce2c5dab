"""How much work steps are, for the choice of runs that are worth waking a team: multiply-adds of f32 that take as long.

Fitted to the times of steps on one thread of a CPU with AVX-512 and AMX: of 160 layers of the sweep and 60 networks,
half are within a seventh of what is counted, a seventh is off by more than a factor of 1.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Value
from ..kernels.core.table import row
from ..plan.describe import macs, unit
from ..plan.program import Jump, Step, UserKernel
from .pool import WORTH_LOOKING

FASTER = {
    "tiles": 6.0, "f16 tiles": 6.0, "tiles of two parts": 2.5, "tiles of three parts": 1.3, "byte tiles": 6.5,
    "bytes": 2.0,
    "attention_tiles": 2.5, "attention": 0.7, "winograd": 1.5, "grouped": 0.7, "depthwise_any": 0.75,
    "depthwise_int8": 1.2, "depthwise_int8_window": 0.85,
}  # fmt: skip
"""Products of a kernel, or else of a unit (`describe.unit`), in the time of one of f32."""
MOVED, STORED = 4, 1
"""What a byte counts of the larger of what a step reads and writes, if it is no product, and one that a product
stores."""
COPY = "copy"
"""The kernel of steps that count nothing: how much they copy, which is often a few rows, is not known of them."""
LANES = 16
"""Output channels that are computed together: fewer take as long."""
KEPT = 5 << 18
"""Bytes of a program's weights up to which they stay in a core's cache (of 2 MiB) from run to run."""
NEAR, FAR = 1, 3
"""Units for a byte of weights in that cache, and for one from memory; weights of bf16 are half as many bytes."""


def work_of(steps: Sequence[Step | Jump]) -> list[int]:
    """An estimate of each step's work. What threads can't share, and a user's kernel, count no more than enough for a
    look at the clock after it.
    """
    own = [step for step in steps if isinstance(step, Step)]
    weights = {v for step in own for v in _constants(step)}
    per_byte = FAR if sum(v.type.nbytes for v in weights) > KEPT else NEAR
    known: dict[Any, int] = {}  # bands of a node are alike
    for step in own:
        if (step.node, step.kernel, step.share) not in known:
            known[step.node, step.kernel, step.share] = _work(step, per_byte)
    return [known[s.node, s.kernel, s.share] if isinstance(s, Step) else 0 for s in steps]


def _work(step: Step, per_byte: int) -> int:
    if isinstance(step.kernel, UserKernel):
        return WORTH_LOOKING
    out, count = step.node.out.type, macs(step)
    if not count:
        read = [v.type.nbytes for v in step.node.inputs if v is not None and v.data is None]
        return 0 if step.kernel.name == COPY else int(MOVED * max([out.nbytes, *read]) * step.share)
    channels = out.dims[-1] if out.dims and out.dims[-1] else LANES
    computed = count * -(-channels // LANES) * LANES / channels
    multiplier = unit(step.kernel)
    fetched = per_byte * sum(v.type.nbytes for v in _constants(step)) * step.share / (2 if multiplier == "tiles" else 1)
    faster = FASTER.get(step.kernel.name, FASTER.get(multiplier, 1.0))
    work = int(max(computed / faster, fetched) + STORED * out.nbytes * step.share)
    return min(work, WORTH_LOOKING) if _one_by_one(step) else work


def _constants(step: Step) -> list[Value]:
    return [v for v in step.node.inputs if v is not None and v.data is not None]


def _one_by_one(step: Step) -> bool:
    """Whether it is a walk through the steps of one sequence."""
    if step.kernel.name != "recurrent":
        return False
    record = row("recurrent").args
    return all(step.args[record.at(name)] == 1 for name in ("directions", "batch"))

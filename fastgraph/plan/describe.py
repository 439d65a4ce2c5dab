"""A program as rows (for JSON) and as text."""

from __future__ import annotations

from typing import Any

from ..ir import Node
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import row
from ..ops.registry import attr
from ..text import bytes_text, counted, shorten, table
from .program import AnyStep, Jump, Program, Step, UserKernel
from .storage import row_count

RECURRENT = {**dict.fromkeys(("rnn", "gru", "lstm"), slice(1, 3)), "lstm_sequence": slice(3, 11)}
"""The weights among the inputs of recurrent operators: of those that multiply all rows of x, and of those that multiply
a state."""
JUMP = "jump"


def steps(program: Program) -> list[dict[str, Any]]:
    """A row per step: node, operator, result, its type, types of its quantized constants, kernel and parameters,
    multiply-adds, offset in the arena."""
    rows = []
    for i, step in enumerate(program.steps):
        node, out = step.node, step.node.out
        at = program.storage.get(out)
        rows.append(
            {
                "node": node.name or out.name,
                "op": node.op,
                "result": out.name,
                "type": str(out.type),
                "weights": [str(v.type) for v in node.inputs if v is not None and v.data is not None and v.type.quant],
                "kernel": step.kernel.name if isinstance(step, Step) else JUMP if isinstance(step, Jump) else "numpy",
                "params": step_text(i, step),
                "macs": macs(step) if isinstance(step, Step) else 0,
                "offset": None if at is None else program.offsets.get(at.root, 0) + at.offset,
            }
        )
    return rows


def step_text(number: int, step: AnyStep) -> str:
    """A step's kernel with its parameters; target and condition of a jump; "" for NumPy."""
    if isinstance(step, Step):
        return str(step.kernel)
    if not isinstance(step, Jump):
        return ""
    cell = None if step.cell is None else step.cell.base
    when = "" if cell is None else f" {'if' if step.wanted else 'unless'} {getattr(cell, 'name', 'true')}"
    return f"{JUMP} to {number + step.by}{when}"


def macs(step: Step) -> int:
    """Multiply-adds in the definition of the step's part of its operator; 0 where it is not a product."""
    node = step.node
    if isinstance(step.kernel, UserKernel) or not row(step.kernel.name).product:
        return 0
    if node.op in RECURRENT:
        every = sum(v.type.size for v in node.inputs[RECURRENT[node.op]] if v is not None)
        return round(row_count(node.x) * every * step.share)
    weights = node.y
    if node.op == "matmul":
        return round(node.out.type.size * node.x.type.dims[-1] * step.share)
    if node.op == "attention":
        return round(_scores(node) * step.share)
    rows = row_count(node.x if node.op == "conv_transpose" else node.out)
    return round(rows * weights.type.size * step.share)


def unit(kernel: Kernel | UserKernel) -> str:
    """What multiplies in a kernel, of tools.peaks.MachinePeaks.peaks."""
    return "f32" if isinstance(kernel, UserKernel) else row(kernel.name).unit(dict(kernel.params))


def _scores(node: Node) -> int:
    """Multiply-adds of an attention: its scores, and their weights times values."""
    from ..ops.attention import head_dims

    keys = node.y
    rows = head_dims(node, keys.type, attr(node, "kv_num_heads"))[2]
    assert isinstance(rows, int)
    return rows * (node.x.type.size + node.out.type.size)


def kernel_counts(program: Program) -> dict[str, int]:
    """How many steps each kind of kernel has; `numpy` for host steps."""
    counts: dict[str, int] = {}
    for step in steps(program):
        counts[step["kernel"]] = counts.get(step["kernel"], 0) + 1
    return counts


def program_text(program: Program, width: int | None) -> str:
    """The totals, then a table with a line per step, of that width where columns can be shortened to it."""
    arena = program.arena
    constants = sum(array.nbytes for array in program.constants)
    counts = f"{counted(len(program.steps), 'step')}, {counted(len(program.kernels()), 'kernel')}"
    lines = [
        f"arena {bytes_text(arena.size)} (bound {bytes_text(arena.bound)}, {arena.heuristic}), "
        f"constants {bytes_text(constants)}; {counts}"
    ]
    found = steps(program)
    quantized = any(step["weights"] for step in found)
    rows = [("", "op", "result", "type", "offset", "kernel", *["weights"] * quantized)]
    for n, step in enumerate(found):
        offset = "" if step["offset"] is None else str(step["offset"])
        kernel = shorten(step["params"] or "numpy", 90)
        weights = [", ".join(step["weights"])] * quantized
        rows.append((str(n), step["op"], shorten(step["result"], 40), step["type"], offset, kernel, *weights))
    return "\n".join(
        lines + table(rows, (0, 4), width, {1: 12, 2: 12, 3: 20, 5: 12, 6: 12}, drop=(4, 2, 6), begins=(5,))
    )

"""What a plan holds, as rows (for JSON) and as text (for people)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir import Value
from ..plan.program import Step
from ..plan.storage import row_count

if TYPE_CHECKING:
    from ..runtime.executable import Executable


def steps(plan: Executable) -> list[dict[str, Any]]:
    """One row per step: node, operator, result, type, kernel and its parameters, multiply-adds, place in the arena."""
    rows = []
    program = plan.program
    for step in program.steps:
        node, out = step.node, step.node.out
        at = program.storage.get(out)
        rows.append(
            {
                "node": node.name or out.name,
                "op": node.op,
                "result": out.name,
                "type": str(out.type),
                "kernel": step.kernel.name if isinstance(step, Step) else "numpy",
                "params": str(step.kernel) if isinstance(step, Step) else "",
                "macs": macs(step) if isinstance(step, Step) else 0,
                "offset": None if at is None else program.offsets.get(at.root, 0) + at.offset,
            }
        )
    return rows


def macs(step: Step) -> int:
    """Multiply-adds that the operator of a step is defined by; 0 where it is not a product."""
    node = step.node
    if node.op in ("conv", "dense") and step.kernel.name not in ("copy", "transpose"):
        weights = node.inputs[1]
        assert weights is not None
        return round(row_count(node.out) * weights.type.size * step.share)
    if node.op == "conv_transpose":
        weights = node.inputs[1]
        assert weights is not None
        return row_count(node.x) * weights.type.size
    if node.op == "matmul" and step.kernel.name == "dot":
        return node.out.type.size * node.x.type.dims[-1]
    return 0


def kernel_counts(plan: Executable) -> dict[str, int]:
    """How many steps each kind of kernel has; `numpy` for host steps."""
    counts: dict[str, int] = {}
    for row in steps(plan):
        counts[row["kernel"]] = counts.get(row["kernel"], 0) + 1
    return counts


def plan_text(plan: Executable) -> str:
    """The plan as a table: signature, totals, a line per step."""
    arena = plan.program.arena
    assert arena is not None
    inputs = ", ".join(f"{v.name}: {v.type}" for v in plan.graph.inputs)
    outputs = ", ".join(f"{name}: {type_}" for name, type_ in plan.signature())
    constants = sum(array.nbytes for array in plan.program.constants)
    kinds = len(plan.kernels())
    lines = [
        f"{plan.graph.name or 'model'}: ({inputs}) -> ({outputs})",
        f"{plan.tier.name}, {plan.threads} threads; arena {bytes_text(arena.size)} (bound {bytes_text(arena.bound)}, "
        f"{arena.heuristic}), constants {bytes_text(constants)}; {len(plan.program.steps)} steps, {kinds} kernels",
    ]
    rows = [("", "op", "result", "type", "offset", "kernel")]
    for n, row in enumerate(steps(plan)):
        offset = "" if row["offset"] is None else str(row["offset"])
        kernel = shorten(row["params"] or "numpy", 90)
        rows.append((str(n), row["op"], shorten(row["result"], 40), row["type"], offset, kernel))
    lines += table(rows, right=(0, 4))
    if plan.tail is not None:
        lines.append(f"and {len(plan.tail.nodes)} nodes whose shapes hang on data, computed with NumPy:")
        lines += [f"      {node.op} -> {', '.join(map(_name, node.outputs))}" for node in plan.tail.nodes]
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines with the rows' cells in columns, those numbered in `right` flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(range(len(row)), row, widths, strict=True)
        lines.append("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, c, w in cells).rstrip())
    return lines


def bytes_text(nbytes: int) -> str:
    """Bytes for people."""
    if nbytes < 1024:
        return f"{nbytes} B"
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 1 << 20 else f"{nbytes / (1 << 20):.2f} MiB"


def shorten(text: str, limit: int) -> str:
    """The text, its middle left out when it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return text[:half] + "…" + text[-(limit - 1 - half) :]


def _name(value: Value) -> str:
    return value.name

"""Calls of users' operators, compiled by numba."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from ...ir import Node, Value
from ...kernels.core.record import Record
from ...ops.custom import arguments, form_of, words_of
from ...ops.registry import USER
from ..program import ERROR, Arg, Step, UserKernel
from ..storage import has_memory
from .registry import Emit, lowers

RAISED = Record({".raised": "1 once the kernel has raised", ".error": "address of the cell that says so of a run"})
"""The first slot of each record; then follow address and extents of each array, and value or bits of each number."""


def _native(node: Node) -> bool:
    if not node.attrs[USER].native:
        return False
    for value in (*node.inputs, *node.outputs):
        if value is not None and not has_memory(value):
            raise UnsupportedError(
                f"node {node.name}: {node.op}: {value} is {value.type}, and numba has no arrays of "
                "text: register it with native=False"
            )
    return True


@lowers("custom", match=_native)
def custom(e: Emit, node: Node, _: Any) -> None:
    given = arguments(node)
    record = Record(RAISED)
    args: list[Arg] = [0, ERROR]
    for name, item in given.items():
        slots = _slots(e, name, item)
        record, args = record + Record(dict.fromkeys(slots, "")), [*args, *slots.values()]
    kernel = _kernel(node, given, record)
    e.program.steps.append(Step(kernel, tuple(args), node))


def _slots(e: Emit, name: str, item: Any) -> dict[str, Arg]:
    if not isinstance(item, Value):
        words = words_of(item)
        return {name if len(words) == 1 else f"{name}[{i}]": word for i, word in enumerate(words)}
    extents = {f"{name}.{axis}": extent for axis, extent in enumerate(item.type.dims)}
    return {name: e.address(item), **extents}


def _kernel(node: Node, given: dict[str, Any], record: Record) -> UserKernel:
    """The kernel for arguments of these forms, one for all nodes and shapes."""
    forms = {name: form_of(item, node.outputs) for name, item in given.items()}
    made: dict[Any, UserKernel] = node.attrs[USER].kernels
    return made.setdefault(tuple(forms.items()), UserKernel(node.attrs[USER], forms, record))

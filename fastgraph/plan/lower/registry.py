"""Lowerings of operators, found by name.

A node that none of them accepts runs its NumPy reference as a host step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...families import Families
from ...ir import Node
from ...ops.chain import is_f32 as is_f32
from ...ops.registry import OPS, USER
from ..storage import Abilities
from ..storage import last as last
from ..storage import row_count as row_count
from .catalog import CATALOG
from .emit import Emit as Emit
from .emit import Slot as Slot

Match = Callable[[Node], Any]
"""node -> the lowering's plan for it: facts that its steps need, or True when there are none; None or False when its
kernels can't compute the node."""


class Narrow(NamedTuple):
    """Which f32 operands and results of a node may be bfloat16: operands at the places `reads`, each by itself, and the
    results if it `gives` them. alike: all or none of those that it moves; follows: operands only if results are.
    rounds: places of operands that its kernel rounds to bfloat16 anyway; late: results only if all readers do so.
    """

    reads: frozenset[int] = frozenset()
    gives: bool = False
    alike: bool = False
    follows: bool = False
    rounds: frozenset[int] = frozenset()
    late: bool = False

    @property
    def begins(self) -> bool:
        """Whether results are rounded sums of rounded numbers, whatever is read."""
        return self.gives and not self.alike and not self.follows


def fixed(e: Emit, node: Node, plan: Any) -> Narrow:
    """What lowerings without bfloat16 read and give."""
    return Narrow()


def moved(e: Emit, node: Node, plan: Any) -> Narrow:
    """What lowerings read and give that move elements of any size, from the first operand, or all that are joined."""
    return Narrow(frozenset(range(len(node.inputs) if node.op == "concat" else 1)), gives=True, alike=True)


def joins_none(e: Emit, node: Node, plan: Any, total: Node) -> Node | None:
    """None, of lowerings that make no sums: nothing behind them joins one."""
    return None


Joins = Callable[["Emit", Node, Any, Node], Node | None]


class Lowering(NamedTuple):
    """`match(node)`: its plan, if it takes the node; `emit(e, node, plan)` writes its steps; `narrow(e, node, plan)`:
    what these read and give in bfloat16; `joins(e, node, plan, total)`: one node in place of the node and the sum
    `total` that reads its result, if that is faster.
    """

    match: Match
    emit: Callable[..., None]
    abilities: Abilities = Abilities()
    narrow: Callable[[Emit, Node, Any], Narrow] = fixed
    joins: Joins = joins_none


_defined: dict[str, list[Lowering]] = {}
LOWERINGS = Families("fastgraph", CATALOG, _defined)


def lowers(
    *ops: str, match: Match, strided_in: bool = False, strided_out: bool = False, in_place: bool = False,
    narrow: Callable[[Emit, Node, Any], Narrow] = fixed, joins: Joins = joins_none,
) -> Callable[[Callable[[Emit, Node, Any], None]], Callable[[Emit, Node, Any], None]]:  # fmt: skip
    """Register the decorated `emit` for these operators, with its abilities; `python -m docs.catalog` then writes the
    catalog.

    An operator may have several, say for different types; no two may match the same node.
    """

    def add(emit: Callable[[Emit, Node, Any], None]) -> Callable[[Emit, Node, Any], None]:
        for op in ops:
            lowering = Lowering(match, emit, Abilities(strided_in, strided_out, in_place), narrow, joins)
            _defined.setdefault(op, []).append(lowering)
        return emit

    return add


def matched(node: Node) -> tuple[Lowering, Any] | None:
    """The lowering that takes this node, and its plan of it; None: the node is a host step.

    ValueError when two lowerings take it.
    """
    plans = [(low, low.match(node)) for low in LOWERINGS.get(USER if USER in node.attrs else node.op, ())]
    found = [(low, plan) for low, plan in plans if plan is not None and plan is not False]
    if len(found) > 1:
        names = ", ".join(f"{low.emit.__module__}.{low.emit.__name__}" for low, _ in found)
        raise ValueError(f"node {node.name!r} ({node.op}): {len(found)} lowerings take it ({names}); one must")
    if not found and _makes_nothing(node):
        return NOTHING, True
    return found[0] if found else None


def _makes_nothing(node: Node) -> bool:
    """Whether all results are empty, and the operator has no other effect, such as to check indices."""
    if not all(v.type.concrete and v.type.dtype != object and not v.type.size for v in node.outputs):
        return False
    fed = [v.type.dtype for v in node.inputs[1:] if v is not None and v.data is None]
    return all(dtype is not None and dtype.kind not in "iu" for dtype in fed) and OPS[node.op].pure and not node.graphs


NOTHING = Lowering(_makes_nothing, lambda e, node, plan: None, Abilities(strided_in=True, strided_out=True))
"""The lowering of nodes with empty results; it writes no steps."""


class Matches:
    """The lowering of each node, memoized: nodes must not change any more. None without `kernels`."""

    def __init__(self, kernels: bool = True) -> None:
        self._kernels = kernels
        self._found: dict[Node, tuple[Lowering, Any] | None] = {}

    def __call__(self, node: Node) -> tuple[Lowering, Any] | None:
        if node not in self._found:
            self._found[node] = matched(node) if self._kernels else None
        return self._found[node]

    def abilities(self, node: Node) -> Abilities:
        """A host step works on NumPy views, so any strides will do."""
        found = self(node)
        return found[0].abilities if found else Abilities(strided_in=True, strided_out=True)

"""Numbers that depend on the lengths of inputs alone (on what each group of open extents has in common): they are
tables, with a number for each length."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...ir import MOST_LENGTH, Node, Value
from ...ops.evaluate import run_node
from ...ops.reduce import reduced_axes
from ...ops.registry import OPS, Layout, attr
from .values import Dim, Extent, Unbounded, Varied, refuse

if TYPE_CHECKING:
    from .state import Bounds

REDUCED: dict[str, Callable[..., np.ndarray]] = {
    "reduce_min": np.min, "reduce_max": np.max, "reduce_sum": np.sum, "reduce_prod": np.prod,
}  # fmt: skip


class Group(NamedTuple):
    """A group of open extents. `length`: the input that holds what they have in common; `each`: that number at each
    point of the grid of all groups' lengths; `step`: from one length to the next.
    """

    length: Value
    each: np.ndarray
    step: int

    @property
    def size(self) -> int:
        """How many lengths there are."""
        return int(self.each[-1] - self.each[0]) // self.step + 1


Rule = TypeVar("Rule", bound=Callable[..., Any])


def each_of(n: Any) -> np.ndarray | None:
    """A number, or one for each length; None where data decides it."""
    if isinstance(n, Value):
        return None
    return n.each if isinstance(n, Extent | Varied) else np.asarray(n)


def lines(g: Bounds, *numbers: Any) -> list[np.ndarray]:
    """Each number for all lengths. Unbounded where data decides one."""
    found = [each_of(n) for n in numbers]
    refuse(any(n is None for n in found))
    return [np.broadcast_to(n, g.groups[0].each.shape) for n in found if n is not None]


def varies(*numbers: Any) -> bool:
    """Whether some of these numbers depend on the length, and none on data."""
    return any(isinstance(n, Extent | Varied) for n in numbers) and all(each_of(n) is not None for n in numbers)


def by_length(g: Bounds, each: np.ndarray) -> Any:
    """The number that is one of these for each length."""
    if (each == each.flat[0]).all():
        return each.flat[0].item()
    if each.dtype.kind == "b" or not (each == np.trunc(each)).all() or not 0 <= each.min() <= each.max() < MOST_LENGTH:
        return Varied(each)
    whole = each.astype(np.int64)
    key = "each", whole.tobytes()
    if key not in g.memo:
        g.memo[key] = Extent(_count(g, whole), int(whole.max()), int(whole.min()), whole)
    return g.memo[key]


def number_by_length(g: Bounds, each: np.ndarray) -> Value:
    """A number that depends on lengths alone, as an int64 scalar that a run computes."""
    found = by_length(g, each)
    if isinstance(found, Varied):
        return looked_up(g, each)
    return found.count if isinstance(found, Extent) else g.ints(found)


def dim_by_length(g: Bounds, each: np.ndarray) -> Dim:
    """An extent that depends on lengths alone. Unbounded where a number is no extent."""
    found: Dim | Varied = by_length(g, each)
    if isinstance(found, Varied) or not isinstance(found, Extent) and found < 0:
        raise Unbounded
    return found


def _count(g: Bounds, each: np.ndarray) -> Value:
    for length, own, _ in g.groups:
        more = each - own
        if (more == more[0]).all():
            return g("add", length, int(more[0])) if more[0] else length
    return looked_up(g, each)


def looked_up(g: Bounds, table: np.ndarray) -> Value:
    """The element of a table [points, ...] for a run's lengths."""
    points = points_of(g, table)
    return picked(g, table[points.ravel()], points)


def points_of(g: Bounds, *tables: np.ndarray) -> np.ndarray:
    """The points of the grid at which these tables [points, ...] may differ, [n of each group]; n is 1 for a group that
    none of them depends on.
    """
    points = np.arange(len(tables[0])).reshape([group.size for group in g.groups])
    for axis in range(len(g.groups)):
        first = points.take([0], axis)
        if all((table[points] == table[first]).all() for table in tables):
            points = first
    return points


def picked(g: Bounds, table: np.ndarray, points: np.ndarray) -> Value:
    """The entry for a run's lengths of a table that has an entry for each of these points."""
    place: Value | None = None
    for (length, own, step), size in zip(g.groups, points.shape, strict=True):
        if size > 1:
            here = g("sub", length, int(own[0]))
            here = g("div", here, step) if step > 1 else here
            place = here if place is None else g("add", g("mul", place, size), here)
    return g.pick(g.held(table), place if place is not None else g.ints(0))


def for_lengths(plain: Callable[..., Any], signed: bool = False) -> Callable[[Rule], Rule]:
    """Let the decorated function of two numbers work on lengths too: `plain` computes all of them at once, as arrays.
    Unbounded where the result is no extent, unless it may be `signed`.
    """

    def add(rule: Rule) -> Rule:
        @wraps(rule)
        def computed(g: Bounds, a: Any, b: Any) -> Any:
            if not varies(a, b):
                return rule(g, a, b)
            return (by_length if signed else dim_by_length)(g, plain(each_of(a), each_of(b)))

        return computed  # type: ignore[return-value]

    return add


def of_lengths(g: Bounds, node: Node, values: list[Any]) -> np.ndarray:
    """The result of an elementwise node, or of a reduction, of numbers that depend on the length: its reference runs on
    those for all lengths at once. Unbounded for others.
    """
    first, rank = values[0], max(v.ndim for v in values if v is not None)
    if node.op in REDUCED:
        axes = None if len(values) < 2 or values[1] is None else values[1].astype(np.int64)
        over = reduced_axes(node, first.ndim, axes)
        refuse(over is None)
        found = REDUCED[node.op](
            _stacked(g, node.x, first, first.ndim), axis=over, keepdims=bool(attr(node, "keepdims"))
        )
    elif OPS[node.op].layout is Layout.EACH and OPS[node.op].pure and not node.graphs:
        data = [None if v is None else _stacked(g, v, x, rank) for v, x in zip(node.inputs, values, strict=True)]
        inputs = [None if x is None else Value.constant("", x) for x in data]
        with np.errstate(all="ignore"):
            found = run_node(node.with_(inputs), data)[0]
    else:
        raise Unbounded
    rows = found.reshape(-1, len(g.groups[0].each))
    return np.array([None, *(by_length(g, row) for row in rows)], object)[1:].reshape(found.shape[:-1])


def _stacked(g: Bounds, value: Value | None, numbers: np.ndarray, rank: int) -> np.ndarray:
    """Numbers as an array of their value's element type, whose last axis counts the lengths."""
    assert value is not None
    dims = (1,) * (rank - numbers.ndim) + numbers.shape
    return np.array(lines(g, *numbers.flat)).astype(value.type.dtype).reshape(*dims, -1)

"""What is known of a value whose extents depend on data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ...ir import Value


class Extent:
    """How many elements there are along an axis: an int64 scalar of the graph, from 0 to `most`."""

    __slots__ = ("count", "most")

    def __init__(self, count: Value, most: int) -> None:
        self.count, self.most = count, most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.count is other.count

    def __hash__(self) -> int:
        return hash(self.count)


Dim: TypeAlias = int | Extent


def most_of(dims: Iterable[Dim]) -> list[int]:
    """The extents that these may have at most."""
    return [n.most if isinstance(n, Extent) else int(n) for n in dims]


def extents_of(dims: Iterable[Dim]) -> dict[int, Extent]:
    """Those that depend on data, by axis."""
    return {axis: n for axis, n in enumerate(dims) if isinstance(n, Extent)}


def same(a: Extent | None, b: Extent | None) -> bool:
    """Whether two axes have as many elements in every run."""
    return a is not None and b is not None and a.count is b.count


class Below(NamedTuple):
    """Of a value of indices that none is below 0, and which extents they stay below (None: nothing is said): one for
    each place along `axis`, or one for all of them (None).
    """

    axis: int | None
    extents: tuple[Extent | None, ...]

    def for_all(self) -> Below | None:
        """The same of a value that has the axis no more; None where places along it differ."""
        return Below(None, self.extents) if self.axis is None or len(self.extents) == 1 else None


class Bounded(NamedTuple):
    """A value whose type is concrete, and how many of its elements are real along some of its axes.

    `clean`: all others are 0.
    """

    value: Value
    extents: Mapping[int, Extent] = {}
    clean: bool = False
    below: Below | None = None

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(self.extents.get(a, n) for a, n in enumerate(self.value.type.dims))


class Unbounded(Exception):
    """What a rule raises when it does not know how to go on; the node stays as it is."""

"""Facts about values whose extents depend on data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ...ir import Value


class Extent:
    """The number of real elements along an axis: an int64 scalar of the graph, from `least` to `most`."""

    __slots__ = ("count", "least", "most")

    def __init__(self, count: Value, most: int, least: int = 0) -> None:
        self.count, self.least, self.most = count, least, most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.count is other.count

    def __hash__(self) -> int:
        return hash(self.count)


class Negated(NamedTuple):
    """An extent counted from the end: minus so many."""

    extent: Extent


Dim: TypeAlias = int | Extent


def most_of(dims: Iterable[Dim]) -> list[int]:
    """The upper bounds of extents."""
    return [n.most if isinstance(n, Extent) else int(n) for n in dims]


def extents_of(dims: Iterable[Dim]) -> dict[int, Extent]:
    """The extents that depend on data, by axis."""
    return {axis: n for axis, n in enumerate(dims) if isinstance(n, Extent)}


def same(a: Extent | None, b: Extent | None) -> bool:
    """Whether two axes have the same extent in every run."""
    return a is not None and b is not None and a.count is b.count


class Below(NamedTuple):
    """Limits of indices, none of which is negative: the extents that they stay below (None: no limit), one for each
    position along `axis`, or one for all (axis None)."""

    axis: int | None
    extents: tuple[Extent | None, ...]

    def for_all(self) -> Below | None:
        """The limits without their axis; None where they differ along it."""
        return Below(None, self.extents) if self.axis is None or len(self.extents) == 1 else None


class Bounded(NamedTuple):
    """A value of a concrete type, with the extents of its real elements along some axes. `clean`: all other elements
    are 0."""

    value: Value
    extents: Mapping[int, Extent] = {}
    clean: bool = False
    below: Below | None = None

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(self.extents.get(a, n) for a, n in enumerate(self.value.type.dims))


def limits_of(x: Bounded) -> Below | None:
    """What indices stay below: constants that are not negative have no limit."""
    data = x.value.data
    if x.below is None and data is not None and data.dtype.kind in "iu" and data.size and data.min() >= 0:
        return Below(None, (None,))
    return x.below


class Unbounded(Exception):
    """Raised by a rule that does not apply; the node then stays as it is."""

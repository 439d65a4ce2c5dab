"""Facts about values whose extents depend on data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from ...ir import Value


class Extent:
    """The number of real elements along an axis: an int64 scalar of the graph, from `least` to `most`. `each`: where it
    follows from what open extents of inputs have in common, the number for each of that.
    """

    __slots__ = ("count", "each", "least", "most")

    def __init__(self, count: Value, most: int, least: int = 0, each: np.ndarray | None = None) -> None:
        self.count, self.least, self.most, self.each = count, least, most, each

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.count is other.count

    def __hash__(self) -> int:
        return hash(self.count)


class Varied:
    """A number that is no extent, as it may be below 0 or no integer, for each length of open extents."""

    __slots__ = ("each",)

    def __init__(self, each: np.ndarray) -> None:
        self.each = each

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Varied) and np.array_equal(self.each, other.each)

    __hash__ = None  # type: ignore[assignment]


Dim: TypeAlias = int | Extent


def most_of(dims: Iterable[Dim]) -> list[int]:
    """The upper bounds of extents."""
    found = [n.most if isinstance(n, Extent) else n for n in dims]
    if any(isinstance(n, Varied) for n in found):
        raise Unbounded
    return [int(n) for n in found]


def extents_of(dims: Iterable[Dim]) -> dict[int, Extent]:
    """The extents that depend on data, by axis."""
    return {axis: n for axis, n in enumerate(dims) if isinstance(n, Extent)}


def same(a: Extent | None, b: Extent | None) -> bool:
    """Whether two axes have the same extent in every run."""
    return a is not None and b is not None and a.count is b.count


def reaches(a: Extent | None, b: Extent) -> bool:
    """Whether what stays below one extent stays below the other in every run."""
    return same(a, b) or a is not None and a.each is not None and b.each is not None and bool((a.each <= b.each).all())


class Below(NamedTuple):
    """Limits of indices: the extents that they stay below (None: no limit), one for each position along `axis`, or one
    for all (axis None). Only where there is no limit, and if `signed`, some may be negative.
    """

    axis: int | None
    extents: tuple[Extent | None, ...]
    signed: bool = False

    def for_all(self) -> Below | None:
        """The limits without their axis; None where they differ along it."""
        return self._replace(axis=None) if self.axis is None or len(self.extents) == 1 else None


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
    """The bounds of indices; of a constant it is known only whether some are negative."""
    data = x.value.data
    if x.below is None and data is not None and data.dtype.kind in "iu" and data.size:
        return Below(None, (None,), bool(data.min() < 0))
    return x.below


class Unbounded(Exception):
    """Raised by a rule that does not apply; the node then stays as it is."""


def refuse(condition: object) -> None:
    """Unbounded where the condition holds: the rule does not apply."""
    if condition:
        raise Unbounded

"""Which tensor of one network is which of another: by name, shape and values, in any layout; and how far two differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, permutations, product
from typing import NamedTuple

import numpy as np

from .agreement import gaps

Shape = Sequence[int | str | None]
Way = tuple[int, int]
"""Which axis moves where, once extents of 1 are left out; (0, 0) moves none."""

SAME: Way = (0, 0)
Sizes = dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]]
"""The shapes of an input of A and one of B that can be a pair, by name."""
CANDIDATES, ORDERS = 24, 5040
"""How many ways to pair inputs are tried at most, and how many are looked for."""


class Pair(NamedTuple):
    """A tensor of A and one of B; how they were found ("name", "shape", "values", "map"), and their layouts."""

    a: str
    b: str
    by: str
    way: Way = SAME


class Figures(NamedTuple):
    """How far B's numbers are from A's: the largest |b - a|, also over the largest |a|; signal to noise in dB (inf when
    equal); cosine; the share of rows of scores with the same argmax (None: no scores).
    """

    absolute: float
    relative: float
    snr: float
    cosine: float
    argmax: float | None = None


def extents(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def ways(a: Sequence[int], b: Sequence[int]) -> list[Way]:
    """How an array of shape `a` can be laid out as shape `b`: as it is, or with channels moved to the end, or back."""
    one, other = extents(a), extents(b)
    last = len(one) - 1
    found = [SAME, *((i, last) for i in (0, 1) if i < last), *((last, i) for i in (0, 1) if i + 1 < last)]
    return [way for way in found if _moved(one, way) == other]


def _moved(items: tuple[int, ...], way: Way) -> tuple[int, ...]:
    rest = list(items)
    if rest:
        rest.insert(way[1], rest.pop(way[0]))
    return tuple(rest)


def arranged(array: np.ndarray, way: Way, shape: Sequence[int]) -> np.ndarray:
    """The array in the layout and shape of its partner."""
    plain = array.reshape(extents(array.shape))
    return (np.moveaxis(plain, *way) if plain.ndim else plain).reshape(tuple(shape))


def layout(a: Sequence[int], b: Sequence[int], way: Way) -> str:
    """The effect of a way on a shape, for people; "" where nothing changes."""
    if way == SAME:
        return "" if tuple(a) == tuple(b) else "reshaped"
    return "NCHW to NHWC" if way[0] < way[1] else "NHWC to NCHW"


def completed(shape: Shape, other: Shape) -> tuple[int | str | None, ...]:
    """A shape whose open extents are those of its partner, in the partner's layout or with channels moved."""
    if len(shape) != len(other):
        return tuple(shape)
    first, *rest = other if other else (None,)
    moved = [tuple(other)]
    if len(other) > 2:
        moved += [(first, *rest[1:], rest[0]), (first, rest[-1], *rest[:-1])]
    for form in moved:
        fits = zip(shape, form, strict=True)
        if all(not isinstance(n, int) or not isinstance(m, int) or n == m for n, m in fits):
            return tuple(n if isinstance(n, int) else m for n, m in zip(shape, form, strict=True))
    return tuple(shape)


# -- figures


def figures(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Figures:
    """The figures of all draws together: `pairs` has A's array and B's, in the same layout, of each."""
    absolute = largest = signal = noise = power = dot = 0.0
    hits: list[np.ndarray] = []
    for a, b in pairs:
        gap = gaps(a, b)
        x, y = (np.asarray(each, np.complex128 if each.dtype.kind == "c" else np.float64) for each in (a, b))
        if looks_like_scores(a):
            hits.append((_rows(a).argmax(-1) == _rows(b).argmax(-1)).ravel())
        with np.errstate(all="ignore"):
            kept = np.isfinite(x) & np.isfinite(y)
            x, y = np.where(kept, x, 0), np.where(kept, y, 0)
            absolute, largest = max(absolute, gap.max(initial=0)), max(largest, np.abs(x).max(initial=0))
            noise += float(np.square(gap).sum())
            signal += float(np.square(np.abs(x)).sum())
            power += float(np.square(np.abs(y)).sum())
            dot += float(np.vdot(x, y).real)
    relative = 0.0 if not absolute else float(absolute / largest) if largest else math.inf
    cosine = dot / math.sqrt(signal * power) if signal * power else float(signal == power)
    argmax = float(np.concatenate(hits).mean()) if hits else None
    return Figures(float(absolute), relative, decibels(signal, noise), cosine, argmax)


def decibels(signal: float, noise: float) -> float:
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


def looks_like_scores(array: np.ndarray) -> bool:
    """Whether it has a number for each class: one row of several numbers, or a batch of rows."""
    one_row = len(extents(array.shape)) == 1 and max(array.shape) > 1
    return array.dtype.kind == "f" and (one_row or array.ndim == 2 and array.shape[-1] > 1)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1) if len(extents(array.shape)) == 1 else array


# -- pairs


def mapped(texts: Sequence[str], a: Sequence[str], b: Sequence[str]) -> dict[str, str]:
    """The pairs of ["A=B", ...] whose names are known: B's by A's. Names may contain "="."""
    cuts = [(text[:i], text[i + 1 :]) for text in texts for i, sign in enumerate(text) if sign == "="]
    return {left: right for left, right in cuts if left in a and right in b}


def by_name(a: Mapping[str, Sequence[int]], b: Mapping[str, Sequence[int]], given: Mapping[str, str]) -> list[Pair]:
    """The pairs that are `given`, and those of the same name that have a common layout; shapes by name."""
    found = [Pair(x, y, "map", (ways(a[x], b[y]) or [SAME])[0]) for x, y in given.items()]
    free = set(b) - set(given.values())
    return found + [
        Pair(name, name, "name", ways(shape, b[name])[0])
        for name, shape in a.items()
        if name not in given and name in free and ways(shape, b[name])
    ]


def candidates(a: Sequence[str], b: Sequence[str], sizes: Sizes, given: Mapping[str, str]) -> list[list[Pair]]:
    """Ways to pair all inputs of A, likeliest first: as `given`, by name, else each permutation that shapes allow; at
    most CANDIDATES.
    """
    fits = {pair: ways(*shapes) for pair, shapes in sizes.items()}
    sure = dict(given) | {x: x for x in a if x not in given and x not in given.values() and fits.get((x, x))}
    left, free = [x for x in a if x not in sure], [y for y in b if y not in sure.values()]
    found: list[list[Pair]] = []
    for order in islice(permutations(free, len(left)), ORDERS):
        partners = sure | dict(zip(left, order, strict=True))
        by = {x: "map" if x in given else "name" if x in sure else "shape" for x in a}
        options = [[Pair(x, partners[x], by[x], way) for way in fits.get((x, partners[x]), ())] for x in a]
        found += islice(product(*options), CANDIDATES - len(found))  # type: ignore[arg-type]
    return [list(each) for each in found]


def by_values(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray], given: Mapping[str, str]) -> list[Pair]:
    """The outputs of A with those of B: by name, then where no other has the extents, then the nearest values first.
    Of several layouts the one that is nearest.
    """
    one, two = ({name: array.shape for name, array in side.items()} for side in (a, b))
    found = [_nearest(pair, a, b)[1] for pair in by_name(one, two, given)]
    near = {
        (x, y): _nearest(Pair(x, y, "values"), a, b)
        for x in a
        for y in b
        if ways(a[x].shape, b[y].shape) and x not in {p.a for p in found} and y not in {p.b for p in found}
    }
    alone = {(x, y) for x, y in near if sum(x == p or y == q for p, q in near) == 1}
    while near:
        best = max(near, key=lambda each: near[each][0])
        found.append(near[best][1]._replace(by="shape" if best in alone else "values"))
        near = {each: pair for each, pair in near.items() if each[0] != best[0] and each[1] != best[1]}
    return sorted(found, key=lambda pair: list(a).index(pair.a))


def _nearest(pair: Pair, a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> tuple[float, Pair]:
    """The SNR, and the pair with the layout that gives the best."""
    x, y = a[pair.a], b[pair.b]
    found = [(figures([(arranged(x, w, y.shape), y)]).snr, w) for w in ways(x.shape, y.shape)]
    if not found:
        return -math.inf, pair
    snr, way = max(found, key=lambda each: each[0])
    return snr, pair._replace(way=way)

"""Networks of shuffles over vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..isa.tiers import Tier
from ..lang import Value, joined, shuffle


def tile_lanes(tier: Tier, itemsize: int) -> int:
    """Lanes of the vectors that moves shuffle, and the side of a transposed tile."""
    return {1: 16, 2: 8, 4: tier.lanes, 8: max(2, tier.lanes // 2)}[itemsize]


def _zip(x: Value, y: Value, block: int) -> list[Value]:
    """Low and high interleave of x and y within each block of lanes."""
    n, half = x.lanes, block // 2
    return [
        shuffle(x, [q + h + i // 2 + n * (i % 2) for q in range(0, n, block) for i in range(block)], y)
        for h in (0, half)
    ]


def _unzip(x: Value, y: Value, block: int) -> list[Value]:
    """The even and the odd blocks of lanes of x then y."""
    n = x.lanes
    return [shuffle(x, [q + i for q in range(odd, 2 * n, 2 * block) for i in range(block)], y) for odd in (0, block)]


def _interleave(vectors: list[Value], block: int) -> list[Value]:
    """Interleaves a power-of-two number of vectors, within each block of lanes."""
    half = len(vectors) // 2
    stages = len(vectors).bit_length() - 1
    for _ in range(stages):
        vectors = [v for i in range(half) for v in _zip(vectors[i], vectors[i + half], block)]
    return vectors


def _deinterleave(vectors: list[Value], block: int) -> list[Value]:
    """The inverse of interleaving, moving whole blocks of lanes."""
    stages = len(vectors).bit_length() - 1
    for _ in range(stages):
        pairs = [_unzip(vectors[i], vectors[i + 1], block) for i in range(0, len(vectors), 2)]
        vectors = [p[0] for p in pairs] + [p[1] for p in pairs]
    return vectors


def transpose_square(vectors: list[Value], itemsize: int) -> list[Value]:
    """Transposes n vectors of n lanes: first within 128-bit parts (unpacks), then the parts."""
    n = len(vectors)
    part = min(n, 16 // itemsize)
    groups = [_interleave(vectors[g : g + part], part) for g in range(0, n, part)]
    columns = [_deinterleave([group[j] for group in groups], part) for j in range(part)]
    return [columns[j][q] for q in range(n // part) for j in range(part)]


def has_halves(lanes: int, itemsize: int) -> bool:
    """Whether there is `transpose_half` for vectors of so many lanes: they have two or four parts of 128 bits."""
    return lanes * itemsize >= 32


def transpose_half(vectors: list[Value], itemsize: int) -> list[Value]:
    """Transposes n / 2 vectors of n lanes, or n of n / 2."""
    n, part = max(len(vectors), vectors[0].lanes), 16 // itemsize
    half, starts = n // 2, [0]
    if len(vectors) == n:
        vectors, starts = [joined(*pair) for pair in zip(vectors[:half], vectors[half:], strict=True)], [0, half]
    groups = [_interleave(vectors[g : g + part], part) for g in range(0, half, part)]
    parts = [start + n * g for start in starts for g in range(len(groups))]
    firsts = range(0, n // len(starts), part)
    orders = [[at + i for at in [first + p for p in parts] for i in range(part)] for first in firsts]
    return [shuffle(groups[0][j], order, groups[-1][j]) for order in orders for j in range(part)]


def pick(vectors: list[Value], wanted: Sequence[tuple[int, int]]) -> Value:
    """The vector whose lanes are wanted as (vector, lane)."""
    n = len(wanted)
    result = vectors[0]
    for at in range(1, len(vectors)):
        keep = [w[1] if w[0] == 0 else i for i, w in enumerate(wanted)] if at == 1 else list(range(n))
        lanes = [n + w[1] if w[0] == at else keep[i] for i, w in enumerate(wanted)]
        result = shuffle(result, lanes, vectors[at])
    return result


def mix(vectors: list[Value], split: bool) -> list[Value]:
    """Interleave (or, with `split`, deinterleave) any number of vectors."""
    k, n = len(vectors), vectors[0].lanes
    if k & (k - 1) == 0:
        return _deinterleave(vectors, 1) if split else _interleave(vectors, n)
    if split:
        return [pick(vectors, [divmod(i * k + c, n) for i in range(n)]) for c in range(k)]
    return [pick(vectors, [((v * n + i) % k, (v * n + i) // k) for i in range(n)]) for v in range(k)]

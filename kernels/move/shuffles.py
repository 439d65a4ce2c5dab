"""Networks of shuffles: lists of vectors in registers become as many others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ..isa.tiers import Tier
from ..isa.vector import I32
from ..lang.both import both


def tile_lanes(tier: Tier, itemsize: int) -> int:
    """Lanes of the vectors that moves shuffle, and the side of the square tile that a transpose turns in registers."""
    return {1: 16, 2: 8, 4: tier.lanes, 8: max(2, tier.lanes // 2)}[itemsize]


def _shuffle(b: Any, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def _zip(b: Any, x: Any, y: Any, block: int) -> list[Any]:
    """Low and high interleave of x and y within each block of lanes."""
    n, half = x.type.count, block // 2
    return [
        _shuffle(b, x, y, [q + h + i // 2 + n * (i % 2) for q in range(0, n, block) for i in range(block)])
        for h in (0, half)
    ]


def _unzip(b: Any, x: Any, y: Any, block: int) -> list[Any]:
    """The even and the odd blocks of lanes of x then y."""
    n = x.type.count
    return [
        _shuffle(b, x, y, [q + i for q in range(odd, 2 * n, 2 * block) for i in range(block)]) for odd in (0, block)
    ]


def _interleave(b: Any, vectors: list[Any], block: int) -> list[Any]:
    """Interleaves a power-of-two number of vectors, each block of lanes for itself."""
    half = len(vectors) // 2
    stages = len(vectors).bit_length() - 1
    for _ in range(stages):
        vectors = [v for i in range(half) for v in _zip(b, vectors[i], vectors[i + half], block)]
    return vectors


def _deinterleave(b: Any, vectors: list[Any], block: int) -> list[Any]:
    """The inverse of interleaving, moving whole blocks of lanes."""
    stages = len(vectors).bit_length() - 1
    for _ in range(stages):
        pairs = [_unzip(b, vectors[i], vectors[i + 1], block) for i in range(0, len(vectors), 2)]
        vectors = [p[0] for p in pairs] + [p[1] for p in pairs]
    return vectors


@both
def transpose_square(b: Any, vectors: list[Any], itemsize: int) -> list[Any]:
    """Transposes n vectors of n lanes: first within 128-bit parts (unpacks), then the parts."""
    n = len(vectors)
    part = min(n, 16 // itemsize)
    groups = [_interleave(b, vectors[g : g + part], part) for g in range(0, n, part)]
    columns = [_deinterleave(b, [group[j] for group in groups], part) for j in range(part)]
    return [columns[j][q] for q in range(n // part) for j in range(part)]


@both
def pick(b: Any, vectors: list[Any], wanted: Sequence[tuple[int, int]]) -> Any:
    """The vector whose lanes are wanted as (vector, lane)."""
    n = len(wanted)
    result = vectors[0]
    for at in range(1, len(vectors)):
        keep = [w[1] if w[0] == 0 else i for i, w in enumerate(wanted)] if at == 1 else list(range(n))
        lanes = [n + w[1] if w[0] == at else keep[i] for i, w in enumerate(wanted)]
        result = _shuffle(b, result, vectors[at], lanes)
    return result


@both
def mix(b: Any, vectors: list[Any], split: bool) -> list[Any]:
    """Interleave (or, with `split`, deinterleave) any number of vectors."""
    k, n = len(vectors), vectors[0].type.count
    if k & (k - 1) == 0:
        return _deinterleave(b, vectors, 1) if split else _interleave(b, vectors, n)
    if split:
        return [pick(b, vectors, [divmod(i * k + c, n) for i in range(n)]) for c in range(k)]
    return [pick(b, vectors, [((v * n + i) % k, (v * n + i) // k) for i in range(n)]) for v in range(k)]

"""Mixed precision: which layers stay float so that the result is as exact as asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

Measure = Callable[[Collection[str]], float]
"""The signal to noise, in dB, of the network with these nodes on integers."""


def sensitivity(layers: Sequence[str], others: Sequence[str], snr: Measure) -> list[tuple[float, str]]:
    """(dB, layer) with that layer alone, and the other nodes, on integers, the worst first."""
    return sorted((snr([name, *others]), name) for name in layers)


def to_leave(layers: Sequence[str], others: Sequence[str], snr: Measure, wanted: float) -> tuple[list[str], float]:
    """The fewest layers, of the most sensitive ones, without which the network, `layers` and `others` on integers,
    reaches `wanted` dB; and what it reaches. All where none is few enough.
    """
    reached = snr([*layers, *others])
    if reached >= wanted:
        return [], reached
    ranked = [name for _, name in sensitivity(layers, others, snr)]
    low, high, best = 1, len(ranked), snr(others)
    while low < high:
        middle = (low + high) // 2
        found = snr([*ranked[middle:], *others])
        if found >= wanted:
            high, best = middle, found
        else:
            low = middle + 1
    return ranked[:high], best

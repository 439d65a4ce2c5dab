"""Whether a neighbor shares this core: a program outside of a virtual machine, on the core's other hyper-thread.

Nothing that the system counts tells of it, but the core does less meanwhile: vectors by a third, tiles of AMX by more
than half. A probe reads a part of the first cache over and over, as fast as the core can, with AVX2 where there is
AVX-512: some CPUs change their clock for that. A neighbor comes and goes within a millisecond, so that one probe says
little: a burst is judged by the mean of many, before it, between its calls and after it.

They are made on the caller's CPU only. Where threads run on several, that one stands for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from math import inf
from time import perf_counter

from ..disturbance import MOST_SLOW
from ..errors import CompilerError
from ..kernels.isa.tiers import NUMPY, usable
from .peaks import reading

BYTES, TIMES = 8192, 300
"""The bytes that a probe reads, and how often: some 15 us."""
READS = 8
"""Probes at either end of a burst."""
LUCKY, QUANTILE = 2, 0.02
"""Bursts whose least probe was too quick by luck, as with a clock that rose for a moment: so many, or that share."""

_seen: deque[float] = deque(maxlen=4096)
"""The least probe of each burst of this process, the newest: what the core can do shows only when it is quiet."""


def probe(reads: int = READS) -> float:
    """Mean seconds of so many probes, after one for the caches; 0 where no kernel can be compiled."""
    read = _reader()
    if read is None:
        return 0.0
    read()
    begun = perf_counter()
    for _ in range(reads):
        read()
    return (perf_counter() - begun) / reads


def of_burst(probes: Sequence[float]) -> float:
    """The mean of the probes of a burst, which is taken note of."""
    if min(probes) > 0:
        _seen.append(min(probes))
    return sum(probes) / len(probes)


def least() -> float:
    """Seconds of a probe on a quiet core, as far as this process has seen one."""
    return least_of(_seen)


def least_of(probes: Iterable[float]) -> float:
    """The least that is not luck; infinite where nothing was probed, so that no core is taken for shared."""
    ordered = sorted(probes)
    return ordered[min(max(LUCKY, int(QUANTILE * len(ordered))), len(ordered) - 1)] if ordered else inf


def quiet(probes: Sequence[float], least: float) -> list[int]:
    """Those of runs with a probe before, between and after them whose two probes found a quiet core."""
    return [i for i, pair in enumerate(pairwise(probes)) if sum(pair) / 2 < MOST_SLOW * least]


@cache
def _reader() -> Callable[[], None] | None:
    tier = next((tier for tier in usable() if tier.name == "avx2"), usable()[-1])
    try:
        return None if tier is NUMPY else reading(BYTES, TIMES, tier)
    except (CompilerError, ImportError):
        return None

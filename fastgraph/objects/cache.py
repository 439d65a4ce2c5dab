"""Objects of kernels: ready, from the cache, or compiled, by several processes where there are many.

Processes that start together on an empty cache, as a server's, compile by turns, no more at once than there are CPUs.
These begin with different kernels, and look again before each whether another process has made it; the others wait for
what these make.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import deadline
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import rows
from ..kernels.isa.tiers import Tier
from ..locks import lock, logs, undisturbed
from . import store
from .progress import Progress, terminal
from .trust import Untrusted

if TYPE_CHECKING:
    from .turns import Turns

compiling = lock()
"""Held while compiling: one thread at a time."""


def objects(kernels: Sequence[Kernel], tier: Tier, progress: Progress = terminal) -> list[bytes]:
    """The object file of each kernel for a tier, in order; missing ones are compiled and kept.

    numba is imported only when something is missing. Raises CompilerError when that can't be compiled here, errors of a
    kernel's generator, and RunTimeout when this thread's deadline passes meanwhile: what was compiled by then is kept.
    """
    found = store.find(kernels, tier)
    if None not in found:
        return [obj for obj in found if obj is not None]
    with compiling:
        built = _build_missing(kernels, tier, progress)
    return [obj or built[kernel] for kernel, obj in zip(kernels, found, strict=True)]


def _build_missing(kernels: Sequence[Kernel], tier: Tier, progress: Progress) -> dict[Kernel, bytes]:
    """Compile the kernels that are still missing: another thread or process may have built some."""
    logs()  # the compiler does
    found = dict(zip(kernels, store.find(kernels, tier), strict=True))
    built = {kernel: obj for kernel, obj in found.items() if obj is not None}
    missing = _ordered([kernel for kernel, obj in found.items() if obj is None], os.getpid())
    turns = _turns()
    try:
        if left := _left(missing, tier, built, turns, progress):
            _build(left, tier, built, turns, progress)
    finally:
        turns.close()
        progress(len(missing), len(missing), "")
    if store.trusted(place := store.folder()):
        with undisturbed():
            store.prune(place)
    return built


def _turns() -> Turns:
    """This process's turns; where others can't find what is made, nobody waits."""
    with undisturbed():
        from .turns import Turns

    place = store.folder()
    with suppress(OSError, Untrusted):
        store.prepare(place)
    return Turns(place)


def _left(
    missing: list[Kernel], tier: Tier, built: dict[Kernel, bytes], turns: Turns, progress: Progress
) -> list[Kernel]:
    """The kernels that are missing when it is this process's turn, or no longer worth waiting for it; those that others
    made by then are added to `built`.
    """
    count, before = len(missing), len(built)
    while missing and turns.wait():
        deadline.check()
        progress(len(built) - before, count, "in another process")
        found = store.find(missing, tier)
        made = {kernel: obj for kernel, obj in zip(missing, found, strict=True) if obj is not None}
        if made:
            built |= made
            missing = [kernel for kernel in missing if kernel not in made]
            turns.renew()
    return missing


def _ordered(kernels: list[Kernel], process: int) -> list[Kernel]:
    """Kernels in the order to compile them: what takes longest comes first, else each process begins with another."""
    first = process % max(len(kernels), 1)
    return sorted(kernels[first:] + kernels[:first], key=_quick)


def _quick(kernel: Kernel) -> bool:
    return kernel.name not in rows() or not rows()[kernel.name].product


def _build(missing: Sequence[Kernel], tier: Tier, built: dict[Kernel, bytes], turns: Turns, progress: Progress) -> None:
    """Compile kernels, with workers where that pays and there are turns, and keep them; finished ones are added to
    `built`.
    """
    with undisturbed():
        from .workers import Crew, count

    before = len(built)
    crew = Crew(missing, tier)
    try:
        for _ in range(count(len(missing))):
            if turns.take():
                crew.hire()
        while len(built) < before + len(missing):
            deadline.check()
            kernel = crew.take()
            if kernel is not None:
                progress(len(built) - before, len(missing), str(kernel))
                built[kernel] = store.made(kernel, tier) or store.keep(kernel, tier, store.compiled(kernel, tier))
            for made, obj in crew.finished(0 if kernel else 0.1):
                built[made] = store.keep(made, tier, obj)
    finally:
        crew.close()
        for made, obj in crew.finished(0):
            built[made] = store.keep(made, tier, obj)

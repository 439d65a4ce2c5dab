"""The objects of kernels: those that are kept, and what is missing compiled, by several processes if it is much."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import deadline
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..locks import lock, undisturbed
from . import store
from .progress import Progress, terminal

_lock = lock()


def objects(kernels: Sequence[Kernel], tier: Tier, progress: Progress = terminal) -> list[bytes]:
    """The object file of each kernel for a tier, in order; what is missing is compiled and kept.

    numba is imported only when something is missing. Raises what a kernel's generator or the compiler raises, and
    RunTimeout when this thread's deadline passes meanwhile: what was compiled by then is kept.
    """
    place = store.folder()
    safe = store.trusted(place)
    found = [store.read(store.entry(place, kernel, tier), safe) for kernel in kernels]
    if None not in found:
        return [obj for obj in found if obj is not None]
    with _lock:
        built = _build_missing(place, list(kernels), tier, progress)
    return [obj or built[kernel] for kernel, obj in zip(kernels, found, strict=True)]


def _build_missing(place: Path, kernels: list[Kernel], tier: Tier, progress: Progress) -> dict[Kernel, bytes]:
    """All of `kernels`: another thread or process may have built some since we looked."""
    with undisturbed():
        from . import workers
    safe = store.trusted(place)
    built = {kernel: store.read(store.entry(place, kernel, tier), safe) for kernel in kernels}
    missing = [kernel for kernel, obj in built.items() if obj is None]
    own, *others = workers.shares(missing)
    started = [workers.start(share, tier) for share in others]
    try:
        for done, kernel in enumerate(own):
            deadline.check()
            progress(done * len(missing) // len(own), len(missing), str(kernel))
            built[kernel] = store.keep(kernel, tier)
        for share, worker in zip(others, started, strict=True):
            if worker is not None:
                workers.finish(worker, [store.entry(place, kernel, tier) for kernel in share])
            for kernel in share:
                deadline.check()
                made = store.read(store.entry(place, kernel, tier), store.trusted(place))
                built[kernel] = made or store.keep(kernel, tier)
    finally:
        for worker in started:
            if worker is not None:
                worker.kill()
                worker.wait()
        progress(len(missing), len(missing), "")
    if store.trusted(place):
        with undisturbed():
            store.prune(place)
    return {kernel: obj for kernel, obj in built.items() if obj is not None}

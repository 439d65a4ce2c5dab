"""Compile kernels in several processes at once: numba compiles one at a time in each.

A worker is a Python of its own that reads what to compile from its standard input, and leaves the objects in the cache.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from .. import deadline
from ..cpus import default_threads
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import BY_NAME, Tier
from . import store

WORTH = 4
"""Kernels for each process: a worker takes as long to start as two take to compile."""

MOST = 8

PATIENCE = 60.0
"""Seconds without a new object after which a worker is given up."""

_WORKER = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from fastgraph.objects import workers; workers.work()"
)


def shares(kernels: Sequence[Kernel]) -> list[list[Kernel]]:
    """The kernels dealt out to as many processes as are worth it, this one's share first."""
    count = max(1, min(default_threads(), MOST, len(kernels) // WORTH))
    if not _is_python(sys.executable):
        count = 1
    return [list(kernels[i::count]) for i in range(count)]


def _is_python(path: str | None) -> bool:
    """Whether the running program is a Python interpreter: it may be another that has one inside."""
    return bool(path) and os.path.basename(str(path)).lower().startswith("python") and not hasattr(sys, "frozen")


def start(kernels: Sequence[Kernel], tier: Tier) -> subprocess.Popen[bytes] | None:
    """A worker that compiles these kernels, or None if there can be none."""
    try:
        worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    assert worker.stdin is not None
    try:
        with worker.stdin as pipe:
            pickle.dump(sys.path, pipe)
            pickle.dump((tier.name, list(kernels)), pipe)
    except OSError:
        pass
    return worker


def finish(worker: subprocess.Popen[bytes], wanted: Sequence[Path]) -> None:
    """Wait until a worker ends; kill it when of the files that it shall make there come no more."""
    seen, since = -1, time.monotonic()
    while worker.poll() is None:
        deadline.check()
        if (count := sum(map(os.path.exists, wanted))) > seen:
            seen, since = count, time.monotonic()
        elif time.monotonic() > since + PATIENCE:
            worker.kill()
        try:
            worker.wait(0.5)
        except subprocess.TimeoutExpired:
            pass


def work(source: IO[bytes] | None = None) -> None:
    """Compile what standard input says; errors are left to whoever asked, who will meet them too."""
    name, kernels = pickle.load(source or sys.stdin.buffer)
    tier: Any = BY_NAME[name]
    for kernel in kernels:
        store.keep(kernel, tier)

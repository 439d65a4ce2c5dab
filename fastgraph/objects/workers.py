"""Compile kernels in several processes at once.

A worker is a Python of its own. It reads from its standard input one kernel after the other, and answers each on its
standard output with the object, or None. Whoever is idle takes the next kernel, so that all end together.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import IO, Any

from ..cpus import default_threads
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import BY_NAME, Tier
from ..room import free_memory
from . import store

WORTH = 3
"""Kernels for each process: a worker takes as long to start as one takes to compile."""

MOST = 16
MEMORY = 256 << 20
"""Bytes of memory that a worker may use."""

PATIENCE = 60.0
"""Seconds without an object after which a worker is killed."""

_WORKER = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from fastgraph.objects import workers; workers.work(sys.stdin.buffer, sys.stdout.buffer)"
)


def count(kernels: int) -> int:
    """How many workers pay for so many kernels, beside this process."""
    free = free_memory()
    room = MOST if free is None else free // MEMORY
    found = min(default_threads(), MOST, kernels // WORTH, room) - 1
    return max(0, found) if _is_python(sys.executable) else 0


def _is_python(path: str | None) -> bool:
    """Whether the running program is a Python interpreter; it may be another program that embeds one."""
    return bool(path) and os.path.basename(str(path)).lower().startswith("python") and not hasattr(sys, "frozen")


class Crew:
    """A queue of kernels, and the workers that compile them beside this process.

    Each kernel comes once: from `take`, to be compiled here, or compiled from `finished`. `close` ends the workers.
    """

    def __init__(self, kernels: Sequence[Kernel], tier: Tier) -> None:
        self._tier = tier
        self._left, self._refused = deque(kernels), deque[Kernel]()
        self._done: SimpleQueue[tuple[Kernel, bytes]] = SimpleQueue()
        self._workers: dict[subprocess.Popen[bytes], float] = {}
        self._threads: list[threading.Thread] = []

    def hire(self) -> None:
        """Start one more worker, if possible."""
        pipe = subprocess.PIPE
        try:
            worker = subprocess.Popen(
                [sys.executable, "-c", _WORKER], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
        except OSError:
            return
        self._workers[worker] = time.monotonic()
        thread = threading.Thread(target=self._employ, args=(worker,), name="fastgraph compiles", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            worker.kill()
        else:
            self._threads.append(thread)

    def _employ(self, worker: subprocess.Popen[bytes]) -> None:
        """Send kernels to a worker, one at a time, until none is left or it fails."""
        kernel = None
        try:
            assert worker.stdin is not None and worker.stdout is not None
            _send(worker.stdin, sys.path)
            _send(worker.stdin, self._tier.name)
            while self._left:
                kernel = self._left.popleft()
                obj = store.made(kernel, self._tier)
                if obj is None:
                    self._workers[worker] = time.monotonic()
                    _send(worker.stdin, kernel)
                    obj = pickle.load(worker.stdout)
                if obj is None:
                    self._refused.append(kernel)
                else:
                    self._done.put((kernel, obj))
                kernel = None
        except Exception:  # whatever the matter is with a worker, what it was given is done here
            if kernel is not None:
                self._refused.append(kernel)

    def take(self) -> Kernel | None:
        """The next kernel for this process to compile; one at which a worker failed is not given to another worker."""
        for queue in (self._refused, self._left):
            try:
                return queue.popleft()
            except IndexError:
                pass
        return None

    def finished(self, wait: float) -> Iterator[tuple[Kernel, bytes]]:
        """The objects that workers finished since the last call; waits up to so many seconds for the first. A worker
        that stays silent is killed.
        """
        try:
            yield self._done.get(timeout=wait) if wait else self._done.get_nowait()
            while True:
                yield self._done.get_nowait()
        except Empty:
            pass
        for worker, since in self._workers.items():
            if time.monotonic() > since + PATIENCE and worker.poll() is None:
                worker.kill()

    def close(self) -> None:
        """Kill all workers."""
        self._left.clear()
        for worker in self._workers:
            worker.kill()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.communicate()


def _send(pipe: IO[bytes], what: Any) -> None:
    pickle.dump(what, pipe)
    pipe.flush()


def work(source: IO[bytes], target: IO[bytes]) -> None:
    """A worker's loop, in a process of its own: it ends with its input, in the midst of a kernel too, as a parent that
    is killed closes it. Errors are left to the parent, which will meet them too.
    """
    tier: Any = BY_NAME[pickle.load(source)]
    told: SimpleQueue[Kernel] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, told), daemon=True).start()
    while True:
        kernel = told.get()
        try:
            obj = store.compiled(kernel, tier)
        except Exception:
            obj = None
        _send(target, obj)


def _listen(source: IO[bytes], told: SimpleQueue[Kernel]) -> None:
    """Hand on the kernels that are read, and end the process where there are no more."""
    try:
        while True:
            told.put(pickle.load(source))
    finally:
        os._exit(0)

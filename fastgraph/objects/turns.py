"""Turns to compile. Processes that start together, as a server's, would each import a compiler and compile the same
kernels at once; so those that have no turn wait for what the others make.

A turn is one of the CPUs that a process may use: a locked file of the cache's directory. The system gives it back when
its process ends, however that comes. Who waits in vain for long, as its holder may be stopped or make other kernels,
goes on without a turn; so does who can't lock files.
"""

from __future__ import annotations

import errno
import os
import random
import time
from pathlib import Path

from ..cpus import allowed, default_threads
from ..locks import undisturbed

PATIENCE = 10.0
"""Seconds without a kernel that it waits for after which a process goes on; up to four times as many, by chance, so
that not all go on at once."""
LOOK = 0.05
"""Seconds from look to look at what others made."""


class Turns:
    """The turns of this process, by files in a directory. `close` gives them back."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._files: dict[int, int] = {}
        self.renew()

    def renew(self) -> None:
        """Be patient anew."""
        self._end = time.monotonic() + PATIENCE * random.uniform(1, 4)

    def wait(self) -> bool:
        """Wait for others for a moment; False, at once, with a turn or when waiting is no longer worth it."""
        if time.monotonic() > self._end or self.take():
            return False
        time.sleep(LOOK)
        return True

    def take(self) -> bool:
        """Take one more turn, or go on without where there are no files to lock; False when all are taken."""
        try:
            return any(self._locked(cpu) for cpu in _cpus() if cpu not in self._files)
        except (ImportError, OSError):
            return True

    def _locked(self, cpu: int) -> bool:
        with undisturbed():
            import fcntl  # Windows has none

        file = os.open(self._place / f".turn-{cpu}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._files[cpu] = file
        return True

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def _cpus() -> list[int]:
    """As many of the CPUs that this process may use as it may use at once."""
    return allowed()[: default_threads()]

"""Turns to compile. Processes that start together, as a server's, would each import a compiler and compile the same
kernels at once; so those that have no turn wait for what the others make.

A turn is one of the CPUs that a process may use: a locked file of the cache's directory. The system gives it back when
its process ends, however that comes. Holders may make other kernels, as `fastgraph kernels --build` does: there is one
turn more, which a process takes that has waited in vain for a few seconds, and no worker. Who does so for long, as
holders may be stopped, goes on without a turn; so does who can't lock files.
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
SOON = 3.0
"""Seconds without such a kernel after which a process may take the turn more."""
LOOK = 0.05
"""Seconds from look to look at what others made."""


class Turns:
    """The turns of this process, by files in a directory. `close` gives them back."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._files: dict[str, int] = {}
        self.renew()

    def renew(self) -> None:
        """Be patient anew."""
        self._begin = time.monotonic()
        self._end = self._begin + PATIENCE * random.uniform(1, 4)

    def wait(self) -> bool:
        """Wait for others for a moment; False, at once, with a turn or when waiting is no longer worth it."""
        if time.monotonic() > self._end or self.take():
            return False
        time.sleep(LOOK)
        return True

    def take(self) -> bool:
        """Take one more turn, or go on without where there are no files to lock; False when all are taken."""
        late = not self._files and time.monotonic() > self._begin + SOON
        names = [*map(str, _cpus()), *(["more"] if late else [])]
        try:
            return any(self._locked(name) for name in names if name not in self._files)
        except (ImportError, OSError):
            return True

    def _locked(self, name: str) -> bool:
        with undisturbed():
            import fcntl  # Windows has none

        file = os.open(self._place / f".turn-{name}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._files[name] = file
        return True

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def _cpus() -> list[int]:
    """As many of the CPUs that this process may use as it may use at once."""
    return allowed()[: default_threads()]

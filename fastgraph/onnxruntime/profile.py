"""A session's profile: a trace file for Chrome or Perfetto, of the load and of each run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import writing


class Profile:
    """Events since the session began. Runs are whole: what each step takes, `fastgraph bench --profile` measures."""

    def __init__(self, prefix: str) -> None:
        self.begin = time.monotonic_ns()
        self._path = _own_path(prefix)
        self._events: list[dict[str, Any]] = []

    @contextmanager
    def event(self, name: str) -> Iterator[None]:
        start = time.monotonic_ns()
        try:
            yield
        finally:
            took = time.monotonic_ns() - start
            event = {"cat": "Session", "name": name, "ph": "X", "pid": os.getpid(), "tid": 0, "args": {}}
            self._events.append(event | {"ts": (start - self.begin) // 1000, "dur": took // 1000})

    def write(self) -> str:
        """The file's path."""
        with writing(self._path), open(self._path, "w") as file:
            json.dump(self._events, file)
        return self._path


def _own_path(prefix: str) -> str:
    """The path of a new file, which is made now, named by the millisecond as onnxruntime does."""
    while True:
        now = time.time_ns() // 1_000_000
        path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S', time.localtime(now // 1000))}_{now % 1000:03}.json"
        try:
            open(path, "x").close()
        except FileExistsError:
            time.sleep(0.001)
        except OSError:  # `write` says what is wrong
            return path
        else:
            return path

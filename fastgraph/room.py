"""Free memory, checked before allocating: Linux promises more than it has, and kills processes that use it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .locks import undisturbed

if TYPE_CHECKING:
    from pathlib import Path

SLACK = 128
"""Kernels may read this many bytes past the end of a buffer: two vectors of the widest, less their first bytes."""

LARGE = 1 << 26
"""Bytes from which on free memory is checked."""


def need(nbytes: int) -> None:
    """MemoryError when so many bytes are more than is free."""
    if nbytes >= LARGE:
        free = free_memory()
        if free is not None and nbytes > free:
            raise MemoryError(f"{nbytes} bytes are needed, {free} are free")


def free_memory() -> int | None:
    """Bytes that this process may still allocate; None where the system does not say."""
    with undisturbed():
        from pathlib import Path  # small models never ask

    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = sum(int(lines[key].split()[0]) << 10 for key in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):
        return physical_memory()
    group = _group(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))
    return free if group is None else min(free, group)


def physical_memory() -> int | None:
    """Bytes of the machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _group(root: Path, membership: Path) -> int | None:
    """Bytes left of the least limit of Linux's control groups (version 2); file caches count as free."""
    try:
        lines = membership.read_text().splitlines()
        path = next(line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    left = [_left(folder) for folder in (root / path, *(root / path).parents) if folder.is_relative_to(root)]
    return min((n for n in left if n is not None), default=None)


def _left(folder: Path) -> int | None:
    try:
        most = int((folder / "memory.max").read_text())
        used = int((folder / "memory.current").read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(most - used + int(stat.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None  # "max": no limit

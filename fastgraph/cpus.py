"""How many CPUs this process may use, and what their caches hold."""

from __future__ import annotations

import math
import os
from functools import cache


def default_threads() -> int:
    """The CPUs that this thread may use now: its affinity, which servers set after they fork, and its control group's
    share of CPU time.
    """
    return max(1, min(len(allowed()), math.ceil(_own_limit())))


def allowed() -> list[int]:
    """The CPUs where this thread may run now."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


@cache
def _own_limit() -> float:
    return _cgroup_limit("/sys/fs/cgroup", "/proc/self/cgroup")


@cache
def level_two() -> int:
    """Bytes of a core's second-level cache that blocks of operands may count on: 1 MiB where it is smaller or unknown,
    at most 2 MiB.

    Where it is smaller, blocks for 1 MiB are as fast as smaller ones (measured on Zen 3, which has 512 KiB).
    """
    return min(max(_cache_bytes(2), 1 << 20), 1 << 21)


@cache
def near_bytes() -> int:
    """Bytes that a core may hope to find in the caches that it shares: a sixteenth of the third level, at least 12 MiB.

    Measured on Zen 4, and on a Xeon of 480 MiB, whose maps come from memory beyond some 32 MiB.
    """
    return max(_cache_bytes(3) // 16, 12 << 20)


def _cache_bytes(level: int) -> int:
    """The size of this level's cache; 0 where it is not known."""
    try:
        found = _text(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").strip()
    except OSError:
        return 0
    return int(found[:-1]) << 10 if found.endswith("K") and found[:-1].isdigit() else 0


def _cgroup_limit(root: str, membership: str) -> float:
    """CPUs that Linux control groups (version 1 or 2) allow; a large number when they set no limit."""
    try:
        lines = _text(membership).splitlines()
    except OSError:
        return 1e9
    limit = 1e9
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = f"{root}/{controllers}" if controllers else root
        names = path.strip("/").split("/")
        for depth in range(len(names) + 1):
            limit = min(limit, _quota("/".join([base, *names[:depth]])))
    return limit


def _quota(group: str) -> float:
    """CPUs that one control group allows."""
    try:
        if os.path.exists(f"{group}/cpu.max"):
            quota, period = _text(f"{group}/cpu.max").split()
        else:
            quota, period = (_text(f"{group}/cpu.cfs_{part}_us") for part in ("quota", "period"))
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else 1e9
    except (OSError, ValueError):
        return 1e9


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()

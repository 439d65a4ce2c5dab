"""How many CPUs this process may use."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path


@cache
def default_threads() -> int:
    """The CPUs that this process may use: its affinity, and its control group's share of CPU time."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, math.ceil(_cgroup_limit(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")))))


def _cgroup_limit(root: Path, membership: Path) -> float:
    """CPUs that Linux control groups (version 1 or 2) allow; a large number when they set no limit."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return 1e9
    limit = 1e9
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        own = base / path.lstrip("/")
        for group in (own, *own.parents):
            if group == root.parent:
                break
            limit = min(limit, _quota(group))
    return limit


def _quota(group: Path) -> float:
    """CPUs that one control group allows."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{part}_us").read_text() for part in ("quota", "period"))
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else 1e9
    except (OSError, ValueError):
        return 1e9

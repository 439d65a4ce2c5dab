"""Whether a measurement was disturbed: what else the machine did during each of its rounds.

A round is disturbed when in one of its bursts threads of this process were ready but not running for more than
MOST_LOST of the burst's time, and did not have its CPUs themselves, or when the hypervisor took a tick of these. It is
dropped for all engines: a call that is longer than a scheduler's slice always includes another process's slice, while
the median of short calls never does, so that disturbance favors the faster engine. Below MOST_LOST a call is too long
by at most twice that (half a burst is not timed, where one call fills it), and so is a ratio. Waiting of a thread's own
will, as pools do between calls, does not count.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from time import get_clock_info, perf_counter, process_time
from typing import Any

from .text import counted

if sys.platform != "win32":
    import resource

MOST_LOST = 0.01
"""Fraction of a burst's time. Kernel threads take some tenths of a percent, another program on the same CPU half."""
TASKS = Path("/proc/self/task")
STAT = Path("/proc/stat")
WATCHED = sys.platform != "win32" and get_clock_info("process_time").resolution < 1e-4
"""Whether this system counts context switches, and CPU time precisely."""
QUEUES = Path("/proc/self/schedstat").is_file()
"""Whether it counts `queued`. Without it, waiting can't be told from being preempted."""


@dataclass(frozen=True)
class Usage:
    """Resources of this process at a moment, or, as a difference, between two: seconds of wall time, and of CPU time,
    with that of children that ended; `queued` seconds in which its threads were ready but not running, `stolen` seconds
    of its CPUs; involuntary and voluntary context switches. `cpus`: how many it may use.
    """

    wall: float
    cpu: float
    queued: float
    stolen: float
    forced: int
    willing: int
    cpus: int = 1

    def __sub__(self, other: Usage) -> Usage:
        parts = {f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)}
        return Usage(**parts | {"cpus": self.cpus})

    @property
    def lost(self) -> float:
        """Seconds in which other processes ran: `queued`, but for what its own threads had of the CPUs meanwhile; or if
        no thread waited voluntarily at least the wall time without CPU time, as in a throttled group or where `queued`
        is not counted.
        """
        most = max(self.cpus * self.wall - self.cpu, 0.0)
        return max(min(self.queued, most), 0.0 if self.willing else self.wall - self.cpu)


def now() -> Usage:
    """The usage of this process up to now."""
    if not WATCHED:
        return Usage(wall := perf_counter(), wall, 0.0, 0.0, 0, 0)
    queued, stolen = _queued_seconds(), _stolen_seconds()
    used, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = process_time() + ended.ru_utime + ended.ru_stime
    return Usage(perf_counter(), cpu, queued, stolen, used.ru_nivcsw, used.ru_nvcsw, cpus())


def cpus() -> int:
    """How many CPUs this thread may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def disturbed(bursts: Sequence[Usage]) -> bool:
    """Whether to drop a round; `bursts`: the usage of each engine's burst."""
    return _queued(bursts) or _stolen(bursts)


def _queued(bursts: Sequence[Usage]) -> bool:
    return any(burst.lost > MOST_LOST * burst.wall for burst in bursts)


def _stolen(bursts: Sequence[Usage]) -> bool:
    return any(burst.stolen > 0 for burst in bursts)


def kept(rounds: Sequence[Sequence[Usage]], needed: int) -> list[int]:
    """The rounds that count: those that were not disturbed, or all if those are fewer than `needed`."""
    quiet = [i for i, bursts in enumerate(rounds) if not disturbed(bursts)]
    return quiet if len(quiet) >= needed else list(range(len(rounds)))


def report(rounds: Sequence[Sequence[Usage]], needed: int) -> dict[str, Any]:
    """What JSON keeps of the rounds: how many there were, how many were disturbed, and for which reasons; `noisy`,
    whether fewer than `needed` are left, so that all are `kept`; the `shares`, seconds stolen, forced switches a round,
    the load average of a minute; and `watched`, whether the system tells all that.
    """
    bursts = [burst for each in rounds for burst in each]
    away = sum(map(disturbed, rounds))
    return {
        "rounds": len(rounds),
        "disturbed": away,
        "reasons": {"queued": sum(map(_queued, rounds)), "stolen": sum(map(_stolen, rounds))},
        "noisy": len(rounds) - away < needed,
        **shares(bursts),
        "stolen_seconds": sum(burst.stolen for burst in bursts),
        "switches_a_round": sum(burst.forced for burst in bursts) / len(rounds),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "watched": WATCHED and (QUEUES or not any(burst.willing for burst in bursts)),
    }


def shares(bursts: Sequence[Usage]) -> dict[str, float]:
    """Of the wall time: `cpu_share`, which threads may bring above 1, and `lost_share`."""
    wall = sum(burst.wall for burst in bursts)
    return {"cpu_share": sum(b.cpu for b in bursts) / wall, "lost_share": sum(max(b.lost, 0.0) for b in bursts) / wall}


def text(found: dict[str, Any]) -> str:
    """A `report` as a sentence; empty when no round was disturbed."""
    if not found["watched"]:
        return "this system does not tell whether other programs disturb: close them"
    if not found["disturbed"]:
        return ""
    stolen = f", {found['stolen_seconds']:.2f} s stolen by the hypervisor" if found["stolen_seconds"] else ""
    load = f", load average {found['load']:.1f}" if found["load"] is not None else ""
    return (
        f"{found['disturbed']} of {counted(found['rounds'], 'round')} were disturbed by other programs (CPU time was "
        f"{found['cpu_share']:.0%} of wall time, involuntary switches {found['switches_a_round']:.0f} a round"
        f"{stolen}{load})"
    )


def _queued_seconds() -> float:
    """Of all threads that live; 0 where it is not counted."""
    total = 0
    for task in os.listdir(TASKS) if TASKS.is_dir() else ():
        with suppress(OSError, IndexError, ValueError):
            total += int((TASKS / task / "schedstat").read_bytes().split()[1])
    return total * 1e-9


def _stolen_seconds() -> float:
    """Of the CPUs that this thread may use."""
    try:
        mine = {f"cpu{n}" for n in os.sched_getaffinity(0)}
        rows = [line.split() for line in STAT.read_text().splitlines() if line.startswith("cpu")]
        return sum(int(row[8]) for row in rows if row[0] in mine) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, IndexError, ValueError):
        return 0.0

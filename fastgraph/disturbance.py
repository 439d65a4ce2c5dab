"""Whether a measurement was disturbed: what else the machine did during each of its rounds, and its neighbors.

A round is disturbed when in one of its bursts threads of this process were ready but not running for more than
MOST_LOST of the burst's time, and did not have its CPUs themselves, or when the hypervisor took a tick of these. It is
dropped for all engines: a call that is longer than a scheduler's slice always includes another process's slice, while
the median of short calls never does, so that disturbance favors the faster engine. Below MOST_LOST a call is too long
by at most twice that (half a burst is not timed, where one call fills it), and so is a ratio. Waiting of a thread's own
will, as pools do between calls, does not count.

A burst is on a shared core when probes of what the core can do took MOST_SLOW of their least time in the mean: a
neighbor outside of a virtual machine had the core's other hyper-thread, or the clock was lower. Engines lose more or
less by that, so that figures of a shared core are those of another machine. They don't mix: see `kept`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from time import get_clock_info, perf_counter, process_time
from typing import Any

from .text import counted

if sys.platform != "win32":
    import resource

MOST_LOST = 0.01
"""Fraction of a burst's time. Kernel threads take some tenths of a percent, another program on the same CPU half."""
MOST_SLOW = 1.12
"""Multiple of the least time of a probe. A neighbor makes it 1.2 to 1.6; the clock and the caches, some percent."""
SHARED = "a neighbor outside of this machine shared the core, or its clock was lower,"
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
    of its CPUs; involuntary and voluntary context switches. `cpus`: how many it may use. `probe`: of a burst, the
    mean seconds of probes of the core (0: there were none).
    """

    wall: float
    cpu: float
    queued: float
    stolen: float
    forced: int
    willing: int
    cpus: int = 1
    probe: float = 0.0

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


def slowest(bursts: Sequence[Usage]) -> float:
    """A round's slowest probe; infinite where it was disturbed. It is quiet below MOST_SLOW * the least of all."""
    return inf if disturbed(bursts) else max(burst.probe for burst in bursts)


def kept(rounds: Sequence[Sequence[Usage]], needed: int, least: float = inf) -> list[list[int]]:
    """By engine, the rounds that count; a probe of a quiet core takes `least`."""
    return _kept(rounds, needed, least)[1]


def _kept(rounds: Sequence[Sequence[Usage]], needed: int, least: float) -> tuple[str, list[list[int]]]:
    """The first of these that gives each engine `needed`, and its name: `rounds` that were quiet for all of them; its
    own quiet `bursts`, of whatever rounds; `all` that were not disturbed, or just all.
    """
    probes, most = [slowest(bursts) for bursts in rounds], MOST_SLOW * least
    count = range(len(rounds[0]))
    clean = [i for i, probe in enumerate(probes) if probe < inf]
    found = {
        "rounds": [[i for i in clean if probes[i] < most] for _ in count],
        "bursts": [[i for i in clean if rounds[i][engine].probe < most] for engine in count],
        "all": [clean for _ in count],
    }
    enough = ((name, each) for name, each in found.items() if min(map(len, each)) >= needed)
    return next(enough, ("all", [list(range(len(rounds))) for _ in count]))


def report(rounds: Sequence[Sequence[Usage]], needed: int, least: float = inf) -> dict[str, Any]:
    """What JSON keeps of the rounds: how many there were, how many were disturbed, and for which reasons; `noisy`,
    whether fewer than `needed` are left, so that all are `kept`; `shared`, how many of the others were on a core that a
    neighbor shared, and what was `kept`: quiet `rounds`, quiet `bursts`, or `all`; `quiet_bursts` by engine; the
    `shares`, seconds stolen, forced switches a round, the load average of a minute; and `watched`, whether the system
    tells of other programs.
    """
    bursts = [burst for each in rounds for burst in each]
    away = sum(map(disturbed, rounds))
    return {
        "rounds": len(rounds),
        "disturbed": away,
        "reasons": {"queued": sum(map(_queued, rounds)), "stolen": sum(map(_stolen, rounds))},
        "noisy": len(rounds) - away < needed,
        "shared": sum(MOST_SLOW * least <= slowest(each) < inf for each in rounds),
        "kept": _kept(rounds, needed, least)[0],
        "quiet_bursts": [sum(b.probe < MOST_SLOW * least for b in each) for each in zip(*rounds, strict=True)],
        **shares(bursts),
        "stolen_seconds": sum(burst.stolen for burst in bursts),
        "switches_a_round": sum(burst.forced for burst in bursts) / len(rounds),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "watched": WATCHED and (QUEUES or not any(burst.willing for burst in bursts)),
    }


def shares(bursts: Sequence[Usage]) -> dict[str, float]:
    """Shares of the wall time: `cpu_share`, which threads may bring above 1, and `lost_share`."""
    wall = sum(burst.wall for burst in bursts)
    return {"cpu_share": sum(b.cpu for b in bursts) / wall, "lost_share": sum(max(b.lost, 0.0) for b in bursts) / wall}


def text(found: dict[str, Any]) -> str:
    """A `report` as a sentence; empty when no round was disturbed, or on a shared core."""
    return "; ".join(filter(None, (_of_programs(found), _of_neighbors(found))))


def of_shared_core(found: Mapping[str, Any]) -> bool:
    """Whether the figures of a `report` are of a core that a neighbor shared, some or all of the time."""
    return bool(found.get("shared")) and found["kept"] == "all"


def _of_neighbors(found: Mapping[str, Any]) -> str:
    if not found.get("shared"):
        return ""
    which = {
        "rounds": ", which do not count",
        "bursts": ": each engine's bursts on a quiet core count, which are of different rounds",
        "all": ", and too few bursts were on a quiet one: these are figures of a shared core",
    }
    many = f"{found['shared']} of {counted(found['rounds'], 'round')}"
    return f"{SHARED} in {many}{which[found['kept']]}"


def _of_programs(found: Mapping[str, Any]) -> str:
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
    """Seconds for which threads of this process waited for a CPU; 0 where they are not counted."""
    total = 0
    for task in os.listdir(TASKS) if TASKS.is_dir() else ():
        with suppress(OSError, IndexError, ValueError):
            total += int((TASKS / task / "schedstat").read_bytes().split()[1])
    return total * 1e-9


def _stolen_seconds() -> float:
    """Seconds that a hypervisor took from the CPUs that this thread may use."""
    try:
        mine = {f"cpu{n}" for n in os.sched_getaffinity(0)}
        rows = [line.split() for line in STAT.read_text().splitlines() if line.startswith("cpu")]
        return sum(int(row[8]) for row in rows if row[0] in mine) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, IndexError, ValueError):
        return 0.0

"""Energy that the processor's packages used, where Linux tells (RAPL) and lets this user read it: since 2020 it takes
root, or a file that was made readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
Reading = tuple[int, ...]


def packages() -> list[Path]:
    """The folders of counters of whole packages that can be read."""
    found = []
    for folder in sorted(POWERCAP.glob("intel-rapl:*")):
        try:
            int((folder / "energy_uj").read_text())
            if (folder / "name").read_text().startswith("package"):
                found.append(folder)
        except (OSError, ValueError):
            continue
    return found


def reading(folders: Sequence[Path]) -> Reading:
    """Microjoules that each has counted."""
    return tuple(int((folder / "energy_uj").read_text()) for folder in folders)


def joules(folders: Sequence[Path], before: Reading, after: Reading) -> float | None:
    """What was used between two readings, everything on the packages together; None where nothing can be read. Counters
    begin again at 0.
    """
    if not folders:
        return None
    spent = [b - a for a, b in zip(before, after, strict=True)]
    ranges = [int((folder / "max_energy_range_uj").read_text()) for folder in folders]
    return sum(gap if gap >= 0 else gap + most for gap, most in zip(spent, ranges, strict=True)) * 1e-6

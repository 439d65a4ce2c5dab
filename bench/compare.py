"""Two saved runs of the benchmarks side by side: python bench/compare.py [OLD.json NEW.json], default the last two."""

from __future__ import annotations

import json
import sys
from math import exp, log
from pathlib import Path

from fastgraph.text import table


def medians(path: Path) -> dict[str, float]:
    """Seconds by test."""
    found = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return {one["fullname"]: one["stats"]["median"] for one in found}


def seconds_text(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3f} {unit}"
    return f"{seconds * 1e9:.1f} ns"


def compare(old: Path, new: Path) -> str:
    """A line per test that both runs have, and the geometric mean of new / old."""
    before, after = medians(old), medians(new)
    shared = [name for name in before if name in after]
    rows = [("benchmark", "old", "new", "new / old")]
    for name in shared:
        pair = before[name], after[name]
        rows.append((name, *map(seconds_text, pair), f"{pair[1] / pair[0]:.3f}"))
    lines = [f"old: {old}", f"new: {new}", *table(rows, right=(1, 2, 3))]
    if shared:
        mean = exp(sum(log(after[name] / before[name]) for name in shared) / len(shared))
        lines.append(f"geometric mean of new / old: {mean:.3f} ({len(shared)} benchmarks)")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    paths = [Path(arg) for arg in argv] or sorted(Path(".benchmarks").rglob("*.json"), key=lambda p: p.name)[-2:]
    if len(paths) != 2:
        print("error: two saved runs are needed: run the benchmarks twice, or name two files", file=sys.stderr)
        return 2
    print(compare(*paths))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

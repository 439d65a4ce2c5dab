"""Two saved runs side by side: python bench/compare.py [OLD.json NEW.json].

They are of `pytest bench`, the last two by default, or what `fastgraph bench --json` wrote.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import exp, log
from pathlib import Path

from fastgraph.errors import InputError
from fastgraph.text import table


def medians(path: Path) -> dict[str, float]:
    """Seconds by test, of rounds that were left alone where it has them, or by model and engine. InputError when the
    file is another.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if "models" in found:
            rows = [(model["model"], row) for model in found["models"] for row in model["engines"]]
            return {f"{model}, {row['name']}": row["p50_ms"] / 1e3 for model, row in rows if "p50_ms" in row}
        return {one["fullname"]: one["extra_info"].get("median", one["stats"]["median"]) for one in found["benchmarks"]}
    except (ValueError, KeyError, TypeError) as error:
        what = "expected what pytest bench saves, or fastgraph bench --json writes"
        raise InputError(f"{path}: {what}, found {type(error).__name__}: {error}") from None


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
    if not shared:
        lines.append("no benchmark is in both")
    else:
        mean = exp(sum(log(after[name] / before[name]) for name in shared) / len(shared))
        lines.append(f"geometric mean of new / old: {mean:.3f} ({len(shared)} benchmarks)")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=lines)
    parser.add_argument("file", metavar="FILE", nargs="*", type=Path)
    paths = parser.parse_args(argv).file or sorted(Path(".benchmarks").rglob("*.json"), key=lambda p: p.name)[-2:]
    if len(paths) != 2:
        print("error: two saved runs are needed: run the benchmarks twice, or name two files", file=sys.stderr)
        return 2
    try:
        print(compare(*paths))
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

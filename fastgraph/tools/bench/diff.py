"""Two results of `fastgraph bench --json` side by side: what got slower, and whether that can be told from noise.

A unit is not a call but a round's median, and of long runs that of some consecutive rounds, as neighbors are alike.
What differs from process to process (where memory lies) is in neither sample: a threshold is there for that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...disturbance import of_shared_core
from ...errors import InputError
from .figures import blocks, change
from .text import digits, fitted, wrapped

SIGNIFICANT = 0.01
"""The greatest p of a difference that is taken for one. It takes 6 rounds on both sides."""
HEADS = ("model", "engine", "version", "old ms", "new ms", "new / old", "95 %", "p", "")
LEAST_WANTED = ("p", "95 %", "version")
SAME = ("cpu", "cpus")
"""Facts that two machines must have in common."""
NOTED = ("governor", "turbo", "system", "python")


def diff(old: str, new: str, threshold: float = 0.05, allow_noise: bool = False) -> dict[str, Any]:
    """What two files hold in common: `rows` of model, engine, versions, `old_ms` and `new_ms` (medians of rounds), and
    what `figures.change` gives, below 1 where new is faster. `verdict`: slower or faster where it is so by more than
    `threshold` and significantly, unsure where it is not significant, same, or `not comparable`, with `why`: that other
    programs disturbed may be allowed. `notes`: what else differs. InputError when nothing is comparable.
    """
    one, two = _read(old), _read(new)
    if reasons := _reasons(one, two):
        raise InputError(f"{old} and {new} can't be compared: {'; '.join(reasons)}. Measure both in the same place")
    before, after = _by_name(one["models"]), _by_name(two["models"])
    shared = [name for name in before if name in after]
    if not shared:
        raise InputError(f"{old} and {new} have no model in common: {', '.join(before)}; {', '.join(after)}")
    rows = [row for name in shared for row in _rows(name, before[name], after[name], threshold, allow_noise)]
    return {
        "old": old, "new": new, "threshold": threshold, "rows": rows,
        "notes": [*_notes(one, two), *_only(before, after), *_drift(rows)],
    }  # fmt: skip


def exit_code(found: Mapping[str, Any]) -> int:
    """1 when something got slower, else 2 when something could not be compared, else 0."""
    verdicts = {row["verdict"] for row in found["rows"]}
    return 1 if "slower" in verdicts else 2 if "not comparable" in verdicts else 0


def text(found: Mapping[str, Any], width: int | None = None) -> str:
    notes = [f"{row['model']}, {row['engine']}: not comparable: {row['why']}" for row in found["rows"] if "why" in row]
    most = f"more than {found['threshold']:.0%}, and p < {SIGNIFICANT}"
    said = f"new / old: below 1, new is faster; slower and faster: by {most}"
    rows = [HEADS, *map(_cells, found["rows"])]
    lines = fitted(rows, width, LEAST_WANTED, left=3)
    return "\n".join(
        [f"old: {found['old']}", f"new: {found['new']}", *lines, *wrapped([*notes, *found["notes"], said], width)]
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    versions = " -> ".join(dict.fromkeys((row["old_version"], row["new_version"])))
    known = row["model"], row["engine"], versions, digits(row["old_ms"]), digits(row["new_ms"])
    if "why" in row:
        return (*known, "", "", "", row["verdict"])
    low, high = row["interval"]
    return (*known, f"{row['change']:.3f}", f"{low:.3f}-{high:.3f}", f"{row['p']:.2g}", row["verdict"])


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = [row for model in found["models"] for row in model["engines"] if "unavailable" not in row]
        assert all(len(row["medians_ms"]) and row["name"] for row in rows)
        assert {"cpu", "cpus"} <= found["machine"].keys()
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        why = f"expected what fastgraph bench --json wrote, with the rounds' medians ({type(error).__name__}: {error})"
        raise InputError(f"{path}: {why}. Measure again with this version") from None
    return found


def _reasons(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    pairs = [(key, one["machine"].get(key), two["machine"].get(key)) for key in SAME]
    pairs.append(("mode", one.get("mode"), two.get("mode")))
    return [f"{what} {a} and {b}" for what, a, b in pairs if a != b]


def _by_name(models: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By the files' names; by paths where names are not enough."""
    names = [Path(model["model"]).name for model in models]
    return {
        name if names.count(name) == 1 else model["model"]: model for name, model in zip(names, models, strict=True)
    }


def _rows(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], threshold: float, allow_noise: bool = False
) -> list[dict[str, Any]]:
    """A row for each engine that both have."""
    before, after = ({row["name"]: row for row in each["engines"] if "medians_ms" in row} for each in (old, new))
    why = _differences(old, new, allow_noise)
    rows = []
    for engine in (name for name in before if name in after):
        a, b = before[engine], after[engine]
        row: dict[str, Any] = {"model": name, "engine": engine}
        row |= {"old_version": a["version"], "new_version": b["version"]}
        row |= {"old_ms": float(np.median(a["medians_ms"])), "new_ms": float(np.median(b["medians_ms"]))}
        if why:
            row |= {"verdict": "not comparable", "why": why}
        else:
            row |= change(blocks(a["medians_ms"]), blocks(b["medians_ms"]))
            row["verdict"] = _verdict(row, threshold)
        rows.append(row)
    return rows


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], allow_noise: bool) -> str:
    pairs = [(key, old.get(key), new.get(key)) for key in ("threads", "inputs", "streams")]
    found = [f"{key} {a} and {b}" for key, a, b in pairs if a != b]
    noisy = [what for what, each in (("old", old), ("new", new)) if each["disturbance"]["noisy"]]
    if noisy and not allow_noise:
        found.append(f"other programs disturbed the {' and the '.join(noisy)} (--allow-noise takes it all the same)")
    shared = [what for what, each in (("old", old), ("new", new)) if of_shared_core(each["disturbance"])]
    if shared and not allow_noise:
        found.append(
            f"a neighbor shared the core of the {' and the '.join(shared)} (--allow-noise takes it all the same)"
        )
    return "; ".join(found)


def _verdict(found: Mapping[str, Any], threshold: float) -> str:
    if 1 / (1 + threshold) <= found["change"] <= 1 + threshold:
        return "same"
    if found["p"] >= SIGNIFICANT:
        return "unsure"
    return "slower" if found["change"] > 1 else "faster"


def _notes(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    a, b = one["machine"], two["machine"]
    return [f"{key}: {a.get(key)}, then {b.get(key)}" for key in NOTED if a.get(key) != b.get(key)]


def _only(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Models that only one file has, and tiers and precisions that differ."""
    pairs = (("old", before, after), ("new", after, before))
    alone = [(what, [name for name in one if name not in two]) for what, one, two in pairs]
    said = [f"only in {what}: {', '.join(names)}" for what, names in alone if names]
    for what, key in (("tier", "isa"), ("precision", "precision")):
        both = {name: (before[name].get(key), after[name].get(key)) for name in before if name in after}
        said += [f"{name}: {what} {a}, then {b}" for name, (a, b) in both.items() if a != b]
    return said


def _drift(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Other engines that changed without another version: then the machine did."""
    moved = [row for row in rows if row["verdict"] in ("slower", "faster") and row["engine"] != "fastgraph"]
    same = [row for row in moved if row["old_version"] == row["new_version"]]
    said = dict.fromkeys(f"{row['engine']} is {row['verdict']} and of the same version" for row in same)
    return [f"the machine itself seems to have changed: {'; '.join(said)}"] if said else []

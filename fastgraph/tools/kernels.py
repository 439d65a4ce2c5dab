"""`fastgraph kernels`: which kernels of a tier the cache has; builds the missing ones.

The machine need not be able to run them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import FastgraphError
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import kernels_of, row
from ..kernels.isa.tiers import TIERS, Tier
from ..objects import store
from ..objects.cache import objects
from ..objects.progress import Progress, terminal
from ..objects.trust import Untrusted
from ..text import bytes_text, table


def report(tier: Tier) -> dict[str, Any]:
    """The tier, the folder of the cache, and each kernel: its family, name, parameters, the tier that it is made for
    and the bytes of its object in the cache, None where it is missing.
    """
    place = store.folder()
    safe = store.trusted(place)
    found = []
    for kernel, made_for in wanted(tier):
        obj = store.read(store.entry(place, kernel, made_for), safe)
        found.append(
            {
                "family": row(kernel.name).family,
                "kernel": kernel.name,
                "params": dict(kernel.params),
                "tier": made_for.name,
                "bytes": None if obj is None else len(obj),
            }
        )
    return {"tier": tier.name, "folder": str(place), "kernels": found}


def wanted(tier: Tier) -> list[tuple[Kernel, Tier]]:
    """Each kernel of a tier with the tier it is compiled for: those that run the others are for the narrowest."""
    shared = TIERS[0]
    core = [(kernel, shared) for kernel in kernels_of(shared) if row(kernel.name).family == "core"]
    return [*core, *((kernel, tier) for kernel in kernels_of(tier) if row(kernel.name).family != "core")]


def build(tier: Tier) -> tuple[int, float]:
    """Compile what the cache lacks, with as many processes as pay: how many kernels, and the seconds.

    FastgraphError when the cache's folder can't be written (then nothing is compiled), or not all kernels could be
    written.
    """
    place, began = store.folder(), time.perf_counter()
    _check_writable(place)
    safe, progress = store.trusted(place), terminal if sys.stderr.isatty() else _lines()
    missing: dict[Tier, list[Kernel]] = {}
    for kernel, made_for in wanted(tier):
        if store.read(store.entry(place, kernel, made_for), safe) is None:
            missing.setdefault(made_for, []).append(kernel)
    for made_for, kernels in missing.items():
        objects(kernels, made_for, progress)
        lost = sum(not store.entry(place, kernel, made_for).exists() for kernel in kernels)
        if lost:
            raise FastgraphError(f"{lost} of {len(kernels)} kernels could not be kept in {place}: is there no room?")
    return sum(map(len, missing.values())), time.perf_counter() - began


def _check_writable(place: Path) -> None:
    try:
        store.prepare(place)
        with tempfile.TemporaryFile(dir=place):
            pass
    except (OSError, Untrusted) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FastgraphError(
            f"kernels can't be kept in {place}: {what}; set FASTGRAPH_CACHE_DIR to a folder that you can write"
        ) from error


def _lines() -> Progress:
    """Progress for a file or a pipe: a line for each tenth."""
    said = -1

    def progress(done: int, total: int, label: str) -> None:
        nonlocal said
        if total and (tenth := 10 * done // total) != said:
            said = tenth
            print(f"compiling kernels {done}/{total}", file=sys.stderr, flush=True)

    return progress


def text(found: dict[str, Any]) -> str:
    """A line for each kernel of the table with its objects, and the sums by family and of all."""
    lines = [("family", "kernel", "objects", "cached", "missing", "bytes")]
    for family in dict.fromkeys(one["family"] for one in found["kernels"]):
        own = [one for one in found["kernels"] if one["family"] == family]
        names = list(dict.fromkeys(one["kernel"] for one in own))
        lines += [(family, name, *_sums([one for one in own if one["kernel"] == name])) for name in names]
        if len(names) > 1:
            lines.append((family, "(all)", *_sums(own)))
    lines.append(("(all)", "", *_sums(found["kernels"])))
    return "\n".join([f"{found['tier']}, in {found['folder']}", *table(lines, right=range(2, 6))])


def _sums(own: Sequence[dict[str, Any]]) -> tuple[str, str, str, str]:
    sizes = [one["bytes"] for one in own if one["bytes"] is not None]
    return str(len(own)), str(len(sizes)), str(len(own) - len(sizes)), bytes_text(sum(sizes))

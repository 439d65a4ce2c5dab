"""`fastgraph kernels`: which kernels of a tier came ready or are in the cache; builds the missing ones.

The machine need not be able to run them.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import FastgraphError
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import kernels_of, row
from ..kernels.isa.tiers import BY_NAME, TIERS, Tier
from ..objects import ready, store
from ..objects.cache import objects
from ..objects.progress import Progress, terminal
from ..objects.trust import Untrusted
from ..text import bytes_text, table


def report(tier: Tier) -> dict[str, Any]:
    """The tier, the folder of the cache, what came with the package, and each kernel: its family, name, parameters, the
    tier that it is made for, whether it came with the package, and the bytes of its object, None where it is missing.
    """
    place = store.folder()
    safe = store.trusted(place)
    paths = {pair: store.entry(place, *pair) for pair in wanted(tier)}
    came = ready.find(path.name for path in paths.values())
    found = []
    for (kernel, made_for), path in paths.items():
        obj = came.get(path.name) or store.read(path, safe)
        found.append(
            {
                "family": row(kernel.name).family,
                "kernel": kernel.name,
                "params": dict(kernel.params),
                "tier": made_for.name,
                "ready": path.name in came,
                "bytes": None if obj is None else len(obj),
            }
        )
    return {"tier": tier.name, "folder": str(place), "ready": ready.state(), "kernels": found}


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
    built = 0
    for made_for, kernels in _by_tier(tier).items():
        missing = [kernel for kernel, obj in zip(kernels, store.find(kernels, made_for), strict=True) if obj is None]
        objects(missing, made_for, _shown())
        lost = sum(not store.entry(place, kernel, made_for).exists() for kernel in missing)
        if lost:
            raise FastgraphError(f"{lost} of {len(missing)} kernels could not be kept in {place}: is there no room?")
        built += len(missing)
    return built, time.perf_counter() - began


def archive(tiers: Sequence[str], path: Path) -> None:
    """Write all kernels of these tiers, compiled by now, as the archive of a package (objects/ready.py).

    FastgraphError where there is no such tier, CompilerError where a kernel can't be compiled.
    """
    if unknown := set(tiers) - BY_NAME.keys():
        raise FastgraphError(f"ready kernels: {', '.join(sorted(unknown))} is no tier: choose of {', '.join(BY_NAME)}")
    place, found = store.folder(), {}
    for name in tiers:
        for made_for, kernels in _by_tier(BY_NAME[name]).items():
            for kernel, obj in zip(kernels, objects(kernels, made_for, _shown()), strict=True):
                found[store.entry(place, kernel, made_for).name] = obj
    compilers = [f"{package} {version(package)}" for package in ("numba", "llvmlite")]
    python = f"Python {platform.python_version()}"
    ready.write(path, found, ", ".join([*compilers, python, f"for {sys.platform} {platform.machine()}"]))


def _by_tier(tier: Tier) -> dict[Tier, list[Kernel]]:
    """The kernels of a tier by the tier they are compiled for."""
    found: dict[Tier, list[Kernel]] = {}
    for kernel, made_for in wanted(tier):
        found.setdefault(made_for, []).append(kernel)
    return found


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


def _shown() -> Progress:
    """Progress in place on a terminal; for a file or a pipe a line for each tenth."""
    if sys.stderr.isatty():
        return terminal
    said = -1

    def progress(done: int, total: int, label: str) -> None:
        nonlocal said
        if total and (tenth := 10 * done // total) != said:
            said = tenth
            print(f"compiling kernels {done}/{total}", file=sys.stderr, flush=True)

    return progress


def text(found: dict[str, Any]) -> str:
    """A line for each kernel of the table with its objects, and the sums by family and of all."""
    lines: list[tuple[str, ...]] = [("family", "kernel", "objects", "ready", "cached", "missing", "bytes")]
    for family in dict.fromkeys(one["family"] for one in found["kernels"]):
        own = [one for one in found["kernels"] if one["family"] == family]
        names = list(dict.fromkeys(one["kernel"] for one in own))
        lines += [(family, name, *_sums([one for one in own if one["kernel"] == name])) for name in names]
        if len(names) > 1:
            lines.append((family, "(all)", *_sums(own)))
    lines.append(("(all)", "", *_sums(found["kernels"])))
    head = [f"{found['tier']}, in {found['folder']}", f"ready with the package: {found['ready']}"]
    return "\n".join([*head, *table(lines, right=range(2, 7))])


def _sums(own: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    came = sum(one["ready"] for one in own)
    sizes = [one["bytes"] for one in own if one["bytes"] is not None]
    return *map(str, (len(own), came, len(sizes) - came, len(own) - len(sizes))), bytes_text(sum(sizes))

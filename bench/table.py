"""Measure networks beside other engines, and print a table of them as Markdown.

  python -m bench.table FILE...             prints it
  python -m bench.table --write FILE...     writes it into README.md of this checkout instead

All engines run on one thread and one CPU, in turns, on the same inputs; their results must agree. Needs
pip install 'fastgraph-runtime[bench]'; bench/zoo/ makes networks. Where other programs disturb too much there is no
table, and the exit code is 3: close them, or add --allow-noise, and the table says so.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import fastgraph as fg
from docs.pages import put
from fastgraph.disturbance import of_shared_core
from fastgraph.errors import FastgraphError
from fastgraph.tools.bench import agrees, compare, geomean, machine, pinned, refuse
from fastgraph.tools.feeds import random_feeds
from fastgraph.tools.profile import fed, profile, total

PEERS = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO", "litert": "LiteRT"}
RUNS = {".onnx": ("onnxruntime", "openvino")}
"""Engines for files that end so; others have LiteRT in place of onnxruntime."""
SECONDS = 6.0


def measured(path: str, allow_noise: bool) -> dict[str, Any]:
    model = fg.load(path, threads=1)
    peers = RUNS.get(Path(path).suffix, ("litert", "openvino"))
    feeds = random_feeds(model, {})
    found = compare(path, feeds, peers, seconds=SECONDS)
    if not agrees(found):
        raise FastgraphError(f"{path}: results disagree: fastgraph verify {shlex.quote(path)} says where")
    if not allow_noise:
        refuse(found)
    plan = fed(model, feeds)
    with pinned(1):
        return found | {"least_us": total(profile(plan))["least_us"]}


def row(found: dict[str, Any]) -> str:
    """Milliseconds of fastgraph, and the share of them that this machine needs at least; for each other engine the
    ratio of fastgraph's time to its own, and its own.
    """
    engines = {engine["name"]: engine for engine in found["engines"] if "p50_ms" in engine}
    cells = [f"{e['ratio']:.2f} ({ms(e)})" if (e := engines.get(name)) else "" for name in PEERS]
    arena = f"{found['arena_bytes'] / 1024:,.0f}"
    own = engines["fastgraph"]
    return f"| {' | '.join([Path(found['model']).name, ms(own), share(found, own), *cells, arena])} |"


def share(found: dict[str, Any], own: dict[str, Any]) -> str:
    """The least times of all steps, by the peaks and rates measured here, over the time of a run."""
    return f"{found['least_us'] / (1e3 * own['p50_ms']):.0%}" if found["least_us"] else ""


def ms(engine: dict[str, Any]) -> str:
    return f"{engine['p50_ms']:.{2 if engine['p50_ms'] >= 0.1 else 4}f}"


def text(results: list[dict[str, Any]], command: str) -> str:
    heads = ["network", "fastgraph ms", "limit", *(f"/ {name} (ms)" for name in PEERS.values()), "arena KiB"]
    means = [geomean(results, name) for name in PEERS]
    return "\n".join([
        f"| {' | '.join(heads)} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
        *map(row, results),
        f"| {' | '.join(['geometric mean', '', '', *(f'{mean:.2f}' if mean else '' for mean in means), ''])} |",
        "",
        "Ratios are fastgraph's time / the engine's, the median over the rounds: below 1, fastgraph is faster. In",
        "brackets are the engine's milliseconds. limit: the share of fastgraph's time that the machine needs at least,",
        "by its peak of multiply-adds, or rate of bytes, for each step (Winograd's kernels do fewer multiply-adds than",
        f"are counted). {where(results)}",
        f"Weights are random. {quiet(results)} `{command}`",
    ])  # fmt: skip


def where(results: list[dict[str, Any]]) -> str:
    """The machine and the versions of all."""
    versions = {row["name"]: row["version"] for found in results for row in found["engines"] if "version" in row}
    host = machine()
    return (
        f"Medians on one thread of {host['cpu']} (tier {results[0]['isa']}), {host['system'].split('-')[0]}, "
        f"Python {host['python']}, {date.today()}; {', '.join(f'{k} {v}' for k, v in versions.items())}."
    )


def quiet(results: list[dict[str, Any]]) -> str:
    """How many rounds other programs disturbed, and neighbors, and where too few were left."""
    keys = ("rounds", "disturbed", "shared")
    rounds, away, shared = (sum(found["disturbance"][key] for found in results) for key in keys)
    said = f"{away} of {rounds} rounds were disturbed by other programs, and thrown away."
    if shared:
        said += f" So were {shared}, in which a neighbor outside of this machine shared the core."
    if noisy := _names(found for found in results if found["disturbance"]["noisy"]):
        said += f" NOISY: those of {noisy} were kept, as too few were left."
    if bursts := _names(found for found in results if found["disturbance"]["kept"] == "bursts"):
        said += f" Of {bursts}, quiet bursts of different rounds count."
    if kept := _names(found for found in results if of_shared_core(found["disturbance"])):
        said += f" SHARED CORE: so it was for the figures of {kept}, as too few were left."
    return said


def _names(results: Iterable[dict[str, Any]]) -> str:
    return ", ".join(Path(found["model"]).name for found in results)


def main(argv: Sequence[str]) -> int:
    lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.table", description=__doc__, formatter_class=lines)
    parser.add_argument("file", metavar="FILE", nargs="+", help="a network")
    parser.add_argument("--write", action="store_true", help="write the table into README.md, in place of its own")
    parser.add_argument("--allow-noise", action="store_true", help="also where other programs disturb, with a mark")
    args = parser.parse_args(argv)
    names = " ".join(shlex.quote(Path(path).name) for path in args.file)
    try:
        found = text([measured(path, args.allow_noise) for path in args.file], f"python -m bench.table {names}")
    except FastgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    if args.write:
        put("results", found)
        return 0
    print(found)
    print(f"To write it into README.md: python -m bench.table --write {shlex.join(argv)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

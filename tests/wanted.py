"""The kernels that networks want, found by planning alone: nothing is compiled or run.

    python -m tests.wanted --count 5000          random graphs, files of shared/models and of $FASTGRAPH_ZOO

--seed N        the first seed of random graphs
--no-files      random graphs alone
--isa TIER ...  these tiers (default: all; this machine need not have them)

Prints what no plan could be made of, and for each row of the table how many of its kernels were wanted. Exit code 1
when a plan failed or wanted a kernel that the table does not list, and when a tier lists more than GOAL.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastgraph.errors import FastgraphError, GraphError
from fastgraph.frontends import read
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import kernels_of, rows
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier
from fastgraph.tools.numpy_operators import files, plan_of
from tests.compositions.check import small_networks_count
from tests.compositions.forms import FORMS, Declined
from tests.compositions.job import job

GOAL = 460
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "models"


@dataclass
class Wanted:
    """The kernels of each tier with how many plans want each. `refused`: files that say what no plan is made of;
    `failed`: those whose plan should have been made.
    """

    kernels: dict[str, Counter[Kernel]] = field(default_factory=lambda: {tier.name: Counter() for tier in TIERS})
    failed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    plans: int = 0

    def add(self, what: str, source: str | bytes, tiers: Sequence[Tier] = TIERS) -> None:
        """Plan a file or its bytes for each tier."""
        try:
            graph = read(source)
        except FastgraphError as error:
            self.refused.append(f"{what}: {error}")
            return
        for tier in tiers:
            try:
                self.kernels[tier.name].update(plan_of(graph, tier).program.kernels())
                self.plans += 1
            except GraphError as error:
                self.failed.append(f"{what}, {tier.name}: {error}")
            except (FastgraphError, MemoryError) as error:
                self.refused.append(f"{what}, {tier.name}: {error}")

    def unlisted(self, tier: Tier) -> list[Kernel]:
        """Those wanted that the table does not list."""
        listed = set(kernels_of(tier))
        return [kernel for kernel in self.kernels[tier.name] if kernel not in listed]

    def text(self, tier: Tier) -> str:
        """A line for each row: how many of its kernels are wanted, and are there."""
        found = self.kernels[tier.name]
        lines = [f"{tier.name}: {len(found)} wanted of {len(kernels_of(tier))} ({self.plans} plans)"]
        for each in rows().values():
            own = [kernel for kernel in found if kernel.name == each.name]
            lines.append(f"  {each.family:10} {each.name:24} {len(own):5} of {len(each.kernels(tier)):5}")
        return "\n".join(lines)


def random_files(seeds: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """Files that hold random compositions, in all formats; those that a format can't say are left out."""
    for seed in seeds:
        chosen = job(seed)
        try:
            yield f"seed {seed}, {chosen.form}", FORMS[chosen.form](chosen.net()).source
        except Declined:
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--no-files", action="store_true")
    parser.add_argument("--isa", nargs="*", choices=list(BY_NAME), default=list(BY_NAME))
    options = parser.parse_args()
    tiers, wanted = [BY_NAME[name] for name in options.isa], Wanted()
    folders = [SHARED, *map(Path, filter(None, [os.environ.get("FASTGRAPH_ZOO")]))]
    for path in [] if options.no_files else files(map(str, folders)):
        wanted.add(path, path, tiers)
    with small_networks_count():
        for what, source in random_files(range(options.seed, options.seed + options.count)):
            wanted.add(what, source, tiers)
    print(*(f"refused: {line}"[:300] for line in wanted.refused), sep="\n")
    print(*(f"FAILED: {line}"[:600] for line in wanted.failed), sep="\n")
    sound = not wanted.failed
    for tier in tiers:
        print(wanted.text(tier))
        for kernel in (unlisted := wanted.unlisted(tier)):
            print(f"  NOT LISTED: {kernel}")
        sound &= not unlisted and len(kernels_of(tier)) <= GOAL
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())

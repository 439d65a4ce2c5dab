"""What this machine can do, measured: multiply-adds in registers, and moving memory of a given size.

python bench/roofline.py [TIER]         prints them, on one core; default: the widest tier
"""

from __future__ import annotations

import argparse

from fastgraph import disturbance
from fastgraph.kernels.isa.tiers import Tier, choose, usable
from fastgraph.text import bytes_text, table
from fastgraph.tools.bench import pinned
from fastgraph.tools.peaks import SIZES, bandwidth, measures


def main(tier: Tier) -> None:
    figures = [(name, peak, "GMAC/s") for name, peak in measures(tier).items()]
    figures += [(f"memory, {bytes_text(size)}", lambda size=size: bandwidth(size, tier), "GB/s") for size in SIZES]
    rows, usage = [], []
    with pinned(1):
        for what, measure, unit in figures:
            before = disturbance.now()
            rows.append((what, f"{measure() / 1e9:.1f}", unit))
            usage.append([disturbance.now() - before])
    print("\n".join([f"one core, {tier.name}, the best of several tries", *table(rows, right=(1,))]))
    if said := disturbance.text(disturbance.report(usage, len(usage))):
        print(f"they may be low: {said}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tier", metavar="TIER", nargs="?", choices=[tier.name for tier in usable()])
    main(choose(parser.parse_args().tier))

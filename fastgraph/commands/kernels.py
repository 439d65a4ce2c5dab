"""`fastgraph kernels`."""

from __future__ import annotations

import argparse

from ..kernels.isa.tiers import BY_NAME
from . import options
from .common import as_json, show

SUMMARY = "list all kernels, and compile those that the cache lacks"
DESCRIPTION = """\
List the kernels that any network can want on a tier, and which of them came ready with the package or are in the
cache of compiled kernels. A load compiles those that it wants and neither has.

  fastgraph kernels                         objects by family and kernel, those ready, in the cache, and their bytes
  fastgraph kernels --build                 compile all that are missing, with all CPUs
  fastgraph kernels --build --isa avx2      for another machine: this one need not have the instructions
  fastgraph kernels --json                  each with its parameters

For a container or a read-only system, build into a folder of the image, which loads then only read:

  FASTGRAPH_CACHE_DIR=/opt/fastgraph fastgraph kernels --build && chmod -R a+rX /opt/fastgraph

and set FASTGRAPH_CACHE_DIR=/opt/fastgraph where it runs. The folder must belong to root or to the user who runs
models, with the same versions of fastgraph, numba and Python.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.isa(sub, tuple(BY_NAME))
    sub.add_argument("--build", action="store_true", help="compile what is missing")
    sub.add_argument("--json", action="store_true", help="print JSON, with each kernel")


def command(args: argparse.Namespace) -> int:
    from ..kernels.isa.tiers import choose
    from ..tools import kernels

    tier = BY_NAME[args.isa] if args.isa else choose()
    made = kernels.build(tier) if args.build else None
    found = kernels.report(tier)
    show(as_json(found) if args.json else kernels.text(found))
    if made and not args.json:
        show(f"{made[0]} compiled in {made[1]:.1f} s")
    return 0

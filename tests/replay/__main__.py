"""Names the kernels whose code is another than it was at a commit.

Builds the IR of every kernel of the closed set, for every tier, of this working tree and of the commit. Texts that
differ are compared after simplification, and then as machine code. Exit code: 0 when no kernel differs, is missing or
is new; 1 otherwise; 2 for wrong use.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from functools import partial
from typing import NamedTuple

from fastgraph.kernels.isa.tiers import BY_NAME
from tests.replay import trees
from tests.replay.collect import FAILED
from tests.replay.same import LEVELS, level, machine_code, simplified

GIT = trees.History()
LISTED = 40
"""How many kernels of a kind a line names."""


class Compared(NamedTuple):
    """A tier's kernels by what became of them: one of LEVELS, "can't be built", "missing", "new"."""

    tier: str
    names: Mapping[str, Sequence[str]]

    def others(self, strict: bool) -> list[str]:
        """The kinds in which a kernel is not the same; when strict, all but the first of LEVELS."""
        return [kind for kind in self.names if kind not in LEVELS[: 1 if strict else 3]]

    def text(self, strict: bool) -> str:
        """How many there are of each kind, and which are not the same."""
        total, others = sum(map(len, self.names.values())), self.others(strict)
        counts = (f"{len(names)} {kind}{_list(names) if kind in others else ''}" for kind, names in self.names.items())
        return f"{self.tier}: " + ", ".join([f"{total} kernels", *counts])


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f": {' '.join(names[:LISTED])}{more}"


def compare(tier: str, now: Mapping[str, str], then: Mapping[str, str]) -> Compared:
    """A tier's IR texts by kernel, at two commits."""
    found = defaultdict(list)
    for name, text in now.items():
        if text.startswith(FAILED):
            found["can't be built"].append(name)
        elif name not in then:
            found["new"].append(name)
        else:
            found[LEVELS[level(text, then[name], BY_NAME[tier])]].append(name)
    found["missing"] = [name for name in then if name not in now]
    order = (*LEVELS, "can't be built", "missing", "new")
    return Compared(tier, {kind: found[kind] for kind in order if found[kind]})


def compared(against: str, kernels: Sequence[str], history: trees.History, tier: str) -> Compared:
    """A tier of this working tree beside the same of a commit; of kernels whose names begin so."""
    with trees.there(against, tier, kernels, history) as then, trees.here(tier, kernels) as now:
        return compare(tier, now, then)


def show(against: str, tier: str, name: str, ir: bool, history: trees.History) -> bool:
    """Print what changed in a kernel's machine code or IR; False when no kernel is called so."""
    with trees.there(against, tier, [name], history) as then, trees.here(tier, [name]) as now:
        texts = [side.get(name, "") for side in (then, now)]
    if not any(texts):
        return False
    kind = simplified if ir else partial(machine_code, tier=BY_NAME[tier])
    old, new = ((text if text.startswith(FAILED) else text and kind(text)).splitlines() for text in texts)
    print("\n".join(unified_diff(old, new, f"{tier}/{name} {against[:12]}", f"{tier}/{name}", lineterm="")))
    return True


def main(args: Sequence[str] | None = None, history: trees.History = GIT) -> int:
    """What the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="REF", required=True, help="a commit, as git calls it")
    parser.add_argument("--tier", nargs="+", choices=BY_NAME, default=list(BY_NAME), help="default: all")
    parser.add_argument("--kernels", nargs="+", metavar="PREFIX", default=[], help="those whose names begin so")
    parser.add_argument("--strict", action="store_true", help="texts must be the same, too")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="tiers at the same time")
    parser.add_argument("--show", metavar="NAME", help="what changed in this kernel's machine code")
    parser.add_argument("--ir", action="store_true", help="with --show: in its simplified IR")
    given = parser.parse_args(args)
    if given.jobs < 1 or given.ir and not given.show:
        parser.error("--jobs takes a number from 1 on; --ir goes with --show")
    against = history.commit(given.against)
    if against is None:
        parser.error(f"git knows no commit {given.against!r} here")
    try:
        if given.show:
            any_found, same = any([show(against, tier, given.show, given.ir, history) for tier in given.tier]), True
        else:
            any_found, same = _report(against, given, history)
    except trees.CollectError as error:
        parser.error(str(error))
    if not any_found:
        parser.error(f"no kernel is called {given.show or ' or '.join(given.kernels)}")
    return 0 if same else 1


def _report(against: str, given: argparse.Namespace, history: trees.History) -> tuple[bool, bool]:
    """Print what became of each tier's kernels; whether there are any, and whether all are the same."""
    some, same = False, True
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in (pool.map if given.jobs > 1 else map)(
            partial(compared, against, given.kernels, history), given.tier
        ):
            print(found.text(given.strict), flush=True)
            some, same = some or bool(found.names), same and not found.others(given.strict)
    return some, same


if __name__ == "__main__":
    sys.exit(main())

"""python -m tests.compositions: campaigns of any length.

--seed N --count M       seeds N to N + M (default: from where the last campaign with the same --log ended, or from 0)
--new                    seeds that nobody tried: they begin at a number that the clock gives, which is printed
--seconds S              stop after so long
--palette P              one palette for all, so that fewer kernels are compiled
--form "onnx f32"        one form only;  --variants "steps" "isa avx2": these only
--kernels 0.4            compile so many kernels per network; plans that need more are run by references
--without bands ...      look past what is known to be wrong
--log FILE               failures, coverage and the next seed are kept there: a campaign can be resumed
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from fastgraph.freedoms import without

from .afford import Purse, paying
from .coverage import Coverage, watching
from .forms import Declined
from .job import Job, attempt, job, kind
from .script import script
from .shrink import shrink


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--count", type=int, default=1 << 62)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--palette", type=int)
    parser.add_argument("--form")
    parser.add_argument("--variants", nargs="*")
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--kernels", type=float, default=float("inf"))
    parser.add_argument("--no-tiers", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    kept = json.loads(options.log.read_text()) if options.log and options.log.exists() else {}
    coverage = Coverage(**{name: Counter(counts) for name, counts in kept.get("coverage", {}).items()})
    failures: dict[str, list[int]] = kept.get("failures", {})
    first = kept.get("next", 0) if options.seed is None else options.seed
    if options.new:
        first = time.time_ns() // 1000
        print("first seed", first, flush=True)
    start, done, declined = time.monotonic(), 0, 0
    seed = first
    purse = Purse(options.kernels)
    with watching(coverage), without(*options.without), paying(purse):
        while seed < first + options.count and time.monotonic() - start < options.seconds:
            chosen = job(seed, options.palette, not options.no_tiers)
            form = options.form or chosen.form
            variants = chosen.variants if options.variants is None else tuple(options.variants)
            chosen = Job(seed, options.palette, form, variants)
            try:
                done += 1
                purse.next()
                attempt(chosen.net(), form, variants, coverage)
            except Declined:
                declined += 1
            except KeyboardInterrupt:
                break
            except Exception as error:
                label = f"{form}: {kind(error)}"
                failures.setdefault(label, []).append(seed)
                print(f"seed {seed}, {form}, {variants}: {error}"[:600], flush=True)
                if not options.no_shrink and len(failures[label]) == 1:
                    print(smallest(chosen, kind(error)), flush=True)
            seed += 1
            if options.log and (seed % 20 == 0):
                keep(options.log, seed, failures, coverage)
            if seed % 250 == 0:
                print(
                    f"-- {seed}: {done / (time.monotonic() - start):.1f} graphs/s, {declined} declined, {purse}",
                    flush=True,
                )
    if options.log:
        keep(options.log, seed, failures, coverage)
    print(coverage.table())
    print(f"{done} graphs, {declined} declined, {done / (time.monotonic() - start):.1f} a second; next seed {seed}")
    for label, seeds in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds)} times {label}: seeds {', '.join(map(str, seeds[:8]))}")


def keep(log: Path, seed: int, failures: dict[str, list[int]], coverage: Coverage) -> None:
    log.write_text(json.dumps({"next": seed, "failures": failures, "coverage": vars(coverage)}))


def smallest(found: Job, wanted: str, seconds: float = 120.0) -> str:
    """The script of what is left of a failing composition."""
    from .composition import Composition

    def fails(net: Composition) -> bool:
        try:
            attempt(net, found.form, found.variants)
        except Declined:
            return False
        except Exception as error:
            return kind(error) == wanted
        return False

    return script(shrink(found.net(), fails, seconds), found.form, found.variants)

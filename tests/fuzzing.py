"""What fuzzing has in common, whatever the format: each damaged model is refused in our own words, or loads and runs.

Input n is the same in every run. What loads is planned, its records verified, and run between guard pages on hostile
numbers: twice, and on two threads, always with the same bits; without its kernels where they would have to be compiled
first, which COMPILES of them are. Only a FastgraphError for users may come out, no crash, and no warning but that of an
operator set that is too new. A hang is SECONDS of processor time, LOOPING for models with loops, which may honestly be
endless. Memory may grow by 4 times the file beyond what the graph's values take.

    python -m tests.fuzzing FIRST COUNT [onnx] [circle] [mil]

tries that many of each format, and prints what goes wrong with a command that repeats it.
"""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from fastgraph import compile as compiling
from fastgraph.errors import FastgraphError, GraphError, PlanError
from fastgraph.ir import Graph, check, copy
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.isa.tiers import Tier, choose
from fastgraph.objects import store
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.runtime import pool
from fastgraph.runtime.feeds import declared
from fastgraph.runtime.model import Model
from tests.hostile import alike, hostile, shapes_of

INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000"))
"""Of each format."""
PORTION = 1000
SECONDS, LOOPING = 10, 1
ARENA, FED = 8 << 20, 256 << 10
"""Most bytes of all values of a graph that is run, and of its inputs: more may be honest work of many seconds."""
SLACK = 96 << 20
"""What Python and the allocator may take beside: imports of rules on first use among it."""
LIMIT = 4 << 30
"""Address space beyond what the process has at the start: what is asked for in earnest, touched or not."""
COMPILES = 1 / 50
"""The part of the inputs whose kernels are compiled."""
CHANGING = ("random", "bernoulli", "multinomial", "dropout", "philox")
"""Begin the names of operators whose results differ from run to run."""

Read = Callable[[bytes], Graph]
Feeds = dict[str, Any]


class Hang(BaseException):
    """Not an Exception, so that nothing on the way takes it for a misfit."""


class Uncompiled(BaseException):
    """A plan's kernels are not in the cache."""


def nodes_of(graph: Graph) -> Iterator[Any]:
    """All nodes, those of sub-graphs too."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs:
            yield from nodes_of(inner)


# -- one input


@contextmanager
def kernels(compiled: bool) -> Iterator[None]:
    """Within it plans whose kernels are not in the cache raise Uncompiled, unless they are to be `compiled`."""
    real = compiling.objects

    def objects(wanted: Sequence[Kernel], tier: Tier) -> list[bytes]:
        place = store.folder()
        if not compiled and not all(store.entry(place, kernel, tier).exists() for kernel in wanted):
            raise Uncompiled
        return real(wanted, tier)

    compiling.objects = objects  # type: ignore[assignment]
    try:
        yield
    finally:
        compiling.objects = real


def small(graph: Graph, shapes: dict[str, tuple[int, ...]]) -> tuple[bool, bool]:
    """Whether a graph with these input shapes takes little memory, as far as is known before the run; if all is."""
    graph = copy(graph)
    graph.unfold_states()
    for value in graph.inputs:
        if value.name in shapes:
            value.type = value.type.with_shape(shapes[value.name])
    infer_graph(graph)
    values = [v for node in nodes_of(graph) for v in node.outputs] + graph.inputs
    sizes = [v.type.nbytes for v in values if v.type.concrete and v.type.dtype != object]
    fits = sum(sizes) <= ARENA and sum(v.type.nbytes for v in graph.inputs if v.type.concrete) <= FED
    return fits, all(v.type.concrete for v in values)


def readable(read: Read, data: bytes) -> bool:
    """Whether a file is sound, so that it can be a seed."""
    try:
        graph = read(data)
        check(graph)
        infer_graph(graph)
        return True
    except FastgraphError:
        return False


def one(read: Read, data: bytes, number: int, compiled: bool) -> str:
    """What became of an input: "refused"; "large": not run; "planned": run by references alone; "ran".

    All but "large" are "open" when sizes depend on what is fed.
    """
    rng, known = np.random.default_rng(number), True
    try:
        graph = read(data)
        check(graph)
        if any(value.type.dtype is None for value in graph.inputs):
            return "large"
        shapes = shapes_of(graph, rng)
        declared(graph, shapes)
        fits, known = small(graph, shapes)
        if not fits:
            return "large"
        feeds = {v.name: hostile(v.type, rng) for v in graph.inputs}
        same = not any(node.op.startswith(CHANGING) for node in nodes_of(graph))
        try:
            with kernels(compiled):
                first = run(Model(copy(graph), choose(None), 1), feeds, same)
                other = run(Model(copy(graph), choose(None), 2), feeds, same)
        except Uncompiled:
            graph.unfold_states()
            states = {v.name: np.zeros(v.type.dims, v.type.dtype) for v in graph.inputs if v.name not in feeds}
            with np.errstate(all="ignore"):
                evaluate(graph, feeds | states)
            return "planned" if known else "planned open"
        assert not same or alike(first, other), "one thread and two give other bits"
        return "ran" if known else "ran open"
    except (GraphError, PlanError):
        raise  # defects of ours, which checks found
    except FastgraphError:
        return "refused" if known else "refused open"


def run(model: Model, feeds: Feeds, same: bool) -> Feeds:
    """Results of a run; AssertionError when those of a second one are others."""
    first = model.run(feeds)
    if model._plans.current is not None:
        model.reset_states()
    again = model.run(feeds)
    assert not same or alike(first, again), "a second run gives other bits"
    return first


# -- many, in a process of their own


def hang(signum: int, frame: FrameType | None) -> None:
    raise Hang


def loops(read: Read, data: bytes) -> bool:
    """Whether a file has a sub-graph, and so perhaps a loop."""
    try:
        return any(node.graphs for node in read(data).nodes)
    except FastgraphError:
        return False


def main(read: Read, damaged: Callable[[int], bytes]) -> None:
    """`script FIRST COUNT`: prints a JSON line for each input that goes wrong, and one with the counts.

    A single input is run with its kernels. `script FIRST COUNT -v` prints the number of each input before it.
    """
    first, count = map(int, sys.argv[1:3])
    guarded()
    import_module("llvmlite.binding")  # a cold cache of kernels wants it, which is no input's doing
    damaged(first)
    each(first, count, lambda number, alone: tried(read, damaged(number), number, alone))


def guarded() -> None:
    """Set up this process: pages behind buffers are guarded, signals end what hangs."""
    os.environ["FASTGRAPH_CHECK"] = "guard"
    pool.WORTH_WAKING = 0
    signal.signal(signal.SIGVTALRM, hang)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # native code that hangs: no Python runs, the process ends


def each(first: int, count: int, judge: Callable[[int, bool], tuple[str, str]]) -> None:
    """Judge inputs by number, in bounded memory, and print what `main` says. judge(number, whether it is alone): what
    became of an input, and what is wrong with that.
    """
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT, resource.RLIM_INFINITY))
    results: Counter[str] = Counter()
    for number in range(first, first + count):
        if "-v" in sys.argv:
            print(json.dumps({"at": number}), flush=True)
        what, wrong = judge(number, count == 1)
        results[what] += 1
        if wrong:
            print(json.dumps({"input": number, "wrong": wrong}), flush=True)
        if number % 50 == 0:
            gc.collect()
    print(json.dumps({"results": results}), flush=True)


def timed(seconds: float) -> None:
    """Raise Hang after so much processor time, and end the process some time later; 0: not any more."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, 6 * seconds)


def told(error: BaseException, alone: bool) -> str:
    """An error and where it was raised; of an input that is tried alone the whole way there is printed."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if alone:
        traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"[:300] + f" ({frame.filename}:{frame.lineno})"


def tried(read: Read, data: bytes, number: int, alone: bool) -> tuple[str, str]:
    """(what became of an input, what is wrong with that), within limits."""
    compiled = alone or np.random.default_rng(number).random() < COMPILES
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    what, wrong, limit = "wrong", "", SECONDS
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", ".*: its operator set .* is newer than", RuntimeWarning)  # as it should
        try:
            timed(SECONDS)
            if loops(read, data):
                limit = LOOPING
                signal.setitimer(signal.ITIMER_VIRTUAL, LOOPING + SECONDS * compiled)
            what = one(read, data, number, compiled)
        except Hang:
            what = "endless" if limit == LOOPING else "wrong"
            wrong = "" if limit == LOOPING else f"more than {SECONDS} seconds"
        except BaseException as error:
            wrong = told(error, alone)
        timed(0)
    if not wrong and warned:
        wrong = f"warns: {warned[0].message} ({warned[0].filename}:{warned[0].lineno})"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    bounded = not compiled and what != "endless" and "open" not in what
    if not wrong and bounded and grown > SLACK + 2 * ARENA + 4 * len(data):
        wrong = f"{grown >> 20} MB more memory for a file of {len(data)} bytes"
    return what, wrong


def portion(script: str, first: int, count: int) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Run a portion of a module that calls `main`; what became of it, and what went wrong. A crash costs one input."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[1]), *sys.path))}
    results, wrong, at = Counter[str](), [], first
    while at < first + count:
        command = [sys.executable, "-m", script, str(at), str(first + count - at), "-v"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        wrong += [line for line in lines if "wrong" in line]
        reached = [line["at"] for line in lines if "at" in line]
        if done.returncode == 0:
            results.update(lines[-1]["results"])
            break
        assert reached, f"{command} ends with {done.returncode}: {done.stderr[-2000:]}"
        wrong.append({"input": reached[-1], "wrong": f"ends with {done.returncode}: {done.stderr[-500:]}"})
        at = reached[-1] + 1
    return results, wrong


def test(script: str, first: int) -> None:
    """A portion of the inputs of a module that calls `main`. AssertionError with what went wrong."""
    count = min(PORTION, INPUTS - first)
    results, wrong = portion(script, first, count)
    assert not wrong, "\n".join(f"{one['wrong']}\n    python -m {script} {one['input']} 1" for one in wrong)
    if count == PORTION:
        used = sum(n for what, n in results.items() if what.startswith(("ran", "planned")))
        assert results["refused"] > count // 10 and used > count // 20, results


SCRIPTS = {"onnx": "tests.onnx.onnx_fuzz", "circle": "tests.circle.fuzz", "mil": "tests.mil.mil_fuzz"}


def campaign(first: int, count: int, scripts: Mapping[str, str]) -> None:
    """Portions of all scripts in turn; prints what goes wrong, once for each place in the code, and then how often."""
    seen: Counter[str] = Counter()
    for start in range(first, first + count, PORTION):
        for name, script in scripts.items():
            results, wrong = portion(script, start, min(PORTION, first + count - start))
            for one_ in wrong:
                what = one_["wrong"]
                place = f"{name}: {what.partition(':')[0]} {what[what.rfind('(') :]}"
                seen[place] += 1
                if seen[place] == 1:
                    repeat = f"    python -m {script} {one_['input']} 1"
                    print(f"{name}: {what}", repeat, sep="\n", flush=True)
            print(name, start, dict(results), flush=True)
    for what, times in seen.most_common():
        print(times, what)


if __name__ == "__main__":
    campaign(int(sys.argv[1]), int(sys.argv[2]), {name: SCRIPTS[name] for name in sys.argv[3:] or SCRIPTS})

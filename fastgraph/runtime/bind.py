"""A compiled program and its memory become functions: native calls, and NumPy's steps between them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np

from .. import deadline
from ..compile import Compiled
from ..errors import InputError, ModelError
from ..freedoms import threshold
from ..ir import Graph, Node, Value
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import NUMPY
from ..ops.control import REFUSED
from ..ops.evaluate import operands, run_node
from ..ops.registry import OPS, USER, attr
from ..plan.lower.build import KEEP
from ..plan.program import AnyStep, Arg, HostStep, Jump, Ref, Step, Table, UserKernel, parts_of
from . import pool
from .memory import Memory
from .partition import lookups_of, partition
from .pool import Runner
from .runnable import in_turn
from .user import failures, raised
from .work import work_of

Run = Callable[[], object]


class Leap(NamedTuple):
    """A jump of Python's to part `target`: always, or if `cell` is `wanted`."""

    cell: ctypes.c_bool | None
    wanted: bool
    target: int


class Bound(NamedTuple):
    """`run()` runs all steps, `run_timed()` within this thread's deadline: RunTimeout when it passes.

    `segments`: sequences of native steps, each with its runner; `words`: of each the records.
    """

    run: Run
    run_timed: Run
    segments: Sequence[tuple[Sequence[Step | Jump], Runner]]
    words: Sequence[np.ndarray] = ()


def bind(plan: Compiled, memory: Memory, threads: int) -> Bound:
    """One native call when all steps are native; else segments and host steps in turn."""
    if plan.tier is NUMPY:
        return _bind_to_numpy(plan, memory)
    return bind_steps(plan, memory, plan.program.steps, threads)


def bind_steps(plan: Compiled, memory: Memory, steps: Sequence[AnyStep], threads: int) -> Bound:
    """Bind a range of the plan's steps, as `bind` does all of them."""
    parts: list[tuple[Run | Leap, Run | Leap]] = []
    segments: list[tuple[Sequence[Step | Jump], Runner]] = []
    words: list[np.ndarray] = []
    cut = partition(steps)
    numbers = {first: i for i, (first, _) in enumerate(cut)}
    for first, part in cut:
        if isinstance(part, HostStep):
            parts.append((host_run(plan, memory, part.node),) * 2)
        elif isinstance(part, Jump):
            cell = None if part.cell is None else ctypes.c_bool.from_address(memory.address(part.cell))
            parts.append((Leap(cell, part.wanted, numbers.get(first + part.by, len(cut))),) * 2)
        else:
            table, record = records(plan, memory, part)
            runner = _runner(plan, memory, part, threads, table, record)
            segments.append((part, runner))
            words.append(record)
            parts.append(_calls(plan, memory, part, runner))
    run, run_timed = (_in_turn(way) for way in zip(*parts, strict=True))
    return Bound(run, run_timed, segments, words)


def _bind_to_numpy(plan: Compiled, memory: Memory) -> Bound:
    """All steps are host steps. A timed run checks the deadline before each; states get new values at the end."""
    nodes = [step.node for step in plan.program.steps]
    runs = [host_run(plan, memory, node) for node in nodes if node.op != KEEP]
    kept = [(memory.array(node.out), memory.held(node.x)) for node in nodes if node.op == KEEP]
    runs.append(lambda: list(starmap(np.copyto, kept)))  # no signal's handler is called in between
    return Bound(_in_turn(runs), _in_turn([each for run in runs for each in (deadline.check, run)]), [])


def jump_record(jump: Jump) -> tuple[Arg, ...]:
    return jump.cell or 0, int(jump.wanted), jump.by


def _blocks(steps: Sequence[Step | Jump]) -> tuple[list[Table], list[tuple[Arg, ...]]]:
    """The tables of steps; the words of each step's record, and then of each table."""
    tables = list(dict.fromkeys(table for s in steps if isinstance(s, Step) for table in s.tables()))
    return tables, [s.args if isinstance(s, Step) else jump_record(s) for s in steps] + [t.words for t in tables]


def words_in(steps: Sequence[Step | Jump], buffers: set[Value]) -> dict[Value, np.ndarray]:
    """The numbers of the words of `records` that are addresses in buffers, for each."""
    found: dict[Any, list[int]] = {buffer: [] for buffer in buffers}
    for i, arg in enumerate(chain.from_iterable(_blocks(steps)[1])):
        if type(arg) is Ref and arg.base in found:
            found[arg.base].append(i)
    return {buffer: np.array(at, np.int64) for buffer, at in found.items()}


def records(plan: Compiled, memory: Memory, steps: Sequence[Step | Jump]) -> tuple[np.ndarray, np.ndarray]:
    """int64 [steps, 2]: addresses of each step's kernel (0 for a jump) and argument record; and one array with all
    records and the tables behind them, which must outlive the use of both.
    """
    tables, blocks = _blocks(steps)
    starts = np.cumsum([0, *map(len, blocks)])
    words = np.zeros(starts[-1] + 1, np.int64)
    base = words.ctypes.data
    at = dict(zip(tables, base + 8 * starts[len(steps) :], strict=False))

    def word(arg: Arg) -> int:
        if type(arg) is Ref:
            return memory.address(arg)
        if isinstance(arg, Kernel):
            return plan.addresses[arg]
        return int(at[arg]) if isinstance(arg, Table) else memory.address(arg)

    words[:-1] = [a if type(a) is int else word(a) for a in chain.from_iterable(blocks)]
    kernels = [plan.addresses[s.kernel] if isinstance(s, Step) else 0 for s in steps]
    rows = [[kernel, base + 8 * start] for kernel, start in zip(kernels, starts, strict=False)]
    return np.array(rows, np.int64), words


def _runner(
    plan: Compiled, memory: Memory, steps: Sequence[Step | Jump], threads: int, table: np.ndarray, words: np.ndarray
) -> Runner:
    owner = memory.arena, memory.constants, memory.common, memory.error, words
    error = memory.error.ctypes.data
    least = threshold("waking_work", pool.WORTH_WAKING)
    return Runner(table, threads, error, owner, commit_of(steps), work_of(steps), least, parts_of(steps))


def commit_of(steps: Sequence[Step | Jump]) -> int:
    """The number of the first step that keeps a state: from there on a run can't be stopped."""
    return next((i for i, step in enumerate(steps) if step.node.op == KEEP), len(steps))


def _calls(plan: Compiled, memory: Memory, steps: Sequence[Step | Jump], runner: Runner) -> tuple[Run, Run]:
    """The functions that run a segment without and with a time limit. They raise for indices out of range, naming the
    lookup, and what users' kernels raised, naming the kernel.
    """
    timed = partial(runner.run, True)
    if not lookups_of(steps):
        return runner.alone if runner.threads == 1 else runner.run, timed
    users = any(isinstance(step, Step) and isinstance(step.kernel, UserKernel) for step in steps)
    checked = _checked(plan, memory, steps, runner.run, runner), _checked(plan, memory, steps, timed, runner)
    return (checked[0], partial(_in_time, checked[1])) if users else checked


def _in_time(run: Run) -> None:
    """Run, then check the deadline: a user's kernel may be the last step."""
    run()
    deadline.check()


def _checked(
    plan: Compiled, memory: Memory, steps: Sequence[Step | Jump], part: Callable[[], int], runner: Runner
) -> Run:
    def run() -> None:
        try:
            code = part()
        except BaseException:
            failures(steps, runner.records)
            raise
        if code:
            failed = failures(steps, runner.records)
            if failed:
                raise raised(plan, memory, failed[0], partial(_run_first, plan, memory))
            raise out_of_range(plan.graph, [node for node in lookups_of(steps) if USER not in node.attrs])

    return run


def _run_first(plan: Compiled, memory: Memory, count: int) -> None:
    """Run the plan's first steps again."""
    bind_steps(plan, memory, plan.program.steps[:count], 1).run()


def out_of_range(graph: Graph, lookups: Sequence[Node]) -> InputError:
    """The InputError of native steps of these nodes, one of which read an index out of range, or should have taken a
    branch that is invalid for its operands.
    """
    ranges, branches, users = [], [], []
    for node in lookups:
        if USER in node.attrs:
            users.append(f"the kernel of node {node.name}, {node.op}")
        elif REFUSED in node.attrs:
            branches += [f"node {node.name}, {name}: {why}" for name, why in node.attrs[REFUSED].items()]
        else:
            ranges.append(f"node {node.name}: {node.op} takes {_range(node)}")
    whys = [f"a number read at run time is out of range ({'; or '.join(ranges)})"] * bool(ranges)
    whys += [f"a branch was to be taken that can't be run for these shapes ({'; or '.join(branches)})"] * bool(branches)
    whys += [f"{' or '.join(users)} raised an exception"] * bool(users)
    return InputError(f"{graph.source or graph.name}: {', or '.join(whys)}: check what was fed to the model")


def _range(node: Node) -> str:
    """The valid range of a node's lengths or indices."""
    if node.op in ("rnn", "gru", "lstm"):
        return f"sequence_lens of 0 to {node.x.type.dims[attr(node, 'layout')]}"
    checked = node.op == "checked_indices"  # of its second operand, and never from the end
    of = node.y if checked else node.x
    if node.op == "dynamic_update_slice":
        return f"a part of {list(node.x.type.dims)} of the extents of its update, {list(node.y.type.dims)}"
    axis = attr(node, "axis") if "axis" in OPS[node.op].attrs else None
    if axis is None:
        return f"places of {list(of.type.dims)}"
    n = of.type.dims[axis]
    return f"{0 if checked else -n} to {n - 1}"


def host_run(plan: Compiled, memory: Memory, node: Node) -> Run:
    """A function that runs a node's NumPy reference on operands in memory, and stores its results there."""
    if node.op == KEEP:
        return partial(np.copyto, memory.array(node.out), memory.held(node.x))

    def run() -> None:
        with np.errstate(all="ignore"), fed(plan.graph):
            found = run_node(node, [None if v is None else memory.held(v) for v in operands(node)])
        for value, data in zip(node.outputs, found, strict=False):
            if not memory.has(value):
                memory.loose[value] = data
                continue
            view = memory.array(value)
            if np.shape(data) != view.shape:
                raise ModelError(f"{node}: the result has shape {np.shape(data)}")
            with np.errstate(all="ignore"):
                view[...] = data

    return run


def _in_turn(parts: Sequence[Run | Leap]) -> Run:
    runs = [part for part in parts if not isinstance(part, Leap)]
    return partial(_walk, parts) if len(runs) < len(parts) else in_turn(runs)


def _walk(parts: Sequence[Run | Leap]) -> None:
    """Run parts in order, following jumps."""
    at = 0
    while at < len(parts):
        part = parts[at]
        at += 1
        if not isinstance(part, Leap):
            part()
        elif part.cell is None or part.cell.value == part.wanted:
            deadline.check()
            at = part.target


@contextmanager
def fed(graph: Graph) -> Iterator[None]:
    """Turns errors of references into InputError: the model has passed inference, so that the feeds are wrong."""
    try:
        yield
    except ModelError as error:
        raise InputError(f"{graph.source or graph.name}: {error}: check what was fed to the model") from error

"""A program bound to memory: addresses in place of references, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np

from ..errors import FastgraphError, GraphError, InputError, ModelError, UnknownNameError
from ..ir import Graph, Node, State, TensorType, Value, check, copy
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..limits import spending
from ..ops.evaluate import evaluate, operands, run_node
from ..passes.dynamic import cut_dynamic
from ..passes.pipeline import optimise
from ..passes.specialise import specialise
from ..plan.build import KEEP, build
from ..plan.describe import macs, program_text
from ..plan.program import ERROR, HostStep, Program, Ref, Scratch, Step, buffer_bytes, checked
from ..plan.storage import byte_strides
from ..room import LARGE, need
from .cache import objects
from .link import link
from .locks import undisturbed
from .memory import allocate, allocate_apart
from .pool import Runner

WORTH_WAKING = 4_000_000
"""Multiply-adds, about 40 us: waking other threads for less takes longer than it saves. Results don't depend on it."""


@np.errstate(all="ignore")
def compile_graph(graph: Graph, shapes: Mapping[str, Sequence[int]], tier: Tier, threads: int) -> Executable:
    """Everything from a graph and its input shapes to an executable: specialise, passes, plan, kernels, memory."""
    stored = graph.stored or sum(v.type.nbytes for v in graph.constants())
    try:
        with spending(graph.limits, stored, graph.source or graph.name or "model"):
            return _compiled(graph, shapes, tier, threads)
    except FastgraphError:
        raise
    except _UNFORESEEN as error:
        raise GraphError(
            f"{graph.source or graph.name}: making a plan failed ({type(error).__name__}: {error}): it has numbers "
            "that make no sense together, or this is a defect of fastgraph; if other programs can run it, report it"
        ) from error


_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _compiled(graph: Graph, shapes: Mapping[str, Sequence[int]], tier: Tier, threads: int) -> Executable:
    with undisturbed():  # modules are imported on the way
        lowered = copy(graph)
        states = lowered.states
        lowered.unfold_states()
        specialise(lowered, shapes)
        check(lowered, "specialise")
        finals = lowered.outputs[len(graph.outputs) :]
        for state, final in zip(states, finals, strict=True):
            _fits_state(graph, state, final)
        tail = cut_dynamic(lowered)
        wanted = list(lowered.outputs)
        optimise(lowered)
        made = dict(zip(wanted, lowered.outputs, strict=True))
        kept = {s.input: made[v] for s, v in zip(states, finals, strict=True) if v in made}
        late = {s.input: v for s, v in zip(states, finals, strict=True) if v not in made or tail is not None}
        if tail is not None:
            kept = {}  # a run may end in the tail: all states have their next values at its end, or none
        program = build(lowered, tier, threads, kept)
    results = list(zip([v.name for v in graph.outputs], (tail.outputs if tail else wanted), strict=False))
    return Executable(lowered, program, made, results, tail, tier, threads, states, late)


def _fits_state(graph: Graph, state: State, final: Value) -> None:
    """ModelError unless a state's next value can take its place."""
    same = (final.type.dtype, final.type.shape) == (state.input.type.dtype, state.input.type.shape)
    if not same or not final.type.concrete or final.type.dtype == object:
        raise ModelError(
            f"{graph.source or graph.name}: the state {state.input.name!r} is {state.input.type}, but its next value "
            f"is {final.type}: a state keeps its type, and its shape must be known before the run"
        )


class Executable:
    """The memory and the calls of one program.

    `made` maps the values that are wanted, as they are called before the passes, to what holds them after; `results`
    are the names of the outputs with such values. `tail` is the part of the graph whose shapes hang on data: NumPy
    computes it after the rest. `states` are kept from run to run; `late`: their next values, when there is a tail.
    A run that is stopped, or fails, before its end leaves states as they were.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        made: Mapping[Value, Value],
        results: list[tuple[str, Value]],
        tail: Graph | None,
        tier: Tier,
        threads: int,
        states: Sequence[State] = (),
        late: Mapping[Value, Value] | None = None,
    ) -> None:
        self.graph = graph
        self.program = program
        self.tier = tier
        self.threads = threads
        self.tail = tail
        assert program.arena is not None
        self.arena_bytes = program.arena.size
        need(self.arena_bytes + sum(v.type.nbytes for v in made.values() if v.type.concrete and v.data is None))
        self._memory, self._base, self._offsets = _arena(program, self.arena_bytes)
        self._constants = _Constants(program.constants)
        self._env: dict[Value, Any] = {}
        self._views: dict[Value, np.ndarray] = {}
        self._made = made
        self._results = results
        self._records: list[np.ndarray] = []
        self._error = np.zeros(1, np.int64)
        self.segments: list[tuple[list[Step], Runner]] = []
        self.execute, self.execute_timed = self._bind(threads)
        self._states = [(self.array(s.input), s.initial) for s in states]
        self._late = [(self.array(value), final) for value, final in (late or {}).items()]
        self.reset_states()
        hidden = {s.input for s in states}
        placed = [v for v in graph.inputs if v in program.storage and v not in hidden]
        self._feeds = [(v.name, v.type.dims, v.type.dtype, self.array(v)) for v in placed]
        self._on_host = [v for v in graph.inputs if v not in program.storage]
        self._quick = -1 if self._on_host else len(self._feeds)
        placed_too = all(made.get(v) in program.storage or made.get(v, v).data is not None for _, v in results)
        self._copies = [(name, self._holder(made[v])) for name, v in results] if placed_too else None
        self._copied = sum(type_.nbytes for type_ in self.output_types() if type_.concrete)
        self._plain = self._copies if self._copied < LARGE and not self._late else None

    # -- states

    def reset_states(self) -> None:
        """Let all states have their first values."""
        for place, initial in self._states:
            place[...] = initial

    def take_states(self, other: Executable) -> None:
        """Let all states have the values that they have in another executable of the same model."""
        for (place, _), (now, _) in zip(self._states, other._states, strict=True):
            place[...] = now

    # -- feeding and fetching

    def feed(self, feeds: Mapping[str, Any]) -> bool:
        """Copy the feeds in if they are just what the plan takes; False (nothing is said) when they are not."""
        if type(feeds) is not dict or len(feeds) != self._quick:
            return False
        for name, dims, dtype, _ in self._feeds:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != dims or array.dtype != dtype:
                return False
        for name, _, _, view in self._feeds:
            view[...] = feeds[name]
        return True

    def fill(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy checked arrays in; strings and sequences are kept as they are."""
        for name, _, _, view in self._feeds:
            view[...] = arrays[name]
        for value in self._on_host:
            self._env[value] = arrays[value.name]

    def results(self) -> dict[str, np.ndarray]:
        """Copies of the outputs, by name."""
        if self._plain is not None:
            return {name: view.copy() for name, view in self._plain}
        if self._copied >= LARGE:
            self._find_room()
        ready = {value: self._holder(held) for value, held in self._made.items()}
        if self.tail is not None:
            with np.errstate(all="ignore"), _fed(self.graph):
                found = evaluate(self.tail, {v.name: ready[v] for v in self.tail.inputs})
            ready.update(zip(self.tail.outputs, found, strict=True))
            news = [(place, np.array(ready[final])) for place, final in self._late]
            list(starmap(np.copyto, news))  # no signal's handler is called in between
        return {name: _owned(ready[value]) for name, value in self._results}

    def _find_room(self) -> None:
        try:
            need(self._copied)
        except MemoryError as error:
            raise ModelError(f"{self.graph.source or self.graph.name}: no memory for its outputs: {error}") from error

    def view(self, name: str, inputs: bool) -> np.ndarray:
        """The plan's memory of an input or an output. UnknownNameError with the names there are; FastgraphError if
        dynamic.
        """
        if inputs:
            found = {feed: view for feed, _, _, view in self._feeds}
        elif self._copies is None:
            raise FastgraphError(f"output {name!r}: results whose shapes hang on data have no fixed memory: use run")
        else:
            found = dict(self._copies)
        if not isinstance(name, str) or name not in found:
            kind = "input" if inputs else "output"
            raise UnknownNameError(f"no {kind} is called {name!r}: the {kind}s are {', '.join(found) or 'none'}")
        return found[name]

    def output_types(self) -> list[TensorType]:
        """Types of the results, in order; not concrete where they hang on data."""
        return [self._made[v].type if v in self._made else v.type for _, v in self._results]

    def signature(self) -> list[tuple[str, TensorType]]:
        """The outputs' names and types."""
        return [(name, type_) for (name, _), type_ in zip(self._results, self.output_types(), strict=True)]

    def kernels(self) -> list[Kernel]:
        """The kernels it calls."""
        return self.program.kernels()

    def __str__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.graph.inputs)
        outputs = ", ".join(f"{name}: {type_}" for name, type_ in self.signature())
        lines = [
            f"{self.graph.name or 'model'}: ({inputs}) -> ({outputs})",
            f"{self.tier.name}, {self.threads} threads; {program_text(self.program)}",
        ]
        if self.tail is not None:
            lines.append(f"and {len(self.tail.nodes)} nodes whose shapes hang on data, computed with NumPy:")
            lines += [f"      {node.op} -> {', '.join(v.name for v in node.outputs)}" for node in self.tail.nodes]
        return "\n".join(lines)

    # -- memory

    def array(self, value: Value) -> np.ndarray:
        """A NumPy view of a value's place in the arena."""
        if value not in self._views:
            at = self.program.storage[value]
            dims, dtype = value.type.dims, value.type.dtype
            assert dtype is not None
            strides = byte_strides(dims, dtype.itemsize, at.stride)
            offset = self._offsets[at.root] + at.offset
            self._views[value] = np.ndarray(dims, dtype, self._memory, offset, strides)
        return self._views[value]

    def _holder(self, value: Value) -> Any:
        if value.data is not None:
            return value.data
        return self.array(value) if value in self.program.storage else self._env[value]

    def _address(self, arg: int | Ref) -> int:
        if isinstance(arg, int):
            return arg
        if arg is ERROR:
            return self._error.ctypes.data
        if isinstance(arg.base, int):
            return self._constants.addresses[arg.base] + arg.offset
        return self._base + self._offsets[arg.base] + arg.offset

    # -- running

    def _bind(self, threads: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """One native call when all steps are native; else the segments and host steps in turn. And the same within this
        thread's deadline: RunTimeout when it passes."""
        addresses = self._link()
        parts: list[tuple[Callable[[], object], Callable[[], object]]] = []
        segment: list[Step] = []
        for step in self.program.steps:
            native = isinstance(step, Step)
            # States, which are kept by the last steps, stay as they were when a lookup failed.
            first = native and step.node.op == KEEP and bool(segment) and segment[-1].node.op != KEEP
            unsure = first and any(ERROR in s.args for s in segment)
            if segment and (unsure or not native):
                parts.append(self._segment(segment, addresses, threads))
                segment = []
            if isinstance(step, Step):
                segment.append(step)
            else:
                parts.append((self._host(step),) * 2)
        if segment or not parts:
            parts.append(self._segment(segment, addresses, threads))
        plain, timed = (_in_turn(way) for way in zip(*parts, strict=True))
        return plain, timed

    def _link(self) -> dict[Kernel, int]:
        kernels = self.program.kernels()
        compiled = objects(kernels, self.tier)
        found = link({kernel.symbol: obj for kernel, obj in zip(kernels, compiled, strict=True)})
        return {kernel: found[kernel.symbol] for kernel in kernels}

    def _segment(
        self, steps: Sequence[Step], addresses: Mapping[Kernel, int], threads: int
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Argument records and the table of a run of native steps, bound to the executor: without and with a limit."""
        starts = np.cumsum([0, *(len(s.args) for s in steps)])
        records = np.array([self._address(a) for s in steps for a in s.args] or [0], np.int64)
        base = records.ctypes.data
        rows = [[addresses[s.kernel], base + 8 * at] for s, at in zip(steps, starts, strict=False)]
        table = np.array(rows, np.int64)
        work = [int(macs(s) + 4 * s.node.out.type.size * s.share) for s in steps]
        memory = self._memory, self._constants.block, self._error, records
        firm = next((i for i, s in enumerate(steps) if s.node.op == KEEP), len(steps))
        runner = Runner(table, threads if sum(work) >= WORTH_WAKING else 1, self._error.ctypes.data, memory, firm, work)
        self.segments.append((list(steps), runner))
        self._records.append(records)
        timed = partial(runner.run, True)
        if any(ERROR in s.args for s in steps):
            lookups = [s.node for s in steps if ERROR in s.args]
            return self._checked(runner.run, lookups), self._checked(timed, lookups)
        return runner.alone if runner.threads == 1 else runner.run, timed

    def _checked(self, part: Callable[[], int], lookups: Sequence[Node]) -> Callable[[], object]:
        def run() -> None:
            if part():
                raise out_of_range(self.graph, lookups)

        return run

    def _host(self, step: HostStep) -> Callable[[], object]:
        node = step.node

        def run() -> None:
            with np.errstate(all="ignore"), _fed(self.graph):
                found = run_node(node, [None if v is None else self._holder(v) for v in operands(node)])
            for value, data in zip(node.outputs, found, strict=False):
                if value in self.program.storage:
                    view = self.array(value)
                    if np.shape(data) != view.shape:
                        raise ModelError(f"{node}: the result has shape {np.shape(data)}")
                    with np.errstate(all="ignore"):
                        view[...] = data
                else:
                    self._env[value] = data

        return run


def out_of_range(graph: Graph, lookups: Sequence[Node]) -> InputError:
    """The error of native steps, of these nodes, one of which read an index that its operand does not have."""
    extents = [node.x.type.dims[node.attrs.get("axis", 0)] for node in lookups]
    places = [f"node {node.name}: {node.op} takes {-n} to {n - 1}" for node, n in zip(lookups, extents, strict=True)]
    return InputError(
        f"{graph.source or graph.name}: an index read at run time is out of range ({'; or '.join(places)}): check what "
        "was fed to the model"
    )


def _in_turn(parts: Sequence[Callable[[], object]]) -> Callable[[], object]:
    if len(parts) == 1:
        return parts[0]

    def execute() -> None:
        for part in parts:
            part()

    return execute


@contextmanager
def _fed(graph: Graph) -> Iterator[None]:
    """What a reference refuses after the model has passed inference is the fault of what was fed: InputError."""
    try:
        yield
    except ModelError as error:
        raise InputError(f"{graph.source or graph.name}: {error}: check what was fed to the model") from error


def _owned(result: Any) -> Any:
    """A copy of an array, or of a sequence's arrays."""
    return [_owned(item) for item in result] if isinstance(result, list) else np.array(result, order="C")


def _arena(program: Program, nbytes: int) -> tuple[np.ndarray, int, Mapping[Value | Scratch, int]]:
    """A program's memory, its address, and where each buffer is in it: as planned, or between guard pages."""
    if checked() != "guard":
        return *allocate(max(nbytes, 64)), program.offsets
    memory, base, starts = allocate_apart([buffer_bytes(owner) for owner in program.offsets])
    return memory, base, dict(zip(program.offsets, starts, strict=True))


class _Constants:
    """The constants of a program in one aligned block. The program's own arrays become views of it."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        starts, size = [], 0
        for array in arrays:
            starts.append(size)
            size += -(-array.nbytes // 64) * 64
        if checked() == "guard":
            self.block, base, starts = allocate_apart([array.nbytes for array in arrays])
        else:
            self.block, base = allocate(max(size, 64))
        self.addresses = [base + start for start in starts]
        for i, (array, start) in enumerate(zip(arrays, starts, strict=True)):
            place = self.block[start : start + array.nbytes]
            place[:] = array.reshape(-1).view(np.uint8)
            arrays[i] = place.view(array.dtype).reshape(array.shape)

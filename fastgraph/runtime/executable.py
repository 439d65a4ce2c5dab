"""Compiled programs in memory, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..compile import Compiled, Values, compiled
from ..ir import LENGTHS, Graph, TensorType, Value
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..locks import undisturbed
from ..plan.describe import program_text
from ..plan.program import Jump, Step, buffer_bytes
from ..room import LARGE
from ..shared import Shapes, Shared
from ..text import counted, units
from .allocate import Allocation
from .bind import Bound, bind, fed, words_in
from .memory import Memory, arena_bytes, place_constants
from .runnable import ConstantMemory, Feed, Place, Runnable, cut, pays

if TYPE_CHECKING:
    from .model import Model
    from .reuse import Reuse
    from .tail import Part, Tail

PLAN_BYTES, NODE_BYTES, WORD_BYTES = 9000, 1700, 20
"""Estimated bytes of Python and NumPy objects for a plan, for a node with its values and steps, and for a word of a
record, as a program and bound to memory. Fitted to plans of many networks."""


def compile_graph(graph: Graph, shapes: Mapping[str, Sequence[int]], tier: Tier, threads: int) -> Executable:
    """A graph compiled for these input shapes, in memory of its own, ready to run."""
    made = Executable(make_plan(graph, shapes, tier, threads, None))
    made.reset_states()
    return made


class Made(NamedTuple):
    """A plan that was made in this process.

    `objects`: estimated bytes of steps and their records, nodes, values. `tail`: computes what shapes that depend on
    data leave over.
    """

    compiled: Compiled
    constants: ConstantMemory
    objects: int
    tail: Tail | None

    @property
    def arena_bytes(self) -> int:
        return arena_bytes(self.compiled.program)

    def bound(self, block: Allocation | None = None) -> Executable:
        return Executable(self, block)


def make_plan(
    graph: Graph, shapes: Shapes, tier: Tier, threads: int, shared: Shared | None,
    values: Values | None = None, part: Part | None = None,
) -> Made:  # fmt: skip
    """A graph compiled for these input shapes, and for values of inputs that decide shapes, with its constants in
    memory. `part`: makes a model of its tail; without it, references compute that.
    """
    made = compiled(graph, shapes, tier, threads, shared, values)
    nodes = len(made.graph.nodes) + (0 if made.tail is None else len(made.tail.nodes))
    words = sum(len(step.words()) for step in made.program.steps if isinstance(step, Step))
    constants = place_constants(made.program, None if shared is None else shared.weights)
    tail = None if made.tail is None else _tail(made, shared, part)
    return Made(made, constants, PLAN_BYTES + NODE_BYTES * nodes + WORD_BYTES * words, tail)


def _tail(plan: Compiled, shared: Shared | None, part: Part | None) -> Tail:
    with undisturbed():
        from .tail import Tail
    return Tail(plan, shared, part)


class Executable(Runnable):
    """A compiled program as a Runnable, whose arena is in a given block or in one of its own. What the program
    leaves over, the tail, is computed after it.
    """

    def __init__(self, planned: Made, block: Allocation | None = None) -> None:
        plan, constants = planned.compiled, planned.constants
        self.compiled = plan
        self.graph, self.program, self.tail = plan.graph, plan.program, plan.tail
        self._tail = planned.tail
        self.plans_tail = planned.tail is not None and planned.tail.planned
        self.tier, self.threads, self.cheap, self.work = plan.tier, plan.threads, plan.cheap, plan.work
        self.memory = Memory(plan.program, constants, block)
        super().__init__(plan.graph.source or plan.graph.name, self.memory.arena, plan.values)
        self.arena_bytes = plan.program.arena.size
        bound = bind(plan, self.memory, plan.threads)
        self.execute, self.execute_timed, self.segments = bound.run, bound.run_timed, bound.segments
        self._made, self._results = plan.made, plan.results
        self._bounded = [
            (v, plan.made[b.value], [(axis, plan.made[n.count]) for axis, n in b.extents.items()])
            for v, b in plan.bounded.items()
        ]
        self.states = [(self.memory.array(s.input), s.initial) for s in plan.states]
        self._late = [(self.memory.array(value), final) for value, final in plan.late.items()]
        self._loose = [v for v in (plan.tail.inputs if plan.tail is not None else ()) if v.type.dtype is None]
        placed = [v for v in fed_inputs(plan) if self.memory.has(v)]
        self._on_host = [v for v in plan.graph.inputs if not self.memory.has(v)] + self._loose
        checked = any(port.kind is not None for port in plan.graph.interface.ports.values())
        feeds = [Feed(v.name, v.type.dims, _dtype(v), self.memory.array(v)) for v in placed]
        self._fed: dict[str, tuple[int, ...]] = {}
        self._open = bool(plan.lengths)
        lengths = {LENGTHS[group]: length for group, length in plan.lengths.items()}
        self._lengths = [
            (self.memory.array(v), lengths[v.name])
            for v in plan.graph.inputs
            if v.name in lengths and self.memory.has(v)
        ]
        made = [plan.made.get(v) for _, v in plan.results]
        held = all(v is not None and (v.data is not None or self.memory.has(v)) for v in made)
        outputs = [(name, self.memory.held(plan.made[v])) for name, v in plan.results] if held else None
        result_bytes = sum(type_.nbytes for type_ in self.output_types() if type_.concrete)
        self.arrange(feeds, outputs, result_bytes, plain=not self._on_host and not checked and not self._open)
        if held and not (self._on_host or self._open or self._late or self._bounded or plan.tail):
            self._point(bound, placed)

    @cached_property
    def unread(self) -> frozenset[Value]:
        """Results of control flow that nothing reads, whose memory may be another's before the last round."""
        made = {value for node in self.program.bodies for value in node.outputs}
        return frozenset(made and made - self.graph.uses().keys() - set(self.graph.results()))

    def _point(self, bound: Bound, inputs: Sequence[Value]) -> None:
        """Let feeds and results lie elsewhere, where one native call makes all, with no user's kernel."""
        native = all(
            isinstance(s, Jump) or isinstance(s, Step) and type(s.kernel) is Kernel for s in self.program.steps
        )
        if not native or len(bound.segments) != 1:
            return
        [(steps, _)], [words] = bound.segments, bound.words
        outputs = {name: self._place(self._made[v]) for name, v in self._results if self._made[v].data is None}
        kept = [self.program.storage[s.input].root for s in self.compiled.states]
        fed = {v.name: self._place(v) for v in inputs}
        if pays(fed, outputs):
            from .direct import Direct  # most models are small

            self.direct = Direct(words, partial(words_in, steps), fed, outputs, kept) or None

    def _place(self, value: Value) -> Place:
        root = self.program.storage[value].root
        return Place(root, buffer_bytes(root), self.memory.array(value))

    def fill(self, arrays: Mapping[str, Any]) -> None:
        """Copy checked arrays in; strings and sequences are kept as objects."""
        if self._open:
            self._fill_open(arrays)
        else:
            super().fill(arrays)
        for value in self._on_host:
            self.memory.loose[value] = arrays[value.name]

    def _fill_open(self, arrays: Mapping[str, Any]) -> None:
        """Copy arrays to where there is room for longer ones, and zeros behind them."""
        for name, _, _, view in self._feeds:
            self._fed[name] = dims = arrays[name].shape
            for axis in range(len(dims)):
                if dims[axis] < view.shape[axis]:
                    view[(slice(None),) * axis + (slice(dims[axis], None),)] = 0
            view[tuple(map(slice, dims))] = arrays[name]
        for held, length in self._lengths:
            held[...] = length.of(arrays)

    def fed(self) -> dict[str, Any]:
        found = {value.name: self.memory.held(value) for value in self._on_host} | super().fed()
        if self._open:
            found |= {name: found[name][tuple(map(slice, shape))] for name, shape in self._fed.items()}
        return found

    def forget(self) -> None:
        self.memory.loose.clear()

    def results(self, reuse: Reuse | None = None, out: Any = None) -> dict[str, np.ndarray]:
        if self.direct is not None or (self._small is not None and not self._late):
            return super().results(reuse, out)
        if self._result_bytes >= LARGE:
            self._find_room()
        ready = self._ready()
        if self._tail is not None:
            with np.errstate(all="ignore"), fed(self.graph):
                ready.update(self._tail.run(ready))
        if reuse is not None:
            reuse.begin()
        copy = _dense if reuse is None else reuse.copy
        leaving = self.compiled.leaving
        results: dict[str, Any]
        results = {name: None if value in leaving else _owned(ready[value], copy) for name, value in self._results}
        if leaving:
            with fed(self.graph):
                results |= {name: leaving[v].of(ready[leaving[v].value]) for name, v in self._results if v in leaving}
        if self.tail is not None:
            news = [(state, np.array(ready[final])) for state, final in self._late]
            list(starmap(np.copyto, news))  # no signal's handler is called in between
        return results

    def _ready(self) -> dict[Value, Any]:
        """The values that the program made, for results and the tail."""
        ready = {value: self.memory.held(held) for value, held in self._made.items()}
        ready.update((value, self.memory.held(value)) for value in self._loose)
        ready.update((value, self._cut(held, extents)) for value, held, extents in self._bounded)
        return ready

    def part(self) -> tuple[Model, dict[str, Any]] | None:
        """After a run, the model that computes the tail, with what it is fed; None where there is none."""
        if self._tail is None:
            return None
        with np.errstate(all="ignore"), fed(self.graph):
            return self._tail.part(self._ready())

    def _cut(self, value: Value, extents: Sequence[tuple[int, Value]]) -> np.ndarray:
        """A bounded value, cut to its extents in this run."""
        return cut(self.memory.held(value), [(axis, self.memory.held(count)) for axis, count in extents])

    def output_types(self) -> list[TensorType]:
        return [self._made[v].type if v in self._made else v.type for _, v in self._results]

    def signature(self) -> list[tuple[str, TensorType]]:
        """The outputs' names and types."""
        return [(name, type_) for (name, _), type_ in zip(self._results, self.output_types(), strict=True)]

    def kernels(self) -> list[Kernel]:
        return self.program.kernels()

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """Inputs and outputs, and a line for each step, of at most that width."""
        values = [f"{name} = {value.tolist()}" for name, value in self.compiled.values.items() if value is not None]
        inputs = ", ".join([*(f"{v.name}: {v.type}" for v in self.graph.inputs), *values])
        outputs = ", ".join(f"{name}: {type_}" for name, type_ in self.signature())
        tier = units(self.tier.name, self.graph.precision)
        lines = [
            f"{self.graph.name or 'model'}: ({inputs}) -> ({outputs})",
            f"{tier}, {counted(self.threads, 'thread')}; {program_text(self.program, width)}",
        ]
        if self.tail is not None:
            open_ = [name for name, value in self.compiled.values.items() if value is None]
            how = "planned when these are known" if self.plans_tail else "computed with NumPy"
            on = f"the values of {', '.join(open_)}, or other data" if open_ else "data"
            lines.append(f"and {counted(len(self.tail.nodes), 'node')} whose shapes depend on {on}, {how}:")
            lines += [f"      {node.op} -> {', '.join(v.name for v in node.outputs)}" for node in self.tail.nodes]
        for value, leaving in self.compiled.leaving.items():
            lines.append(f"{value.name} is made of {leaving.value} by {', '.join(node.op for node in leaving.nodes)}")
        return "\n".join(lines)


def fed_inputs(plan: Compiled) -> list[Value]:
    """The inputs that callers feed: those of states are not among them."""
    hidden = {s.input for s in plan.states}
    return [v for v in plan.graph.inputs if v not in hidden and v.name not in LENGTHS]


def _dtype(value: Value) -> np.dtype:
    return value.type.element


def _dense(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="C")


def _owned(result: Any, copy: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A copy of an array, or of a sequence's arrays and dicts; None stays None."""
    if isinstance(result, list):
        return [_owned(item, copy) for item in result]
    if isinstance(result, dict):
        return dict(result)
    return None if result is None else copy(np.asarray(result))

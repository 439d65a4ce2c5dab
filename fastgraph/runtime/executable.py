"""A compiled program in memory of its own: feed it, run it, fetch its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from ..compile import Compiled, Values, compiled
from ..errors import FastgraphError, ModelError, UnknownNameError
from ..ir import Graph, TensorType, Value
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..ops.evaluate import evaluate
from ..plan.describe import program_text
from ..plan.program import Step
from ..room import LARGE, need
from ..shared import Shapes, Shared
from .allocate import Allocation
from .bind import bind, fed
from .feeds import without_overlap
from .memory import ConstantMemory, Memory, arena_bytes, place_constants

PLAN_BYTES, NODE_BYTES, WORD_BYTES = 9000, 1700, 20
"""Estimated bytes of Python and NumPy objects for a plan, for a node with its values and steps, and for a word of a
record, as a program and bound to memory. Fitted to plans of many networks."""


def compile_graph(
    graph: Graph, shapes: Mapping[str, Sequence[int]], tier: Tier, threads: int, shared: Shared | None = None
) -> Executable:
    """A graph compiled for these input shapes, in memory of its own, ready to run."""
    made = Executable(make_plan(graph, shapes, tier, threads, shared))
    made.reset_states()
    return made


class Plan(NamedTuple):
    """An executable without its arena, which can be in any block of `arena_bytes`.

    `objects`: estimated bytes beside its constants: steps and their records, nodes, values.
    """

    compiled: Compiled
    constants: ConstantMemory
    objects: int

    @property
    def arena_bytes(self) -> int:
        return arena_bytes(self.compiled.program)


def make_plan(
    graph: Graph, shapes: Shapes, tier: Tier, threads: int, shared: Shared | None = None, values: Values | None = None
) -> Plan:
    """A graph compiled for these input shapes, and for values of inputs that decide shapes, with its constants in
    memory.
    """
    made = compiled(graph, shapes, tier, threads, shared, values)
    nodes = len(made.graph.nodes) + (0 if made.tail is None else len(made.tail.nodes))
    words = sum(len(step.words()) for step in made.program.steps if isinstance(step, Step))
    constants = place_constants(made.program, None if shared is None else shared.weights)
    return Plan(made, constants, PLAN_BYTES + NODE_BYTES * nodes + WORD_BYTES * words)


class Executable:
    """The memory and the calls of a compiled program, whose arena is in a given block or in one of its own.

    `execute()` runs it on the current content of its inputs, `execute_timed()` within this thread's deadline:
    RunTimeout when it passes. A run that is stopped or fails leaves states as they were. `states`: the memory and the
    first value of each state; the caller has to set it. `decided`: memory outside the arena of inputs that decide
    shapes; whoever writes there needs another plan.
    """

    def __init__(self, planned: Plan, block: Allocation | None = None) -> None:
        plan, constants = planned.compiled, planned.constants
        self.compiled = plan
        self.graph, self.program, self.tail = plan.graph, plan.program, plan.tail
        self.tier, self.threads = plan.tier, plan.threads
        assert plan.program.arena is not None
        self.arena_bytes = plan.program.arena.size
        self.memory = Memory(plan.program, constants, block)
        bound = bind(plan, self.memory, plan.threads)
        self.execute, self.execute_timed, self.segments = bound.run, bound.run_timed, bound.segments
        self._made, self._results = plan.made, plan.results
        self._bounded = [
            (v, plan.made[b.value], [(axis, plan.made[n.count]) for axis, n in b.extents.items()])
            for v, b in plan.bounded.items()
        ]
        self.states = [(self.memory.array(s.input), s.initial) for s in plan.states]
        self._late = [(self.memory.array(value), final) for value, final in plan.late.items()]
        hidden = {s.input for s in plan.states}
        placed = [v for v in plan.graph.inputs if self.memory.has(v) and v not in hidden]
        self._feeds = [(v.name, v.type.dims, v.type.dtype, self.memory.array(v)) for v in placed]
        self._loose = [v for v in (plan.tail.inputs if plan.tail is not None else ()) if v.type.dtype is None]
        self._on_host = [v for v in plan.graph.inputs if not self.memory.has(v)] + self._loose
        checked = any(port.kind is not None for port in plan.graph.interface.ports.values())
        self.decided: dict[str, np.ndarray] = {}
        self._values = [(name, v.dtype, v.shape, v.tobytes()) for name, v in plan.values.items() if v is not None]
        left = len(self._values) < len(plan.values)
        # the bytes of one input alone are read before they are written, but for vectors
        self._in_turn = len(self._feeds) + len(plan.values) > 1 or any(len(dims) < 2 for _, dims, _, _ in self._feeds)
        self._quick = -1 if self._on_host or checked or left else len(self._feeds) + len(self._values)
        held = all(
            v in plan.made and (plan.made[v].data is not None or self.memory.has(plan.made[v])) for _, v in plan.results
        )
        self._copies = [(name, self.memory.held(plan.made[v])) for name, v in plan.results] if held else None
        self._copied = sum(type_.nbytes for type_ in self.output_types() if type_.concrete)
        self._plain = self._copies if self._copied < LARGE and not self._late else None

    # -- states

    def reset_states(self) -> None:
        """Give all states their first values."""
        for state, initial in self.states:
            state[...] = initial

    def take_states(self, other: Executable) -> None:
        """Give all states the values they have in another executable of the model. In a shared block they have the same
        offsets: arenas begin with them.
        """
        for (state, _), (now, _) in zip(self.states, other.states, strict=True):
            state[...] = now

    # -- feeding and fetching

    def feed(self, feeds: Mapping[str, Any]) -> bool:
        """Copy the feeds in if they have exactly the right types and shapes and don't overlap the inputs; else return
        False.

        An array that owns its memory, or is a view of one that does, is the caller's: the block's owner is larger than
        any input. Of all others the bounds are compared.
        """
        if type(feeds) is not dict or len(feeds) != self._quick:
            return False
        for name, dims, dtype, _ in self._feeds:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != dims or array.dtype != dtype:
                return False
        for name, dtype, dims, content in self._values:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != dims or array.dtype != dtype:
                return False
            if array.tobytes() != content:
                return False
        if self._in_turn:
            owner = self.memory.arena.base
            for array in feeds.values():
                base = array.base
                if base is not None and (base is owner or type(base) is not np.ndarray or base.base is not None):
                    feeds = without_overlap(feeds, self.written())
                    break
        for name, _, _, view in self._feeds:
            view[...] = feeds[name]
        for name, view in self.decided.items():
            view[...] = feeds[name]
        return True

    def written(self) -> list[np.ndarray]:
        """The memory that a run writes."""
        return [self.memory.arena, *self.decided.values()]

    def clear(self) -> None:
        """Zero all inputs, but those whose values the plan is for."""
        for _, _, _, view in self._feeds:
            view[...] = 0
        for name, view in self.decided.items():
            value = self.compiled.values[name]
            view[...] = 0 if value is None else value

    def fill(self, arrays: Mapping[str, Any]) -> None:
        """Copy checked arrays in; strings and sequences are kept as objects."""
        for name, _, _, view in self._feeds:
            view[...] = arrays[name]
        for name, view in self.decided.items():
            view[...] = arrays[name]
        for value in self._on_host:
            self.memory.loose[value] = arrays[value.name]

    def fed(self) -> dict[str, Any]:
        """Copies of the inputs' content, as `fill` takes it. InputError when an input was never fed."""
        found = {value.name: self.memory.held(value) for value in self._on_host}
        found |= {name: view.copy() for name, _, _, view in self._feeds}
        return found | {name: view.copy() for name, view in self.decided.items()}

    def results(self) -> dict[str, np.ndarray]:
        """Copies of the outputs, by name."""
        if self._plain is not None:
            return {name: view.copy() for name, view in self._plain}
        if self._copied >= LARGE:
            self._find_room()
        ready = {value: self.memory.held(held) for value, held in self._made.items()}
        ready.update((value, self.memory.held(value)) for value in self._loose)
        ready.update((value, self._cut(held, extents)) for value, held, extents in self._bounded)
        if self.tail is not None:
            with np.errstate(all="ignore"), fed(self.graph):
                found = evaluate(self.tail, {v.name: ready[v] for v in self.tail.inputs})
            ready.update(zip(self.tail.outputs, found, strict=True))
        results = {name: _owned(ready[value]) for name, value in self._results}
        if self.tail is not None:
            news = [(state, np.array(ready[final])) for state, final in self._late]
            list(starmap(np.copyto, news))  # no signal's handler is called in between
        return results

    def _cut(self, value: Value, extents: Sequence[tuple[int, Value]]) -> np.ndarray:
        """A bounded value, cut to its extents in this run."""
        array: np.ndarray = self.memory.held(value)
        for axis, count in extents:
            array = array[(slice(None),) * axis + (slice(int(self.memory.held(count))),)]
        return array

    def _find_room(self) -> None:
        try:
            need(self._copied)
        except MemoryError as error:
            raise ModelError(f"{self.graph.source or self.graph.name}: no memory for its outputs: {error}") from error

    def view(self, name: str, inputs: bool) -> np.ndarray:
        """The memory of an input or an output. UnknownNameError, with the names there are; FastgraphError if its shape
        depends on data.
        """
        if inputs:
            found = {feed: view for feed, _, _, view in self._feeds} | self.decided
        elif self._copies is None:
            raise FastgraphError(f"output {name!r}: results whose shapes depend on data have no fixed memory: use run")
        else:
            found = dict(self._copies)
        if not isinstance(name, str) or name not in found:
            kind = "input" if inputs else "output"
            raise UnknownNameError(f"no {kind} is called {name!r}: the {kind}s are {', '.join(found) or 'none'}")
        return found[name]

    def output_types(self) -> list[TensorType]:
        """Types of the results, in order; not concrete where they depend on data."""
        return [self._made[v].type if v in self._made else v.type for _, v in self._results]

    def signature(self) -> list[tuple[str, TensorType]]:
        """The outputs' names and types."""
        return [(name, type_) for (name, _), type_ in zip(self._results, self.output_types(), strict=True)]

    def kernels(self) -> list[Kernel]:
        """The kernels of its steps."""
        return self.program.kernels()

    def __str__(self) -> str:
        values = [f"{name} = {value.tolist()}" for name, value in self.compiled.values.items() if value is not None]
        inputs = ", ".join([*(f"{v.name}: {v.type}" for v in self.graph.inputs), *values])
        outputs = ", ".join(f"{name}: {type_}" for name, type_ in self.signature())
        lines = [
            f"{self.graph.name or 'model'}: ({inputs}) -> ({outputs})",
            f"{self.tier.name}, {self.threads} threads; {program_text(self.program)}",
        ]
        if self.tail is not None:
            open_ = [name for name, value in self.compiled.values.items() if value is None]
            on = f"the values of {', '.join(open_)}, or other data" if open_ else "data"
            lines.append(f"and {len(self.tail.nodes)} nodes whose shapes depend on {on}, computed with NumPy:")
            lines += [f"      {node.op} -> {', '.join(v.name for v in node.outputs)}" for node in self.tail.nodes]
        return "\n".join(lines)


def _owned(result: Any) -> Any:
    """A copy of an array, or of a sequence's arrays; None stays None."""
    if result is None:
        return None
    return [_owned(item) for item in result] if isinstance(result, list) else np.array(result, order="C")

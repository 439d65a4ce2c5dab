"""From a graph to machine code: its shapes made known, the stages, a plan of steps and memory, linked kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .errors import FastgraphError, RoomError, UnsupportedError
from .ir import Graph, Open, State, Value, check, copy, open_axes
from .kernels.core.kernel import Kernel
from .kernels.isa.tiers import NUMPY, Tier
from .locks import undisturbed
from .objects.cache import objects
from .objects.link import link
from .passes.dynamic import cut_dynamic, is_dynamic, layers_of
from .passes.specialize import sizes_suit, specialize, states_fit
from .passes.stages import EARLY_ENDS, LISTS, optimize
from .plan.lower import Matches
from .plan.lower.build import build
from .plan.program import Program, Step, UserKernel
from .room import need
from .shared import Shapes, Shared, guarded, name_of

if TYPE_CHECKING:
    from .passes.bounds.values import Bounded
    from .passes.leaving import Leaving

Values = Mapping[str, np.ndarray | tuple[int | Open, ...] | None]
"""The values of inputs that decide shapes: an array, numbers of which some are open, or None for any value."""

Watcher = Callable[[Graph], None]


class Length(NamedTuple):
    """Where a run finds what open extents of a group have in common: the extent of an input's axis `at`, or its element
    there if `held`, less `more`.
    """

    name: str
    at: int
    held: bool
    more: int

    def of(self, arrays: Mapping[str, np.ndarray]) -> int:
        array = arrays[self.name]
        return int(array.flat[self.at] if self.held else array.shape[self.at]) - self.more


class Compiled(NamedTuple):
    """A program whose kernels are linked into this process, and how its values correspond to the graph's.

    `graph`: after the stages. `made` maps outputs of the graph before the stages to the values that hold them
    afterwards; `results`: the names of outputs that the program makes, with their values. `tail`: the part of the graph
    whose shapes depend on data, which NumPy computes after the program. `states` are kept from run to run; `late`: next
    values of states that the program does not keep itself. `addresses`: of the kernels. `bounded`: values with extents
    that are known after a run, by the results and inputs of the tail that they stand for. `shared`: what it shares with
    other plans of its model, of which it uses `used`. `values`: of the inputs that decide shapes, those that it is made
    for, or None where it is for any. `cheap`: whether a run of references takes less time than planning did.
    `lengths`: where the open extents are found, by group. `work`: a run's, in what planning takes, of a plan for many
    lengths. `leaving`: results that are made of others when they are given.
    """

    graph: Graph
    program: Program
    tier: Tier
    threads: int
    made: Mapping[Value, Value]
    results: Sequence[tuple[str, Value]]
    tail: Graph | None
    states: Sequence[State]
    late: Mapping[Value, Value]
    addresses: Mapping[Kernel, int]
    bounded: Mapping[Value, Bounded]
    shared: Shared | None = None
    used: Sequence[np.ndarray] = ()
    values: Mapping[str, np.ndarray | None] = {}
    cheap: bool = False
    lengths: Mapping[int, Length] = {}
    work: float = 0.0
    leaving: Mapping[Value, Leaving] = {}


def compiled(
    graph: Graph, shapes: Shapes, tier: Tier, threads: int, shared: Shared | None = None, values: Values | None = None
) -> Compiled:
    """The graph for these input shapes, compiled to the addresses of its kernels, within the graph's limits.

    `shared`: with other plans of this graph. `values`: of inputs that decide shapes (`deciders`).

    Raises ModelError and UnsupportedError for faults of the file, GraphError where no plan can be made, CompilerError
    where a kernel can't be compiled, and MemoryError when a run would take more than is free.
    """
    plan = planned(graph, shapes, tier, threads, shared, values)
    addresses = linked(plan.program, tier, {} if shared is None else shared.addresses)
    return plan._replace(addresses={**addresses, **_users(graph, plan.program)})


def planned(
    graph: Graph, shapes: Shapes, tier: Tier, threads: int, shared: Shared | None = None,
    values: Values | None = None, before: Watcher | None = None,
) -> Compiled:  # fmt: skip
    """As `compiled`, without compiling kernels, and so without addresses.

    `before` is called with the graph before the stages, whose nodes are still those of the file.
    """
    native = tier is not NUMPY
    numbers = {name: row for name, row in (values or {}).items() if isinstance(row, tuple)}
    held = {name: value for name, value in (values or {}).items() if not isinstance(value, tuple)}
    lengths = _lengths(shapes, numbers)
    planning = nullcontext(()) if shared is None else shared.weights.planning()
    with guarded(graph), undisturbed(), planning as used:  # modules are imported on the way
        lowered, states = _known(graph, shared, shapes, held)
        cheap = any(value is not None for value in held.values()) and _cheap_on_host(lowered)
        bounded, leaving, shown = _bounded(lowered, shapes, numbers) if native else ({}, {}, list(lowered.outputs))
        asked = list(lowered.outputs)
        tail, work = cut_dynamic(lowered, bounded), 0.0
        if lengths:
            work = _work_that_pays(lowered, tail, bounded, shared, shapes, numbers)
        elif shared is not None:
            shared.left = 0 if tail is None else layers_of(tail)
        if lowered.prune():
            check(lowered, "bounds")
        wanted = list(lowered.outputs)
        if before is not None:
            before(lowered)
        match, lowered.lanes = Matches(kernels=native), tier.lanes
        optimize(lowered, match)
        made = dict(zip(wanted, lowered.outputs, strict=True))
        kept, late = _next_states(states, asked[len(graph.outputs) :], made, tail)
        program = build(lowered, tier, threads, kept, match, [s.input for s in states])
        made = dict(zip(wanted, lowered.outputs, strict=True))  # some are set aside
    results = list(zip([v.name for v in graph.outputs], shown, strict=False))
    asked_of = {v: bounded[v] for v in (*asked, *(tail.inputs if tail is not None else ())) if v in bounded}
    _need(program, made, shared)
    return Compiled(
        lowered, program, tier, threads, made, results, tail, states, late, {}, asked_of, shared, used, held, cheap,
        lengths, work, leaving,
    )  # fmt: skip


def _lengths(shapes: Shapes, numbers: Shapes) -> dict[int, Length]:
    """The first open extent of each group."""
    found: dict[int, Length] = {}
    for rows, held in ((shapes, False), (numbers, True)):
        for name, row in rows.items():
            for at, d in open_axes(row):
                found.setdefault(d.group, Length(name, at, held, d.more))
    return found


def _known(
    graph: Graph, shared: Shared | None, shapes: Shapes, values: Mapping[str, np.ndarray | None]
) -> tuple[Graph, list[State]]:
    """A copy of the graph whose shapes are known, and its states."""
    if shared is not None and shared.short is not shared.graph:
        from .passes.spatial import has_ones

        with suppress(FastgraphError):  # the graph as the file has it says what is wrong
            lowered = copy(shared.short)
            nodes, states = lowered.nodes, lowered.states
            _know(lowered, graph, shapes, values)
            if not has_ones(nodes, shared.short.nodes):
                return lowered, states
    lowered = copy(graph if shared is None else shared.graph)
    states = lowered.states
    _know(lowered, graph, shapes, values)
    return lowered, states


def _know(lowered: Graph, graph: Graph, shapes: Shapes, values: Mapping[str, np.ndarray | None]) -> None:
    """Give a copy of the graph its shapes, with its states as inputs and outputs."""
    states, hidden = lowered.states, {s.input for s in lowered.states}
    lowered.unfold_states()
    known = {name: value for name, value in values.items() if value is not None}
    specialize(lowered, shapes, known)
    check(lowered, "specialize")
    sizes_suit(lowered, graph)
    if known:
        lowered.inputs = [v for v in lowered.inputs if v in hidden or v.name not in known]
    states_fit(graph, states, lowered.outputs[len(graph.outputs) :])


def _next_states(
    states: Sequence[State], finals: Sequence[Value], made: Mapping[Value, Value], tail: Graph | None
) -> tuple[dict[Value, Value], dict[Value, Value]]:
    """The states' next values that the program keeps itself, and those that come late.

    A run may end in the tail: then all states have their next values at its end, or none.
    """
    pairs = list(zip((s.input for s in states), finals, strict=True))
    kept = {state: made[v] for state, v in pairs if v in made and tail is None}
    return kept, {state: v for state, v in pairs if state not in kept}


def _cheap_on_host(graph: Graph) -> bool:
    from .passes.deciding import cheap_on_host  # most models never ask

    return cheap_on_host(graph)


def _bounded(
    graph: Graph, shapes: Shapes, numbers: Shapes
) -> tuple[dict[Value, Bounded], dict[Value, Leaving], list[Value]]:
    """Bounds for extents that depend on data. (bounded values, results that are made of others when they leave a run,
    the outputs as a run shows them: these results, or what the graph makes now).
    """
    LISTS(graph)
    EARLY_ENDS(graph)
    given, leaving, bounded = list(graph.outputs), {}, {}
    if any(v.type.dtype is None or v.type.dtype.hasobject for v in given):
        from .passes.leaving import leaving as leaving_of

        leaving = leaving_of(graph)
    if _lengths(shapes, numbers) or is_dynamic(graph):
        from .passes.bounds import bounded as bounded_of

        bounded = bounded_of(graph, shapes, numbers)
    now = dict(zip(given, graph.outputs, strict=True))
    shown = [v if v in leaving else now[v] for v in given]
    return bounded, {v: each._replace(value=now[v]) for v, each in leaving.items()}, shown


def _work_that_pays(
    graph: Graph, tail: Graph | None, bounded: Mapping[Value, Bounded], shared: Shared | None, *rows: Shapes
) -> float:
    """A run's work, in what planning takes, of a plan for many lengths. UnsupportedError or RoomError where plans for
    each length are better. rows: shapes, and numbers that decide some.
    """
    from .passes.deciding import native_work

    what = f"{name_of(graph)}: a plan for any lengths up to {rows[0]}"
    if tail is not None and not 0 < layers_of(tail) <= (0 if shared is None else shared.left):
        raise UnsupportedError(f"{what} leaves more to others")
    work = native_work(graph, {b.value for b in bounded.values()})
    if work * _idle(*rows) > 1:
        raise RoomError(f"{what} does not pay")
    return work


def _idle(*rows: Shapes) -> float:
    """The share of padding in open extents, for lengths in the middle."""
    open_ = {d.group: d for row in chain(*(each.values() for each in rows)) for _, d in open_axes(row)}
    return 1 - prod((d.least + d.most) / (2 * d.most) for d in open_.values())


def _need(program: Program, made: Mapping[Value, Value], shared: Shared | None) -> None:
    """MemoryError when the arena and the results take more than is free."""
    new = 0 if shared is not None and program.arena.size <= shared.block else program.arena.size
    need(new + sum(v.type.nbytes for v in made.values() if v.type.concrete and v.data is None))


def _users(graph: Graph, program: Program) -> dict[Kernel, int]:
    """The addresses of users' kernels. CompilerError, which names the node, where numba fails."""
    found: dict[Kernel, int] = {}
    for step in program.steps:
        kernel = step.kernel if isinstance(step, Step) else None
        if isinstance(kernel, UserKernel) and kernel not in found:
            from .objects.user import compile_once

            what = f"{name_of(graph)}: node {step.node.name}: {step.node.op}"
            found[kernel] = compile_once(kernel, what)
    return found


def linked(program: Program, tier: Tier, known: dict[Kernel, int]) -> dict[Kernel, int]:
    """The addresses of a program's kernels in this process; kernels that the cache lacks are compiled.

    `known`: those of the tier's kernels that are linked already; the others are added.
    """
    kernels = [kernel for kernel in program.kernels() if not isinstance(kernel, UserKernel)]
    new = [kernel for kernel in kernels if kernel not in known]
    found = link({kernel.symbol: obj for kernel, obj in zip(new, objects(new, tier), strict=True)})
    known.update((kernel, found[kernel.symbol]) for kernel in new)
    return {kernel: known[kernel] for kernel in kernels}

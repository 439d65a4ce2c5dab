"""From a graph to machine code: its shapes made known, the stages, a plan of steps and memory, linked kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .errors import FastgraphError, GraphError, ModelError, UnsupportedError
from .freedoms import free
from .ir import Graph, State, Value, captured, check, copy
from .ir.weights import Weights
from .kernels.core.kernel import Kernel
from .kernels.isa.tiers import NUMPY, Tier
from .limits import spending
from .locks import undisturbed
from .objects.cache import objects
from .objects.link import link
from .passes.canonicalize import canonicalize
from .passes.decompose import decompose
from .passes.dynamic import cut_dynamic, is_dynamic
from .passes.explicit_quantization import explicit_quantization
from .passes.fuse import fuse
from .passes.layout import layout
from .passes.specialize import sizes_suit, specialize
from .plan.build import build
from .plan.lower import Matches
from .plan.program import Program, Step, UserKernel
from .plan.widen import widen
from .room import need
from .rules.rule import has, later
from .rules.sweep import has_reals

if TYPE_CHECKING:
    from .passes.bounds.values import Bounded


def bodies(graph: Graph, match: Matches | None = None) -> bool:
    """Run all stages on the bodies of control flow that kernels can run then; others stay as they are."""
    if not any(node.graphs for node in graph.nodes):
        return False
    from .passes.bodies import inner, sound_bodies

    match = match or Matches()
    changed = False
    for i, node in enumerate(graph.nodes):
        lowered = inner(node)
        if lowered is None:
            continue
        try:
            for body in sound_bodies(lowered):
                specialize(body, {})
                optimize(body, Matches(), captured(body))
        except (ModelError, UnsupportedError):
            continue
        if match(lowered) is not None:
            graph.nodes[i], changed = lowered, True
    return changed


EARLY_ENDS = later("early_ends.early_ends", has("loop"))
"""Before the part of a graph whose shapes depend on data is cut off."""
STAGES: tuple[tuple[str, Callable[[Graph], bool]], ...] = (
    ("explicit_quantization", explicit_quantization),
    ("canonicalize", canonicalize),
    ("decompose", decompose),
    ("layout", layout),
    ("to_integers", later("to_integers.to_integers", has_reals)),
    ("attention", later("attention_found.attention", has("softmax", "matmul split"))),
    ("norms", later("norms.norms", has("reduce_mean", "sqrt"))),
    ("fuse", fuse),
    ("widen", widen),
    ("control", bodies),
)
"""The stages of a specialized graph, in order. Each returns whether it may have changed nodes or values."""


def stages(graph: Graph, match: Matches | None = None, around: Iterable[Value] = ()) -> Iterator[tuple[str, Graph]]:
    """Run the stages on a specialized graph, in place; yields each stage's name with the graph after it, checked.

    `match`: keeps lowerings that the last stages chose. `around`: the values that a body captures.
    """
    match = match or Matches()
    for name, stage in STAGES:
        run = partial(stage, match=match) if stage in (widen, bodies) else stage
        if free(name) and run(graph):
            check(graph, name, set(around))
        yield name, graph


def optimize(graph: Graph, match: Matches | None = None, around: Iterable[Value] = ()) -> None:
    """Run all stages, in place."""
    for _ in stages(graph, match, around):
        pass


Shapes = Mapping[str, Sequence[int]]
Values = Mapping[str, np.ndarray | None]
Watcher = Callable[[Graph], None] | None


class Compiled(NamedTuple):
    """A program whose kernels are linked into this process, and how its values correspond to the graph's.

    `graph`: after the stages. `made` maps outputs of the graph before the stages to the values that hold them
    afterwards; `results`: the names of outputs that the program makes, with their values. `tail`: the part of the graph
    whose shapes depend on data, which NumPy computes after the program. `states` are kept from run to run; `late`: next
    values of states that the program does not keep itself. `addresses`: of the kernels. `bounded`: values with extents
    that are known after a run, by the results and inputs of the tail that they stand for. `shared`: what it shares with
    other plans of its model, of which it uses `used`. `values`: of the inputs that decide shapes, those that it is made
    for, or None where it is for any. `cheap`: whether a run of references takes less time than planning did.
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
    values: Values = {}
    cheap: bool = False


class Shared:
    """What the plans of a model with open input shapes share.

    `graph`: the model's, with all constants folded that don't depend on shapes. `addresses`: of the kernels linked by
    now. `block`: bytes of the memory for arenas; a smaller arena takes no more.
    """

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph, self.weights = graph, weights
        self.addresses: dict[Kernel, int] = {}
        self.block = 0


def share(graph: Graph) -> Shared:
    """What plans of a graph for several shapes share."""
    base = copy(graph)
    if not graph.states:
        with spending(graph.limits, _stored(graph), graph.source or graph.name or "model"):
            try:
                specialize(base, {})
            except (FastgraphError, *_UNFORESEEN):
                base = copy(graph)  # a plan says what is wrong
    return Shared(base, Weights(v.data for v in base.constants() if v.data is not None))


_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def deciders(shared: Shared, shapes: Shapes) -> tuple[str, ...]:
    """The inputs whose values must be known, too, for a plan of these input shapes. Raises what `planned` does."""
    graph = copy(shared.graph)
    inputs = list(graph.inputs)
    graph.unfold_states()
    with _guarded(graph), undisturbed():
        from .passes.deciding import deciding

        specialize(graph, shapes)
    graph.inputs = inputs
    return tuple(v.name for v in deciding(graph))


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
    values: Values | None = None, before: Watcher = None,
) -> Compiled:  # fmt: skip
    """As `compiled`, without compiling kernels, and so without addresses.

    `before` is called with the graph before the stages, whose nodes are still those of the file.
    """
    with _guarded(graph):
        return _planned(graph, shapes, tier, threads, shared, values or {}, before)


@contextmanager
def _guarded(graph: Graph) -> Iterator[None]:
    """Holds planning to the graph's limits. GraphError for unforeseen failures within."""
    try:
        with spending(graph.limits, _stored(graph), graph.source or graph.name or "model"), np.errstate(all="ignore"):
            yield
    except FastgraphError:
        raise
    except _UNFORESEEN as error:
        raise GraphError(
            f"{graph.source or graph.name}: making a plan failed ({type(error).__name__}: {error}): it has numbers "
            "that make no sense together, or this is a defect of fastgraph; if other programs can run it, report it"
        ) from error


def _cheap_on_host(graph: Graph) -> bool:
    from .passes.deciding import cheap_on_host  # most models never ask

    return cheap_on_host(graph)


def _stored(graph: Graph) -> int:
    return graph.stored or sum(v.type.nbytes for v in graph.constants())


def _planned(
    graph: Graph, shapes: Shapes, tier: Tier, threads: int, shared: Shared | None, values: Values, before: Watcher
) -> Compiled:
    planning = nullcontext(()) if shared is None else shared.weights.planning()
    with undisturbed(), planning as used:  # modules are imported on the way
        lowered = copy(graph if shared is None else shared.graph)
        states = lowered.states
        hidden = {s.input for s in states}
        lowered.unfold_states()
        known = {name: value for name, value in values.items() if value is not None}
        specialize(lowered, shapes, known)
        check(lowered, "specialize")
        sizes_suit(lowered, graph)
        if known:
            lowered.inputs = [v for v in lowered.inputs if v in hidden or v.name not in known]
        finals = lowered.outputs[len(graph.outputs) :]
        for state, final in zip(states, finals, strict=True):
            _fits_state(graph, state, final)
        cheap = bool(known) and _cheap_on_host(lowered)
        if tier is not NUMPY:
            EARLY_ENDS(lowered)
        bounded = _bounded(lowered) if tier is not NUMPY and is_dynamic(lowered) else {}
        asked = list(lowered.outputs)
        finals = asked[len(graph.outputs) :]
        tail = cut_dynamic(lowered, bounded)
        if lowered.prune():
            check(lowered, "bounds")
        wanted = list(lowered.outputs)
        if before is not None:
            before(lowered)
        match = Matches(kernels=tier is not NUMPY)
        optimize(lowered, match)
        made = dict(zip(wanted, lowered.outputs, strict=True))
        kept = {s.input: made[v] for s, v in zip(states, finals, strict=True) if v in made}
        late = {s.input: v for s, v in zip(states, finals, strict=True) if v not in made or tail is not None}
        if tail is not None:
            kept = {}  # a run may end in the tail: all states have their next values at its end, or none
        program = build(lowered, tier, threads, kept, match, [s.input for s in states])
        made = dict(zip(wanted, lowered.outputs, strict=True))  # some are set aside
    results = list(zip([v.name for v in graph.outputs], asked, strict=False))
    asked_of = {v: bounded[v] for v in (*asked, *(tail.inputs if tail is not None else ())) if v in bounded}
    assert program.arena is not None
    new = 0 if shared is not None and program.arena.size <= shared.block else program.arena.size
    need(new + sum(v.type.nbytes for v in made.values() if v.type.concrete and v.data is None))
    return Compiled(
        lowered, program, tier, threads, made, results, tail, states, late, {}, asked_of, shared, used, values, cheap
    )


def _bounded(graph: Graph) -> dict[Value, Bounded]:
    from .passes.bounds import bounded

    return bounded(graph)


def _fits_state(graph: Graph, state: State, final: Value) -> None:
    """ModelError unless a state's next value has its type."""
    same = (final.type.dtype, final.type.shape) == (state.input.type.dtype, state.input.type.shape)
    if not same or not final.type.concrete or final.type.dtype == object:
        raise ModelError(
            f"{graph.source or graph.name}: the state {state.input.name!r} is {state.input.type}, but its next value "
            f"is {final.type}: a state keeps its type, and its shape must be known before the run"
        )


def _users(graph: Graph, program: Program) -> dict[Kernel, int]:
    """The addresses of users' kernels. CompilerError, which names the node, where numba fails."""
    found: dict[Kernel, int] = {}
    for step in program.steps:
        kernel = step.kernel if isinstance(step, Step) else None
        if isinstance(kernel, UserKernel) and kernel not in found:
            from .objects.user import compile_once

            what = f"{graph.source or graph.name or 'model'}: node {step.node.name}: {step.node.op}"
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

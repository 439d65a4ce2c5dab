"""From a lowered graph to a program: storage, steps, lifetimes, arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...freedoms import checked, free
from ...ir import Graph, Node, Value, read_by
from ...ir.weights import current as current_weights
from ...kernels.core.slots import groups
from ...kernels.isa.tiers import Tier
from ..arena import Packing, plan
from ..constants import Constants
from ..locality import Users, nearer
from ..packing import Buffer
from ..program import AnyStep, Jump, Program, Ref, Scratch, Step, buffer_bytes, parts_of
from ..storage import Views, has_memory
from ..verify import verify
from . import Emit, Matches, emit_copies, emit_graph

ALIGN = 64
KEEP = "keep"
"""The operator of a program's last steps, which copy next values to their states."""


def build(
    graph: Graph,
    tier: Tier,
    threads: int,
    kept: Mapping[Value, Value] | None = None,
    match: Matches | None = None,
    lowest: Sequence[Value] = (),
) -> Program:
    """The program of a graph after all stages, with concrete values; its arena is planned and verified.

    `kept`: inputs whose memory persists from run to run, with the outputs that become their next values at a run's end.
    `match`: the lowerings that the stages found for its nodes. `lowest`: inputs at the beginning of the arena, in this
    order.
    """
    program = Program()
    if checked() != "guard" and current_weights() is None:
        program.room = Constants(sum(v.type.nbytes for v in graph.constants() if has_memory(v)))
    match = match or Matches()
    emit = Emit(program, Views(graph, match.abilities), match, tier, threads)
    emit.precision = graph.precision
    if tier.tiles:
        join_sums(emit, graph)
    if graph.precision == "bfloat16":
        from .narrow import narrow

        narrow(emit, graph)
    emit_graph(emit, graph)
    for jump in [(step, i) for i, step in enumerate(program.steps) if isinstance(step, Jump) and step.fails]:
        emit.land(jump)
    _save_outputs(emit, graph, kept or {})
    emit_copies(emit, {value: final for value, final in (kept or {}).items() if final is not value}, KEEP)
    _place(program, graph, lowest, threads)
    if checked():
        from ..reach.records import verify_records

        within = [v for v in graph.inputs if v in program.storage and program.storage[v].root is not v]
        verify_records(program, tier, threads, graph.inputs, graph.outputs, [*(kept or ()), *within])
    return program


def _save_outputs(emit: Emit, graph: Graph, kept: Mapping[Value, Value]) -> None:
    """Copy outputs that lie in persistent memory elsewhere, before the next values are copied there."""
    roots = {emit.storage(value).root for value in kept}
    for i, output in enumerate(graph.outputs):
        if roots and output in emit.program.storage and emit.storage(output).root in roots:
            graph.outputs[i] = Value(f"{output.name}.before", output.type)
            emit_copies(emit, {graph.outputs[i]: output}, "identity")


def _touched(program: Program, step: AnyStep) -> Iterator[Value | Scratch]:
    """The buffers that a step reads or writes."""
    if isinstance(step, Jump):
        if step.cell is not None and not isinstance(step.cell.base, int):
            yield step.cell.base
    elif isinstance(step, Step):
        for arg in step.words():
            if type(arg) is Ref and type(arg.base) is not int:
                yield arg.base  # type: ignore[misc]
    else:
        for value in (*read_by(step.node), *step.node.outputs):
            if value in program.storage:
                yield program.storage[value].root


def _place(program: Program, graph: Graph, lowest: Sequence[Value], threads: int) -> None:
    buffers = lifetimes(program, graph)
    program.arena = _packed(program, buffers, lowest, threads)
    verify(list(buffers.values()), program.arena.offsets, program.arena.size, loops(program))
    program.offsets = dict(zip(buffers, program.arena.offsets, strict=True))


def _packed(
    program: Program, buffers: Mapping[Value | Scratch, Buffer], lowest: Sequence[Value], threads: int
) -> Packing:
    """A plan of the arena that begins with `lowest`, which are alive throughout."""
    starts, at = {}, 0
    for value in lowest:
        starts[value] = at
        at += -(-buffers[value].size // ALIGN) * ALIGN
    rest = {owner: buffer for owner, buffer in buffers.items() if owner not in starts}
    above = plan(list(rest.values()))
    if threads > 1 and free("locality"):
        above = nearer(list(rest.values()), above, _users(program, rest, threads))
    others = iter(above.offsets)
    offsets = tuple(starts[owner] if owner in starts else at + next(others) for owner in buffers)
    return Packing(offsets, at + above.size, at + above.bound, above.heuristic)


def _users(program: Program, owners: Iterable[Value | Scratch], threads: int) -> Users:
    """Which parts use buffers alone, and how many bytes a thread touches: its share of buffers, and all constants."""
    parts: dict[Value | Scratch | int, set[int]] = {}
    clock = [0]
    for step in program.steps:
        touched = 0.0
        if isinstance(step, Step):
            for base in {arg.base: None for arg in step.words() if type(arg) is Ref}:
                if type(base) is not int:
                    parts.setdefault(base, set()).add(step.part)
                    touched += buffer_bytes(base) / threads  # type: ignore[arg-type]
                elif base >= 0:
                    touched += program.constants[base].nbytes
            touched *= step.share
        clock.append(clock[-1] + int(touched))
    alone = [found.pop() if len(found := parts.get(owner, {0})) == 1 else 0 for owner in owners]
    return Users(threads, alone, clock)


def loops(program: Program) -> list[tuple[int, int]]:
    """The first and the last step of each loop, inner ones first."""
    return [(i + step.by, i) for i, step in enumerate(program.steps) if isinstance(step, Jump) and step.by < 1]


def lifetimes(program: Program, graph: Graph) -> dict[Value | Scratch, Buffer]:
    """Buffers by their owners, alive while steps touch them; inputs and outputs live throughout.

    What is touched within a loop and also outside of it lives through all of its rounds; what one of some parts that
    threads do at once touches, through all of these.
    """
    end = max(len(program.steps) - (not program.bodies), 0)  # after the last round, if a loop comes last
    first: dict[Value | Scratch, int] = {}
    final: dict[Value | Scratch, int] = {}
    begins, ends = list(range(len(program.steps))), list(range(len(program.steps)))
    for group in groups(parts_of(program.steps)):
        begins[group.start : group.stop] = [group.start] * len(group)
        ends[group.start : group.stop] = [group.stop - 1] * len(group)
    for i, step in enumerate(program.steps):
        for owner in _touched(program, step):
            first.setdefault(owner, begins[i])
            final[owner] = ends[i]
    for value in graph.inputs:
        if value in program.storage:
            first[program.storage[value].root], final[program.storage[value].root] = 0, end
    for value in graph.outputs:
        if value in program.storage:
            root = program.storage[value].root
            first.setdefault(root, 0)
            final[root] = end
    for head, tail in loops(program):
        for owner in first:
            if first[owner] < head <= final[owner] or first[owner] <= tail < final[owner]:
                first[owner], final[owner] = min(first[owner], head), max(final[owner], tail)
    if not free("reuse"):
        first, final = dict.fromkeys(first, 0), dict.fromkeys(first, end)
    return {owner: Buffer(owner.name, first[owner], final[owner], buffer_bytes(owner), ALIGN) for owner in first}


def join_sums(e: Emit, graph: Graph) -> None:
    """Let sums be computed with the layer that makes an operand of theirs last, if nothing else reads it and its
    lowering can; finds views anew.
    """
    if not free("residual"):
        return
    uses, makers, outputs = graph.uses(), graph.producers(), {*graph.outputs}
    places = {node: i for i, node in enumerate(graph.nodes)}
    nodes: dict[Node, Node | None] = {}
    for total in filter(_adds_two, graph.nodes):
        sole = [makers[v] for v in total.operands if v in makers and uses[v] == [total] and v not in outputs]
        for layer in sorted(sole, key=places.__getitem__, reverse=True):
            if layer not in nodes and (joined := _joined(e, layer, total)) is not None:
                nodes |= {layer: None, total: joined}
                break
    if nodes:
        graph.nodes = [kept for node in graph.nodes if (kept := nodes.get(node, node)) is not None]
        e.views = Views(graph, e.match.abilities)


def _adds_two(node: Node) -> bool:
    """Whether its chain begins with the sum of its two operands."""
    name, *operands = node.attrs["chain"][0] if node.op == "fused" and node.attrs["chain"] else ("",)
    return name == "add" and set(operands) == {0, 1} and len(set(node.inputs)) == 2 == len(node.operands)


def _joined(e: Emit, layer: Node, total: Node) -> Node | None:
    found = e.match(layer)
    return None if found is None else found[0].joins(e, layer, found[1], total)

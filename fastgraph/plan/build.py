"""From a lowered graph to a program: storage, steps, lifetimes, arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..freedoms import free
from ..ir import Graph, Node, Value, read_by
from ..ir.weights import current as current_weights
from ..kernels.isa.tiers import NUMPY, Tier
from .arena import Buffer, Plan, plan
from .constants import Constants
from .lower import Emit, Matches, blocks, emit_block
from .lower.move.emit import emit_copy
from .program import HostStep, Program, Ref, Scratch, Step, buffer_bytes, checked
from .storage import Views
from .verify import verify

ALIGN = 64
KEEP = "keep"
"""What the last steps of a program with states do: nothing but let the next values take their places."""


def build(
    graph: Graph,
    tier: Tier,
    threads: int,
    kept: Mapping[Value, Value] | None = None,
    match: Matches | None = None,
    lowest: Sequence[Value] = (),
) -> Program:
    """The program of a graph after all stages, its values concrete. Its arena is planned and verified.

    `kept`: inputs that keep what lies in them from run to run, with the outputs that they become at a run's end.
    `match`: what the stages have found of its nodes. `lowest`: inputs that begin the arena, in this order.
    """
    program = Program()
    if checked() != "guard" and current_weights() is None:
        program.room = Constants(sum(v.type.nbytes for v in graph.constants() if has_memory(v)))
    match = match or Matches()
    views = Views(graph, match.abilities)
    emit = Emit(program, views, match, tier, threads)
    banded = list(blocks(graph, views, match))
    within = {node: block for block in banded for node in block.nodes()}
    for node in graph.nodes:
        emit.node = node
        found = match(node)
        if node in within:
            if node is within[node].nodes()[-1]:
                emit_block(emit, within[node])
        elif found is None:
            emit.host()
        else:
            lowering, plan = found
            lowering.emit(emit, node, plan)
    for value in (*graph.inputs, *graph.outputs, *(v for node in graph.nodes for v in (*read_by(node), *node.outputs))):
        if value.data is None and has_memory(value):
            emit.storage(value)
    _keep(emit, kept or {})
    _place(program, graph, lowest)
    if checked():
        from .records import verify_records

        verify_records(program, tier, threads, graph.inputs, graph.outputs, kept or ())
    return program


def _keep(emit: Emit, kept: Mapping[Value, Value]) -> None:
    """Copy what the kept inputs become over them; those that become one another are set aside first."""
    moved = {value: final for value, final in kept.items() if final is not value}
    aside = {final: Value(f"{final.name}.kept", final.type) for final in moved.values() if final in moved}
    pairs = [*aside.items(), *((aside.get(final, final), value) for value, final in moved.items())]
    for source, target in pairs:
        emit.node = Node(KEEP, [source], [target])
        if emit.tier is NUMPY:
            for value in (source, target):
                if value.data is None:
                    emit.storage(value)
            emit.host()
            continue
        emit_copy(emit, source.type.dims, source.type.itemsize, (emit.address(source), emit.strides(source)),
                  (emit.address(target), emit.strides(target)))  # fmt: skip


def has_memory(value: Value) -> bool:
    """Whether the value lives in the arena: strings, sequences and optionals live on the host."""
    return value.type.dtype is not None and value.type.dtype.kind != "O"


def _touched(program: Program, step: Step | HostStep) -> Iterator[Value | Scratch]:
    """The buffers that a step reads or writes."""
    if isinstance(step, Step):
        for arg in step.words():
            if type(arg) is Ref and type(arg.base) is not int:
                yield arg.base  # type: ignore[misc]
    else:
        for value in (*read_by(step.node), *step.node.outputs):
            if value in program.storage:
                yield program.storage[value].root


def _place(program: Program, graph: Graph, lowest: Sequence[Value]) -> None:
    buffers = lifetimes(program, graph)
    program.arena = _packed(buffers, lowest)
    verify(list(buffers.values()), program.arena.offsets, program.arena.size)
    program.offsets = dict(zip(buffers, program.arena.offsets, strict=True))


def _packed(buffers: Mapping[Value | Scratch, Buffer], lowest: Sequence[Value]) -> Plan:
    """A plan of the arena which begins with what is lowest, as that is alive throughout."""
    starts, at = {}, 0
    for value in lowest:
        starts[value] = at
        at += -(-buffers[value].size // ALIGN) * ALIGN
    above = plan([buffer for owner, buffer in buffers.items() if owner not in starts])
    others = iter(above.offsets)
    offsets = tuple(starts[owner] if owner in starts else at + next(others) for owner in buffers)
    return Plan(offsets, at + above.size, at + above.bound, above.heuristic)


def lifetimes(program: Program, graph: Graph) -> dict[Value | Scratch, Buffer]:
    """Buffers by their owners, alive while steps touch them; inputs and outputs live throughout."""
    end = max(len(program.steps) - 1, 0)
    first: dict[Value | Scratch, int] = {}
    final: dict[Value | Scratch, int] = {}
    for i, step in enumerate(program.steps):
        for owner in _touched(program, step):
            first.setdefault(owner, i)
            final[owner] = i
    for value in graph.inputs:
        if value in program.storage:
            first[program.storage[value].root], final[program.storage[value].root] = 0, end
    for value in graph.outputs:
        if value in program.storage:
            root = program.storage[value].root
            first.setdefault(root, 0)
            final[root] = end
    if not free("reuse"):
        first, final = dict.fromkeys(first, 0), dict.fromkeys(first, end)
    return {owner: Buffer(owner.name, first[owner], final[owner], buffer_bytes(owner), ALIGN) for owner in first}

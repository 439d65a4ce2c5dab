"""The table kernel: y = table[x], where the bits of x, as an unsigned number, are the index.

The record is that of an elementwise kernel with one input, then TABLE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import Record
from ..isa.elements import shuffle, write
from ..isa.loops import each_vector, loop, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector
from .elementwise import Row, over_rows
from .rows import TABLE

UNROLL = 4
Look = Callable[[Any], Any]
"""From a vector of indices to one of entries."""


def make(tier: Tier, index: int, value: int, vbmi: bool) -> Callable[..., None]:
    """The kernel for x and y of elements of `index` and `value` bytes. `vbmi` (for bytes, 512-bit tiers): the CPU
    permutes bytes across a register, so that four registers are the table.
    """
    look = None
    if index == value == 1 and tier.lanes > 4:
        look = _permuted if vbmi else _shuffled
    kinds = [ir.IntType(8 * value), ir.IntType(8 * index)]

    def prepare(v: Vector, behind: Callable[[Record], Any]) -> Row:
        table = v.pointer(behind(TABLE).table, kinds[0])
        if look is None:
            return lambda xs, y, left, right: _one_by_one(v, table, xs[0], y, left, right)
        found = look(v, table)
        return lambda xs, y, left, right: _vectors(v, found, xs[0], y, left, right)

    kernel = over_rows(tier, kinds, prepare)
    if vbmi:
        kernel.needs = ("avx512vbmi",)  # type: ignore[attr-defined]
    return kernel


def _one_by_one(v: Vector, table: Any, x: Any, y: Any, left: Any, right: Any) -> None:
    b = v.b

    def entry(i: Any) -> None:
        b.store(b.load(v.at(table, b.zext(b.load(v.at(x, i)), I64))), v.at(y, i))

    end = b.add(left, whole(b, b.sub(right, left), UNROLL))
    with loop(b, left, end, UNROLL) as i:
        for k in range(UNROLL):
            entry(b.add(i, I64(k)))
    with loop(b, end, right, 1) as i:
        entry(i)


def _vectors(v: Vector, look: Look, x: Any, y: Any, left: Any, right: Any) -> None:
    """Reads whole vectors, over the end."""

    def apply(w: Vector, i: Any, rest: Any = None) -> None:
        kind = ir.VectorType(I8, w.lanes)
        indices = w.b.load(w.b.bitcast(w.at(x, i), kind.as_pointer()), align=1)
        write(w, look(indices), w.at(y, i), rest)

    each_vector(Vector(v.b, v.tier, 4 * v.lanes), left, right, apply)


def _permuted(v: Vector, table: Any) -> Look:
    """Two permutations of 128 entries each; the index's high bit chooses."""
    b, kind = v.b, ir.VectorType(I8, 64)
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    parts = [b.load(b.bitcast(v.at(table, 64 * k), kind.as_pointer()), align=1) for k in range(4)]

    def look(x: Any) -> Any:
        permute = v.declare(name, kind, [kind] * 3)
        low, high = (b.call(permute, [parts[k], x, parts[k + 1]]) for k in (0, 2))
        return b.select(b.icmp_signed("<", x, ir.Constant(kind, [0] * 64)), high, low)

    return look


def _shuffled(v: Vector, table: Any) -> Look:
    """Sixteen shuffles within 16 bytes.

    A shuffle gives 0 for an index below 0, and looks at 4 bits of the others. With the difference (xor) of
    neighboring parts of the table in each shuffle, and 16 less in each next index, the sum is the right entry.
    """
    b, n = v.b, 4 * v.lanes
    kind, part = ir.VectorType(I8, n), ir.VectorType(I8, 16)
    name = "llvm.x86.avx512.pshuf.b.512" if n == 64 else "llvm.x86.avx2.pshuf.b"

    def constant(x: int) -> Any:
        return ir.Constant(kind, [x] * n)

    loaded = [b.load(b.bitcast(v.at(table, 16 * k), part.as_pointer()), align=1) for k in range(16)]
    # The two halves of the table begin anew, for indices without and with their high bit.
    steps = [x if k % 8 == 0 else b.xor(x, loaded[k - 1]) for k, x in enumerate(loaded)]
    parts = [shuffle(b, x, x, [i % 16 for i in range(n)]) for x in steps]

    def look(x: Any) -> Any:
        permute = v.declare(name, kind, [kind] * 2)
        subtract = v.declare(f"llvm.ssub.sat.v{n}i8", kind, [kind] * 2)
        found = constant(0)
        for half in (0, 8):
            index = b.xor(x, constant(0x80)) if half else x
            for k in range(8):
                found = b.xor(found, b.call(permute, [parts[half + k], index]))
                index = b.call(subtract, [index, constant(16)])
        return found

    return look

"""What cells make of the sums of their gates: for one row and one vector of hidden units, `cell(r, place)`.

r: the record. A cell has a plain form, and one in which everything is looked up that a layer may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..isa.functions import clip, gated_tanh, round_even
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .activation import activated, usual
from .rows import INFO, STATES, USUAL


class Form(NamedTuple):
    """How a cell computes: `act(place, x)` bounds what goes into a gate and activates it; the plain form has no
    `table` of activations."""

    v: Vector
    r: Any
    kind: str
    table: Any
    peepholes: Any

    def act(self, place: int, x: Any) -> Any:
        if self.table is None:
            return usual(self.v, USUAL[self.kind][place], x)
        return activated(self.v, self.table, place, self.bounded(x, "low", "high"))

    def bounded(self, x: Any, low: str, high: str) -> Any:
        return clip(self.v, x, self.number(low), self.number(high))

    def number(self, slot: str) -> Any:
        """The f32 of a slot in every lane."""
        return self.v.splat(self.v.b.bitcast(self.v.b.trunc(getattr(self.r, slot), I32), F32))

    def rounded(self, x: Any, what: str) -> Any:
        """x rounded to what can be stored, if the record says so."""
        b, v = self.v.b, self.v

        def stored() -> Any:
            scale = self.number(f"{what}_scale")
            steps = clip(
                v, round_even(v, b.fdiv(x, scale)), *(self.number(f"{what}_{end}") for end in ("least", "most"))
            )
            return b.fmul(steps, scale)

        return self.where(getattr(self.r, f"{what}_scale"), x, stored)

    def where(self, condition: Any, x: Any, other: Callable[[], Any]) -> Any:
        """x, or where a number isn't 0 what `other` gives then."""
        b = self.v.b
        before = b.block
        with b.if_then(b.icmp_signed("!=", condition, I64(0))):
            more, there = other(), b.block
        y = b.phi(self.v.type)
        y.add_incoming(x, before)
        y.add_incoming(more, there)
        return y

    def peeped(self, gate: int, x: Any, cell: Any) -> Any:
        """x and what the gate sees of the cell's state."""
        v = self.v
        at = v.at(v.pointer(self.peepholes), gate * v.lanes)
        return self.where(self.peepholes, x, lambda: v.fma(v.load(at), cell, x))

    def coupled(self, way: int, x: Any, other: Any) -> Any:
        """x, or 1 - other where the layer is coupled that way."""
        b = self.v.b
        return b.select(b.icmp_signed("==", self.r.coupled, I64(way)), b.fsub(self.v.const(1), other), x)


def _rnn(f: Form, sums: list[Any], before: Any, _: Any, __: Any) -> tuple[Any, Any]:
    return f.act(0, sums[0]), None


def _gru_after(f: Form, sums: list[Any], before: Any, _: Any, projected: Any) -> tuple[Any, Any]:
    """Gates update, reset, hidden; `projected`: the input of the last."""
    z, reset = f.act(0, sums[0]), f.act(0, sums[1])
    return _mixed(f.v, z, f.act(1, f.v.fma(reset, sums[2], projected)), before), None


def _gru(f: Form, sums: list[Any], before: Any, z: Any, _: Any) -> tuple[Any, Any]:
    return _mixed(f.v, z, f.act(1, sums[0]), before), None


def _mixed(v: Vector, z: Any, new: Any, before: Any) -> Any:
    return v.fma(z, before, v.b.fmul(v.b.fsub(v.const(1), z), new))


def _lstm(f: Form, sums: list[Any], _: Any, cell: Any, __: Any) -> tuple[Any, Any]:
    """Gates input, output, forget, cell; peepholes input, output, forget."""
    v, (i, o, forget, new) = f.v, sums
    if f.table is None:
        cell = f.rounded(v.fma(f.act(0, forget), cell, gated_tanh(v, new, i)), "cell")
        return f.rounded(gated_tanh(v, cell, o), "state"), cell
    i = f.act(0, f.peeped(0, i, cell))
    forget = f.coupled(1, f.act(0, f.peeped(2, forget, cell)), i)
    i = f.coupled(2, i, forget)
    cell = f.bounded(v.fma(forget, cell, v.b.fmul(i, f.act(1, new))), "cell_low", "cell_high")
    cell = f.rounded(cell, "cell")
    return f.rounded(v.b.fmul(f.act(0, f.peeped(1, o, cell)), activated(v, f.table, 2, cell)), "state"), cell


STEPS: dict[str, Callable[..., tuple[Any, Any]]] = {"rnn": _rnn, "gru": _gru, "gru_after": _gru_after, "lstm": _lstm,
                                                     "lstm_bytes": _lstm}  # fmt: skip


def make_cell(tier: Tier, kind: str, gates: int) -> Any:
    """cell(r, row, now, sums, unit, table, peepholes): the new state of a row and what it gives for this step.

    row: address of its states in scratch, of `hidden` f32 in whole vectors, then INFO. sums: address of its gates'
    vectors. unit: the first hidden unit. now: 1 where the state that a step reads is the second one in the row.
    """

    @emits
    def cell(b: Any, r: Any, row: Any, now: Any, sums: Any, unit: Any, table: Any, peepholes: Any) -> None:
        v = Vector(b, tier)
        at = _places(v, r, row, unit, now)
        found = [v.load(v.at(v.pointer(sums), g * tier.lanes)) for g in range(gates)]
        y = v.at(v.pointer(at.info("y")), unit)
        rest = b.sub(r.hidden, unit)
        whole = b.icmp_signed(">=", rest, I64(tier.lanes))
        mask = v.mask(rest)
        before = v.load(at.before)
        with b.if_else(b.icmp_signed("!=", at.info("alive"), I64(0)), likely=True) as (alive, ended):
            with alive:
                kept = v.load(at.kept) if kind in ("lstm", "lstm_bytes", "gru") else None
                more = None
                if kind == "gru_after":
                    gate = v.at(v.pointer(at.info("projected")), b.mul(unit, I64(gates)))
                    more = v.load(v.at(gate, 2 * tier.lanes))
                new, state = _either(v, r, kind, table, peepholes, (found, before, kept, more))
                # Behind the last unit the state stays 0: lines of weights there are zeros, and 0 * inf would be NaN.
                v.store(b.select(mask, new, v.const(0)), at.after)
                if state is not None:
                    v.store(state, at.kept)
                _store(v, new, y, whole, mask)
            with ended:
                v.store(before, at.after)
                _store(v, v.const(0), y, whole, mask)

    return cell


class _Places(NamedTuple):
    """Pointers to vectors of a row's states; info(name) loads what a step knows of the row."""

    before: Any
    after: Any
    kept: Any
    reset: Any
    info: Callable[[str], Any]


def _places(v: Vector, r: Any, row: Any, unit: Any, now: Any) -> _Places:
    b = v.b
    wide = b.lshr(b.sub(r.row_bytes, I64(8 * len(INFO))), I64(STATES.bit_length() - 1))
    base = b.add(row, b.shl(unit, I64(2)))
    turn = b.mul(wide, now)
    vectors = [base, b.add(base, wide), b.add(base, b.mul(wide, I64(2))), b.add(base, b.mul(wide, I64(3)))]
    words = v.pointer(b.add(row, b.mul(wide, I64(STATES))), I64)
    return _Places(
        v.pointer(b.add(base, turn)), v.pointer(b.sub(vectors[1], turn)), v.pointer(vectors[2]), v.pointer(vectors[3]),
        lambda name: b.load(v.at(words, INFO.at(name))),
    )  # fmt: skip


def _either(v: Vector, r: Any, kind: str, table: Any, peepholes: Any, operands: Any) -> tuple[Any, Any]:
    """The step of a plain layer, or of one that has everything."""
    b, results = v.b, []
    with b.if_else(b.icmp_signed("!=", r.plain, I64(0)), likely=True) as branches:
        for branch, form in zip(branches, ((None, None), (table, peepholes)), strict=True):
            with branch:
                results.append((STEPS[kind](Form(v, r, kind, *form), *operands), b.block))
    merged: list[Any] = []
    for values in zip(*(found for found, _ in results), strict=True):
        if values[0] is None:
            merged.append(None)
            continue
        phi = b.phi(v.type)
        for value, (_, block) in zip(values, results, strict=True):
            phi.add_incoming(value, block)
        merged.append(phi)
    return merged[0], merged[1]


def _store(v: Vector, x: Any, y: Any, whole: Any, mask: Any) -> None:
    with v.b.if_else(whole, likely=True) as (all_, some):
        with all_:
            v.store(x, y)
        with some:
            v.store(x, y, mask)


def make_gates(tier: Tier) -> Any:
    """gates(...), as `cell`, for the first product of a gru: keeps the update gate, and what is reset of the state."""

    @emits
    def gates(b: Any, r: Any, row: Any, now: Any, sums: Any, unit: Any, table: Any, peepholes: Any) -> None:
        v = Vector(b, tier)
        at = _places(v, r, row, unit, now)
        found = [v.load(v.at(v.pointer(sums), g * tier.lanes)) for g in range(2)]
        with b.if_else(b.icmp_signed("!=", r.plain, I64(0)), likely=True) as branches:
            for branch, form in zip(branches, ((None, None), (table, peepholes)), strict=True):
                with branch:
                    f = Form(v, r, "gru", *form)
                    v.store(f.act(0, found[0]), at.kept)
                    v.store(b.fmul(f.act(0, found[1]), v.load(at.before)), at.reset)

    return gates

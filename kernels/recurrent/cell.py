"""Recurrent cells: from the sums of the gates to the new state, for one row and one vector of hidden units.

A cell has two forms: the plain one, and one that looks up activations, peepholes, bounds and coupling in the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..isa.functions import clip, gated_tanh, round_even
from ..isa.tiers import Tier
from ..lang import F32, I32, I64, Value, choose, divide, either, fma, register, registers, tier, traced, when
from .activation import activated, usual
from .rows import INFO, STATES, USUAL

Pair = tuple[Any, Any]


class CellForm(NamedTuple):
    """How a cell of a kind computes, by its record `r`; table: address of its activations, None in the plain form."""

    r: Any
    kind: str
    table: Value | None
    peepholes: Any

    def act(self, place: int, x: Value) -> Value:
        """The activation number `place` of a gate's sum, bounded before."""
        if self.table is None:
            return usual(USUAL[self.kind][place], x)
        return activated(self.table, place, self.bounded(x, "low", "high"))

    def bounded(self, x: Value, low: str, high: str) -> Value:
        return clip(x, *(x.type(self.number(slot)) for slot in (low, high)))

    def number(self, slot: str) -> Value:
        """The f32 of a slot."""
        return getattr(self.r, slot).to(I32).bits(F32)

    def rounded(self, x: Value, what: str) -> Value:
        """x rounded to the stored numbers of a quantized state, where the record has a scale."""

        def stored() -> Value:
            scale, least, most = (x.type(self.number(f"{what}_{slot}")) for slot in ("scale", "least", "most"))
            return clip(round_even(x / scale), least, most) * scale

        return _where(getattr(self.r, f"{what}_scale") != 0, x, stored)

    def peeped(self, gate: int, x: Value, cell: Value) -> Value:
        """x plus the gate's peephole weight times the cell state."""
        at = F32.at(self.peepholes) + gate * x.type.lanes
        return _where(self.peepholes != 0, x, lambda: fma(x.type[at], cell, x))

    def coupled(self, way: int, x: Value, other: Value) -> Value:
        """x, or 1 - other where the record's `coupled` is `way`."""
        return choose(self.r.coupled == way, 1 - other, x)


def _where(condition: Value, x: Value, other: Callable[[], Value]) -> Value:
    """other() where the condition holds, else x."""
    y = register(x)
    with when(condition):
        y.value = other()
    return y.value


def _rnn(f: CellForm, sums: list[Value], before: Value, _: Any, __: Any) -> list[Value]:
    return [f.act(0, sums[0])]


def _gru_after(f: CellForm, sums: list[Value], before: Value, _: Any, projected: Value) -> list[Value]:
    """Gates update, reset, hidden; `projected`: the input of the last."""
    z, reset = f.act(0, sums[0]), f.act(0, sums[1])
    return [_mixed(z, f.act(1, fma(reset, sums[2], projected)), before)]


def _gru(f: CellForm, sums: list[Value], before: Value, z: Value, _: Any) -> list[Value]:
    return [_mixed(z, f.act(1, sums[0]), before)]


def _mixed(z: Value, new: Value, before: Value) -> Value:
    return fma(z, before, (1 - z) * new)


def _lstm(f: CellForm, sums: list[Value], _: Any, cell: Value, __: Any) -> list[Value]:
    """Gates input, output, forget, cell; peepholes input, output, forget."""
    i, o, forget, new = sums
    if f.table is None:
        cell = f.rounded(fma(f.act(0, forget), cell, gated_tanh(new, i)), "cell")
        return [f.rounded(gated_tanh(cell, o), "state"), cell]
    i = f.act(0, f.peeped(0, i, cell))
    forget = f.coupled(1, f.act(0, f.peeped(2, forget, cell)), i)
    i = f.coupled(2, i, forget)
    cell = f.bounded(fma(forget, cell, i * f.act(1, new)), "cell_low", "cell_high")
    cell = f.rounded(cell, "cell")
    return [f.rounded(f.act(0, f.peeped(1, o, cell)) * activated(f.table, 2, cell), "state"), cell]


_STEPS: Any = {"rnn": _rnn, "gru": _gru, "gru_after": _gru_after, "lstm": _lstm, "lstm_bytes": _lstm}
"""step(form, sums, state, kept, projected input): the new state, and the new `kept`: the cell state or update gate."""


def make_cell(tier: Tier, kind: str, gates: int) -> Any:
    """cell(r, state, sums, unit, form): the new state of a row and what it gives for this step.

    state: (address of the row's states in scratch, of `hidden` f32 in whole vectors, then INFO; 1 where the one that a
    step reads is the second of them). sums: address of its gates' vectors. unit: the first hidden unit. form:
    (addresses of activations, of peepholes).
    """
    f32, keeps = F32.vector(tier.lanes), 2 if kind.startswith("lstm") else 1

    @traced
    def cell(r: Any, state: Pair, sums: Value, unit: Value, form: Pair) -> None:
        at = _pointers(r, state, unit)
        found = [f32[F32.at(sums) + g * f32.lanes] for g in range(gates)]
        y = F32.at(at.info("y")) + unit
        rest = r.hidden - unit
        whole, mask = rest >= f32.lanes, f32.below(rest)
        before = f32[at.before]
        with either(at.info("alive") != 0, likely=True) as (alive, ended):
            with alive:
                kept = f32[at.kept] if kind in ("lstm", "lstm_bytes", "gru") else None
                more = None
                if kind == "gru_after":
                    more = f32[F32.at(at.info("projected")) + unit * gates + 2 * f32.lanes]
                results = registers([f32.undefined()] * keeps)

                def step(cell: CellForm) -> None:
                    for i, x in enumerate(_STEPS[kind](cell, found, before, kept, more)):
                        results[i] = x

                _in_either_form(r, kind, form, step)
                new, *cell_state = results.values()
                # Behind the last unit the state stays 0: lines of weights there are zeros, and 0 * inf would be NaN.
                f32[at.after] = choose(mask, new, 0)
                if cell_state:
                    f32[at.kept] = cell_state[0]
                _store(new, y, whole, mask)
            with ended:
                f32[at.after] = before
                _store(f32(0), y, whole, mask)

    return cell


class _Pointers(NamedTuple):
    """Pointers to a vector of each of a row's states; info(name) loads a slot of the row's INFO."""

    before: Value
    after: Value
    kept: Value
    reset: Value
    info: Callable[[str], Value]


def _pointers(r: Any, state: Pair, unit: Value) -> _Pointers:
    row, now = state
    wide = divide(r.row_bytes - 8 * len(INFO), STATES)
    base, swap = row + (unit << 2), wide * now
    words = I64.at(row + wide * STATES)
    before, after = F32.at(base + swap), F32.at(base + wide - swap)
    kept, reset = F32.at(base + wide * 2), F32.at(base + wide * 3)
    return _Pointers(before, after, kept, reset, info=lambda name: words[INFO.at(name)])


def _in_either_form(r: Any, kind: str, full: Pair, body: Callable[[CellForm], None]) -> None:
    """body(form) for a plain layer, and for one that has everything."""
    with either(r.plain != 0, likely=True) as branches:
        for branch, form in zip(branches, ((None, None), full), strict=True):
            with branch:
                body(CellForm(r, kind, *form))


def _store(x: Value, y: Value, whole: Value, mask: Value) -> None:
    with either(whole, likely=True) as (all_, some):
        with all_:
            x.type[y] = x
        with some:
            x.type[y, mask] = x


@traced
def reset_gates(r: Any, state: Pair, sums: Value, unit: Any, form: Pair) -> None:
    """As `cell`, for the first product of a gru: keeps the update gate, and what is reset of the state, which stays 0
    behind the last unit, too.
    """
    f32 = F32.vector(tier().lanes)
    at = _pointers(r, state, unit)
    update, reset = (f32[F32.at(sums) + g * f32.lanes] for g in range(2))

    def body(cell: CellForm) -> None:
        f32[at.kept] = cell.act(0, update)
        f32[at.reset] = choose(f32.below(r.hidden - unit), cell.act(0, reset) * f32[at.before], 0)

    _in_either_form(r, "gru", form, body)

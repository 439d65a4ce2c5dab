"""As sums.py, where weights are s8 and states are rounded to u8."""

from __future__ import annotations

from typing import Any

from ..gemm.int8 import add_products
from ..gemm.pack_int8 import HEAD_LINES, vectors_per_word
from ..gemm.requantize import scaled
from ..isa.functions import maximum
from ..isa.integer import round_to_int
from ..isa.loops import each, repeat, total
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits, vector
from .rows import INFO, UNROLL
from .sums import chains, heights, start


def make_byte_sums(tier: Tier, gates: int) -> Any:
    """sums(height, states, row_bytes, info, column, panel, words, to), as `make_sums` says, of words of four u8."""
    line = 4 * tier.lanes
    per_word = vectors_per_word(tier, gates, False)

    @emits
    def sums(
        b: Any, height: Any, states: Any, row_bytes: Any, info: Any, column: Any, panel: Any, words: Any, to: Any
    ) -> None:
        v = Vector(b, tier)
        done = b.append_basic_block("done")
        jump = b.switch(height, done)
        for rows in heights(tier, gates):
            body = b.append_basic_block(f"rows{rows}")
            jump.add_case(I64(rows), body)
            b.position_at_end(body)
            found = _product(v, rows, states, row_bytes, panel, words)
            for r in range(rows):
                own = b.add(info, b.mul(row_bytes, I64(r)))
                step = v.splat(b.bitcast(b.trunc(b.load(v.at(v.pointer(own, I64), INFO.at("scale"))), I32), F32))
                for g, more in enumerate(start(v, own, column, panel, gates, gates)):
                    real = scaled(v, found[r * gates + g], v.at(v.pointer(panel, I8), (gates + g) * line))
                    v.store(v.fma(real, step, more), v.at(v.pointer(to), (r * gates + g) * tier.lanes))
            b.branch(done)
        b.position_at_end(done)

    def ints(v: Vector, at: Any, count: int) -> list[Any]:
        places = (v.b.add(at, I64(i * line)) for i in range(count))
        return [v.b.load(v.pointer(place, v.itype), align=4) for place in places]

    def _product(v: Vector, rows: int, states: Any, row_bytes: Any, panel: Any, words: Any) -> list[Any]:
        b, count = v.b, rows * gates
        apart = chains(tier, count)
        begin = ints(v, panel, gates) * rows + [v.iconst(0)] * (count * (apart - 1))

        def some(_: Any, state: list[Any]) -> list[Any]:
            at, weights, *sums = state
            for k in range(UNROLL):
                own = k % apart * count
                w = ints(v, b.add(weights, I64(k * per_word * line)), per_word)
                for r in range(rows):
                    place = b.add(b.add(at, b.mul(row_bytes, I64(r))), I64(4 * k))
                    part = slice(own + r * gates, own + (r + 1) * gates)
                    word = v.splat(b.load(v.pointer(place, I32), align=1))
                    sums[part] = add_products(v, word, w, sums[part])
            return [b.add(at, I64(4 * UNROLL)), b.add(weights, I64(UNROLL * per_word * line)), *sums]

        first = b.add(panel, I64(HEAD_LINES[False] * gates * line))
        _, _, *sums = repeat(b, b.lshr(words, I64(UNROLL.bit_length() - 1)), [states, first, *begin], some)
        while len(sums) > count:
            half = len(sums) // 2
            sums = [b.add(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
        return sums

    return sums


def make_rounding(tier: Tier) -> Any:
    """round_state(state, to, scale, hidden): f32 as u8, 128 for 0.0, in steps of a 127th of the greatest; the step's
    bits at `scale`.
    """

    @emits
    def round_state(b: Any, state: Any, to: Any, scale: Any, hidden: Any) -> None:
        v = Vector(b, tier)
        x = v.pointer(state)
        most = total(v, hidden, 0, maximum, lambda w, i, mask: w.call("fabs", w.load(w.at(x, i), mask)))
        step = b.fdiv(most, F32(127.0))
        b.store(b.zext(b.bitcast(step, I32), I64), v.pointer(scale, I64))

        def body(w: Vector, i: Any, mask: Any) -> None:
            steps = round_to_int(w, b.fdiv(w.load(w.at(x, i), mask), w.splat(step)))
            stored = b.trunc(b.add(steps, w.iconst(128)), vector(I8, w.lanes))
            b.store(stored, b.bitcast(w.at(v.pointer(to, I8), i), stored.type.as_pointer()), align=1)

        each(v, I64(0), hidden, body, unroll=1)

    return round_state

"""As sums.py, for weights of s8 and states that are rounded to u8."""

from __future__ import annotations

from typing import Any

from ..gemm.by_height import by_height
from ..gemm.int8_arithmetic import add_products
from ..gemm.pack_int8 import HEAD_LINES
from ..gemm.requantize import scaled
from ..isa.functions import maximum
from ..isa.integer import round_to_int, split_weights
from ..isa.tiers import Tier
from ..lang import F32, I8, I32, I64, Value, along, fma, tier, total, traced
from .rows import INFO
from .sums import StateRows, chained, chains, heights, start


def make_byte_sums(tier: Tier, gates: int) -> Any:
    """sums(height, (states, info, row_bytes), column, panel, words, to), as of `make_sums`, of words of four u8."""
    f32, i32, line = F32.vector(tier.lanes), I32.vector(tier.lanes), gates * 4 * tier.lanes

    def ints(at: Value, count: int) -> list[Value]:
        return [i32[at + i * i32.size] for i in range(count)]

    @traced
    def sums(height: Value, first: StateRows, column: Value, panel: Value, words: Value, to: Value) -> None:
        states, info, row_bytes = first

        def body(rows: int) -> None:
            count = rows * gates
            partial = chains(tier, count)
            begin = ints(panel, gates) * rows + [i32(0)] * (count * (partial - 1))

            def add(at: Value, weights: Value, k: int, sums: list[Value], first: int) -> None:
                row_words = [i32(I32[at + row_bytes * r + 4 * k]) for r in range(rows)]
                for g, bytewise in enumerate(ints(weights + k * line, gates)):
                    w = split_weights(bytewise)
                    for r, word in enumerate(row_words):
                        i = first + r * gates + g
                        (sums[i],) = add_products(word, w, [sums[i]])

            found = chained(words, (states, panel + HEAD_LINES[False] * line), line, begin, partial, add)
            for r in range(rows):
                row = info + row_bytes * r
                step = f32(I64.at(row)[INFO.at("scale")].to(I32).bits(F32))
                for g, more in enumerate(start(f32, row, column, panel, gates, gates)):
                    real = scaled(found[r * gates + g], I8.at(panel) + (gates + g) * i32.size)
                    f32[F32.at(to) + (r * gates + g) * f32.lanes] = fma(real, step, more)

        by_height(height, heights(tier, gates), body)

    return sums


@traced
def round_to_bytes(state: Value, to: Value, scale: Value, hidden: Value) -> None:
    """f32 as u8, 128 for 0.0, in steps of a 127th of the greatest; the step's bits at `scale`."""
    f32 = F32.vector(tier().lanes)
    x = F32.at(state)
    step = total(f32, hidden, 0, maximum, lambda f32, i, mask: abs(f32[x + i, mask])) / 127
    I64[scale] = step.bits(I32).unsigned.to(I64)
    for some, i, mask in along(f32, 0, hidden, 1):
        stored = (round_to_int(some[x + i, mask] / step) + 128).to(I8)
        stored.type[I8.at(to) + i] = stored

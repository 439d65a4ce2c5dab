"""norm: rows scaled to a mean square of 1, or to a mean of 0 and a variance of 1; times a scale, plus a bias.

y may be x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.loops import each, thread_range, total, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .rows import NORM


def make(tier: Tier) -> Callable[..., None]:
    """The kernel."""
    fields, row = reader(NORM), _row(tier)

    def norm(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end = thread_range(r.rows, thread, threads)
        for i in range(first, end):
            row(r, r.y + i * r.y_row, r.x + i * r.x_row)

    return norm


def _row(tier: Tier) -> Any:
    """row(record, y, x): one of them."""

    @emits
    def row(b: Any, r: Any, y: Any, x: Any) -> None:
        v, one = Vector(b, tier), Vector(b, tier, 1)
        y, x, scale, bias = (v.pointer(address) for address in (y, x, r.scale, r.bias))
        inverse, epsilon = (b.bitcast(b.trunc(bits, I32), F32) for bits in (r.inverse, r.epsilon))

        def sum_of(body: Callable[[Vector, Any], Any]) -> Any:
            found = total(v, r.n, 0, lambda w, p, q: b.fadd(p, q), lambda w, i, m: body(w, w.load(w.at(x, i), m)))
            return b.fmul(found, inverse)

        mean = variable(b, F32(0))
        with b.if_then(b.icmp_signed("!=", r.centered, I64(0))):
            b.store(sum_of(lambda w, value: value), mean)
        mean = b.load(mean)

        def square(w: Vector, value: Any) -> Any:
            far = b.fsub(value, w.splat(mean))
            return b.fmul(far, far)

        root = one.call("sqrt", one.splat(b.fadd(sum_of(square), epsilon)))
        factor = b.extract_element(b.fdiv(one.const(1), root), I32(0))

        def finish(w: Vector, i: Any, m: Any, biased: bool) -> None:
            unit = b.fmul(b.fsub(w.load(w.at(x, i), m), w.splat(mean)), w.splat(factor))
            value = b.fmul(unit, w.load(w.at(scale, i), m))
            w.store(b.fadd(value, w.load(w.at(bias, i), m)) if biased else value, w.at(y, i), m)

        with b.if_else(b.icmp_signed("!=", r.bias, I64(0))) as (biased, bare):
            with biased:
                each(v, I64(0), r.n, lambda w, i, m: finish(w, i, m, True))
            with bare:
                each(v, I64(0), r.n, lambda w, i, m: finish(w, i, m, False))

    return row

"""norm: rows scaled to a mean square of 1, or shifted and scaled to a mean of 0 and a variance of 1; times a scale,
plus a bias. y may be x."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.elements import ELEMENTS
from ..isa.tiers import Tier
from ..lang import F32, I32, Type, Value, along, either, intrinsic, register, share, total, traced, when
from .rows import NORM


def make(tier: Tier, out: str) -> Callable[..., None]:
    """The kernel; out: the elements of y, f32 or bf16."""
    f32, made = F32.vector(tier.lanes), ELEMENTS[out]

    @traced
    def row(r: Any, y: Value, x: Value) -> None:
        xs, scale, bias = (F32.at(address) for address in (x, r.scale, r.bias))
        ys = made.at(y)
        inverse, epsilon = (bits.to(I32).bits(F32) for bits in (r.inverse, r.epsilon))

        def mean_of(term: Callable[[Value], Value]) -> Value:
            return total(f32, r.n, 0, operator.add, lambda v, i, mask: term(v[xs + i, mask])) * inverse

        centre = register(F32(0))
        with when(r.centered != 0):
            centre.value = mean_of(lambda value: value)
        mean = centre.value

        def square(value: Value) -> Value:
            far = value - mean
            return far * far

        one = F32.vector(1)
        factor = (1.0 / intrinsic("sqrt", one(mean_of(square) + epsilon)))[0]

        def unit(v: Type, i: Value, mask: Any) -> Value:
            return (v[xs + i, mask] - mean) * factor * v[scale + i, mask]

        with either(r.bias != 0) as (biased, bare):
            with biased:
                for v, i, mask in along(f32, 0, r.n):
                    made.like(v)[ys + i, mask] = (unit(v, i, mask) + v[bias + i, mask]).to(made)
            with bare:
                for v, i, mask in along(f32, 0, r.n):
                    made.like(v)[ys + i, mask] = unit(v, i, mask).to(made)

    def norm(args, thread, threads):
        r = fields(args, NORM)
        first, end = share(r.rows, thread, threads)
        for i in range(first, end):
            row(r, r.y + i * r.y_row, r.x + i * r.x_row)

    return norm

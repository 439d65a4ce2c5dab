"""The steps that walked chains are made of, each of them a kernel `vector_op`. Imports nothing that compiles."""

from __future__ import annotations

from typing import NamedTuple

from ..isa.math import OPS
from .chain import Chain

NUMBER = "number"
"""The element type of an operand that is one f32 for all elements."""
ROUNDED = ("u8", "s8", "i16")
"""Types that results are rounded to, by steps whose last operands are the numbers zero, low and high."""
NUMBERS = {"swish": 1, "clip": 2, "leaky_relu": 1, "elu": 1, "celu": 1, "hard_sigmoid": 2}
"""How many operands of an operation, the last ones, are numbers in every chain."""
OTHERS = frozenset(
    "selu square rsqrt ceil softsign thresholded_relu is_nan is_inf not not_equal neg less less_or_equal".split()
)
"""Operations that have no step, as other steps compute the same: see `plan.lower.steps`."""


class Step(NamedTuple):
    """y = chain(operands) on f32. elements: the element type of each operand; out: that of y. Types other than f32 and
    NUMBER are converted as they are loaded, and stored as `isa.elements.Rounding` says; bool: whether the result is not
    0; bf16: the nearest. bounded: no result is 2**31 or more, nor NaN."""

    chain: Chain
    elements: tuple[str, ...]
    out: str = "f32"
    bounded: bool = False

    @property
    def arity(self) -> int:
        """How many operands it takes, numbers among them."""
        return len(self.elements) + 3 * (self.out in ROUNDED)


def _f32(count: int) -> tuple[str, ...]:
    return ("f32",) * count


def _operands(op: str) -> tuple[str, ...]:
    numbers = NUMBERS.get(op, 0)
    return (*_f32(OPS[op].arity - numbers), *[NUMBER] * numbers)


_ADDED: Chain = (("fma", 0, 2, 4), ("fma", 1, 3, 5))
_PRODUCT: Chain = (("add", 0, 2), ("add", 1, 3), ("mul", 5, 6), ("mul", 7, 4))
_SCALED: Chain = (("add", 0, 1), ("mul", 3, 2))
_GRID: Chain = (("round", 0), ("clip", 4, 1, 2), ("mul", 5, 3))
_LIMITS = (NUMBER,) * 3
_PAIRS = ("mul", "add"), ("mul", "mul"), ("add", "add"), ("add", "mul"), ("sub", "mul")

COMPOSED: dict[str, Step] = {
    **{f"{one}_{two}": Step(((one, 0, 1), (two, 3, 2)), _f32(3)) for one, two in _PAIRS},
    **{f"{name}_number": Step(((name, 0, 1),), ("f32", NUMBER)) for name in ("add", "mul")},
    "mul_add_numbers": Step((("mul", 0, 1), ("add", 3, 2)), ("f32", NUMBER, NUMBER)),
    "grid": Step(_GRID, ("f32", *_LIMITS)),
    "mul_grid": Step((("mul", 0, 1), ("round", 5), ("clip", 6, 2, 3), ("mul", 7, 4)), ("f32", NUMBER, *_LIMITS)),
    "add_relu": Step((("add", 0, 1), ("relu", 2)), _f32(2)),
    "mul_add_relu": Step((("mul", 0, 1), ("add", 3, 2), ("relu", 4)), _f32(3)),
    "div_mul_add": Step((("div", 0, 1), ("mul", 4, 2), ("add", 5, 3)), _f32(4)),
    "sub_square": Step((("sub", 0, 1), ("mul", 2, 2)), _f32(2)),
    "sigmoid_mul": Step((("sigmoid", 0), ("mul", 0, 1)), _f32(1)),
    **{f"dequantize_{t}": Step(_SCALED, (t, NUMBER, NUMBER)) for t in ("u8", "s8")},
    **{f"quantize_{t}": Step((("div", 0, 1),), ("f32", NUMBER), t) for t in ("u8", "s8")},
    **{f"requantize_{t}": Step(_SCALED, (t, NUMBER, NUMBER), t, True) for t in ("u8", "s8")},
    **{f"add_{t}": Step(_ADDED, (t, t, NUMBER, NUMBER, NUMBER), t, True) for t in ("u8", "s8")},
    **{f"mul_{t}": Step(_PRODUCT, (t, t, NUMBER, NUMBER, NUMBER), t, True) for t in ("u8", "s8")},
    **{f"scale_{t}": Step((("add", 0, 2), ("mul", 3, 1)), (t, "f32", NUMBER), t, True) for t in ("u8", "s8")},
    "add_bf16": Step((("add", 0, 1),), ("bf16", "bf16"), "bf16"),
    "mul_bf16": Step((("mul", 0, 1),), ("bf16", "f32"), "bf16"),
    "greater_bool": Step((("greater", 0, 1),), _f32(2), "bool"),
    "not_bools": Step((("equal", 0, 0.0),), ("u8",), "bool"),
    "where_bool": Step((("where", 0, 1, 2),), ("u8", "f32", "f32")),
}
"""Sequences of steps that are common, as one step."""

STEPS: dict[str, Step] = {
    **{name: Step(((name, *range(op.arity)),), _operands(name)) for name, op in OPS.items() if name not in OTHERS},
    **{f"load_{t}": Step((), (t,)) for t in ("u8", "s8", "i16", "u16", "i32", "bf16")},
    **{f"store_{t}": Step((), ("f32",), t) for t in (*ROUNDED, "bool", "bf16")},
    **COMPOSED,
}
"""Every step by its name."""


def pattern(step: Step) -> Chain:
    """A step as a chain of single operations, with its loads and stores."""
    count = step.arity
    loads = [(f"load_{t}", i) for i, t in enumerate(step.elements) if t not in ("f32", NUMBER)]
    places = {i: count + n for n, (_, i) in enumerate(loads)}
    inner = len(step.elements)

    def moved(o: int | float | str) -> int | float | str:
        if not isinstance(o, int):
            return o
        return places.get(o, o) if o < inner else o - inner + count + len(loads)

    steps = [*loads, *((name, *map(moved, operands)) for name, *operands in step.chain)]
    if step.out != "f32":
        result = count + len(steps) - 1 if steps else 0
        steps.append((f"{'round' if step.bounded else 'store'}_{step.out}", result, *range(inner, count)))
    return tuple(steps)

"""What the kernel `exact` computes: operations by their numbers. Imports nothing that compiles."""

from __future__ import annotations

from .formats import FLOATS

COMPARISONS = ("equal", "less", "less_or_equal")
_SIGNED = ("div", "floor_div", "mod", "fmod", "min", "max", "less", "less_or_equal", "shift_right", "sign", "prelu")
WHOLE = (
    "add", "sub", "mul", "neg", "abs", "and", "or", "xor", "not", "shift_left", "equal", "where", "pow", "pow_u",
    *_SIGNED, *(f"{name}_u" for name in _SIGNED),
)  # fmt: skip
"""Of whole numbers of one width, which wrap around. `..._u`: of those without a sign, where that matters."""
REAL = (
    "add", "sub", "mul", "div", "neg", "abs", "sign", "min", "max", "equal", "less", "less_or_equal", "where", "prelu",
    "floor", "ceil", "round", "sqrt", "reciprocal", "mod", "fmod", "floor_div", "copysign", "is_nan", "is_inf",
    "is_positive_inf", "is_negative_inf",
)  # fmt: skip
"""Of floats, rounded once each."""
WIDE = ("exp", "expm1", "log", "log1p", "atan", "sin", "cos", "erf", "pow")
"""Of f64: to 2**-50."""
ROUNDED = (*FLOATS, *(f"{kind}_open" for kind, (*_, beyond) in FLOATS.items() if beyond in ("nan", "inf")))
"""Of f32: rounded to floats of fewer bits; what is too large becomes the largest, or where `_open` no number."""
ELEMENTS = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8}
"""Bytes of what it computes with. f16 is computed in f32."""
_UNARY = frozenset({"neg", "abs", "not", "sign", "sign_u", "floor", "ceil", "round", "sqrt", "reciprocal", "is_nan",
                    "is_inf", "is_positive_inf", "is_negative_inf", *WIDE, *ROUNDED}) - {"pow"}  # fmt: skip


def operations(element: str) -> tuple[str, ...]:
    """Those of an element type; the place of one is its number."""
    return WHOLE if element[0] == "i" else (*REAL, *{"f64": WIDE, "f32": ROUNDED}.get(element, ()))


def arity(operation: str) -> int:
    """How many operands of the element type it has; `where` has a condition beside two."""
    return 1 if operation in _UNARY else 2


def is_truth(operation: str) -> bool:
    """Whether it gives bools."""
    return operation.removesuffix("_u") in COMPARISONS or operation.startswith("is_")

"""Names and numbers of the operations of the kernel `exact`. Imports nothing that compiles."""

from __future__ import annotations

FLOATS: dict[str, tuple[int, int, float, str]] = {
    "bfloat16": (-126, 7, float.fromhex("0x1.fep127"), "overflow"),
    "float8e4m3fn": (-6, 3, 448.0, "nan"),
    "float8e4m3fnuz": (-7, 3, 240.0, "nan"),
    "float8e5m2": (-14, 2, 57344.0, "inf"),
    "float8e5m2fnuz": (-15, 2, 57344.0, "nan"),
    "float6e2m3": (0, 3, 7.5, "none"),
    "float6e3m2": (-2, 2, 28.0, "none"),
    "float4e2m1": (0, 1, 6.0, "none"),
}
"""Least normal exponent, mantissa bits, greatest number, and what lies beyond it when not saturating.

"overflow" never saturates and gives an infinity, "none" always saturates and has no NaN either: -0 stands in.
"""


COMPARISONS = ("equal", "less", "less_or_equal")
_SIGNED = ("div", "floor_div", "mod", "fmod", "min", "max", "less", "less_or_equal", "shift_right", "sign", "prelu")
WHOLE = (
    "add", "sub", "mul", "neg", "abs", "and", "or", "xor", "not", "shift_left", "equal", "where", "pow", "pow_u",
    *_SIGNED, *(f"{name}_u" for name in _SIGNED),
)  # fmt: skip
"""Operations on whole numbers of one width, which wrap around. `..._u`: unsigned, where the sign matters."""
REAL = (
    "add", "sub", "mul", "div", "neg", "abs", "sign", "min", "max", "equal", "less", "less_or_equal", "where", "prelu",
    "floor", "ceil", "round", "sqrt", "reciprocal", "mod", "fmod", "floor_div", "copysign", "is_nan", "is_inf",
    "is_positive_inf", "is_negative_inf",
)  # fmt: skip
"""Operations on floats, each rounded once."""
WIDE = ("exp", "expm1", "log", "log1p", "atan", "sin", "cos", "erf", "pow")
"""Operations on f64, accurate to 2**-50."""
ROUNDED = (*FLOATS, *(f"{kind}_open" for kind, (*_, beyond) in FLOATS.items() if beyond in ("nan", "inf")))
"""Rounding of f32 to formats of fewer bits; overflow gives the greatest number, with `_open` infinity or NaN."""
ELEMENTS = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8}
"""Bytes of the element types. f16 is computed in f32."""
_UNARY = {"neg", "abs", "not", "sign", "sign_u", "floor", "ceil", "round", "sqrt", "reciprocal"}
_UNARY |= {"is_nan", "is_inf", "is_positive_inf", "is_negative_inf", *WIDE, *ROUNDED} - {"pow"}


def operations(element: str) -> tuple[str, ...]:
    """The operations of an element type; the index of one is its number."""
    return WHOLE if element[0] == "i" else (*REAL, *{"f64": WIDE, "f32": ROUNDED}.get(element, ()))


def arity(operation: str) -> int:
    """The number of operands of the element type; `where` has a condition beside two."""
    return 1 if operation in _UNARY else 2


def is_truth(operation: str) -> bool:
    """Whether the result is bool."""
    return operation.removesuffix("_u") in COMPARISONS or operation.startswith("is_")

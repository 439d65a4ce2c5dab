"""Floats of few bits, which are held in f32: their numbers. Rules: ONNX Cast, the OCP formats."""

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

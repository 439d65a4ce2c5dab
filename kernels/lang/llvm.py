"""llvmlite's IR, imported once a kernel is written: a process that finds its kernels compiled does without it."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from llvmlite import ir

    globals()[name] = found = _bfloat(ir) if name == "BFloatType" else getattr(ir, name)
    return found


def _bfloat(ir: Any) -> Any:
    """LLVM's bfloat, which llvmlite lacks. It has no constants."""

    class BFloatType(ir.types._BaseFloatType):  # type: ignore[misc, name-defined]
        null = "0.0"

        def __str__(self) -> str:
            return "bfloat"

    BFloatType._create_instance()
    return BFloatType

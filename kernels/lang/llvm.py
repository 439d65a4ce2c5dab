"""llvmlite's IR, imported once a kernel is written: a process that finds its kernels compiled does without it."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from llvmlite import ir

    globals()[name] = found = getattr(ir, name)
    return found

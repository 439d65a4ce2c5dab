"""Operators to kernel calls, one file per family."""

from . import (  # noqa: F401
    dynamic,
    move,
    pointwise,
    product,
    quantized_matmul,
    quantized_product,
    quantized_transposed,
    quantized_window,
    transposed,
    window,
)
from .bands import blocks, emit_block
from .registry import LOWERINGS, Emit, Lowering, Matches, matched

__all__ = ["LOWERINGS", "Emit", "Lowering", "Matches", "blocks", "emit_block", "matched"]

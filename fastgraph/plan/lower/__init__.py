"""Operators to kernel calls, one file per family."""

from . import (  # noqa: F401
    dynamic,
    elementwise,
    move,
    product,
    quantized_elementwise,
    quantized_matmul,
    quantized_product,
    quantized_transposed,
    quantized_window,
    selection,
    transposed,
    window,
)
from .bands import blocks, emit_block
from .registry import LOWERINGS, Emit, Lowering, Matches, matched

__all__ = ["LOWERINGS", "Emit", "Lowering", "Matches", "blocks", "emit_block", "matched"]

"""Operators to kernel calls, one file per family."""

from .registry import LOWERINGS, Emit, Lowering, Matches, matched
from .window.depth_first import blocks, emit_block

__all__ = ["LOWERINGS", "Emit", "Lowering", "Matches", "blocks", "emit_block", "matched"]

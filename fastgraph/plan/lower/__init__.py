"""Operators to kernel calls, one file per family."""

from .graph import emit_copies, emit_graph
from .registry import LOWERINGS, Emit, Lowering, Matches, matched

__all__ = ["LOWERINGS", "Emit", "Lowering", "Matches", "emit_copies", "emit_graph", "matched"]

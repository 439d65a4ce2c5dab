"""Operators to kernel calls, one file per family."""

from . import elementwise, move, product, resize, transposed, window  # noqa: F401
from .registry import LOWERINGS, Emit, Lowering, abilities_of, lowering_of

__all__ = ["LOWERINGS", "Emit", "Lowering", "abilities_of", "lowering_of"]

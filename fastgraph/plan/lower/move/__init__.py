"""Data movement: copies that views leave to do, gathers, pads, resizes."""

from . import copy, gather, resize  # noqa: F401
from .emit import emit_copy, emit_move

__all__ = ["emit_copy", "emit_move"]

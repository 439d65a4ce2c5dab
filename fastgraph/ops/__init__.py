"""Every operator of the graph: `OPS[name]` has its type inference and its NumPy reference."""

from .registry import OPS, Op

__all__ = ["OPS", "Op"]

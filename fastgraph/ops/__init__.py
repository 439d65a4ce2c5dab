"""Every operator of the graph: `OPS[name]` has its type inference and its NumPy reference."""

from . import activation, cast, conv, elementwise, index, matmul, normalization, pool, reduce, resize, shape  # noqa: F401
from .registry import OPS, Op

__all__ = ["OPS", "Op"]

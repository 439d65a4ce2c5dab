"""Every operator of the graph: `OPS[name]` has its type inference and its NumPy reference."""

# ruff: noqa: F401
from . import (
    activation,
    cast,
    control,
    conv,
    elementwise,
    fused,
    gather,
    index,
    matmul,
    normalization,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    sequence,
    shape,
)
from .registry import OPS, Op

__all__ = ["OPS", "Op"]

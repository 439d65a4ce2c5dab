"""The language of kernels: typed values with Python's operators, from which LLVM's IR is written.

A kernel is a Python function that numba reads (core.front): it has the loops and branches that run over int64s. What it
calls is `traced`: a function that Python runs once, while the kernel is written, whose values (values.py) write an
instruction for each operator. So `n = (x * (1 / math.log(2)) + shift) - shift` is three vector instructions,
`f32[x + 4 * i, mask]` a load under a mask, `for i in over(n)` a loop of the kernel, and `for i in range(4)` its body
four times.

Kernels import its words from here, or, where they are more than a line holds, from the modules that define them.
"""

from . import llvm
from .control import cases, during, either, outlined, over, repeat, when
from .hints import constant_memory, opaque, prefetch, settle
from .instructions import below, choose, div_rem, divide, fma, is_nan, larger, quotient, remainder, smaller
from .lanes import any_lane, halves, joined, shuffle
from .lines import (
    along,
    clear,
    cover,
    each_vector,
    fold,
    folds,
    masked,
    of_chains,
    pieces,
    share,
    slices,
    thread_block,
    total,
    whole,
)
from .memory import Register, Registers, copy_bytes, register, registers, room, table
from .traced import every_tier, traced
from .types import BF16, BIT, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Mistake, Type, integer, named, word
from .values import Value, builder, called, constant, intrinsic, number, splat, tier

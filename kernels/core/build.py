"""Compile one kernel with numba into an object file for one ISA tier.

The object's only export is `void symbol(int64 args, int64 thread, int64 threads)`. It needs no Python, no numba
runtime and no symbol beyond libm and mem* (a test holds it to that), so that llvmlite.binding alone can link it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import compiler, cpu, typing
from numba.core.codegen import AOTCPUCodegen
from numba.core.compiler_lock import global_compiler_lock

from ..isa.tiers import Tier


class _TierCodegen(AOTCPUCodegen):
    """numba's object-file code generator, held to a tier's instructions instead of the host's."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        super().__init__(f"fastgraph.{tier.name}", cpu_name=tier.cpu)

    def _customize_tm_features(self) -> str:
        return self._tier.features


@cache
def _contexts(tier: Tier) -> tuple[Any, Any]:
    typing_context = typing.Context()
    context = cpu.CPUContext(typing_context)
    context.refresh()
    context = context.subtarget(_internal_codegen=_TierCodegen(tier), aot_mode=True)
    typing_context.refresh()
    return typing_context, context


def _flags() -> compiler.Flags:
    flags = compiler.Flags()
    flags.no_compile = True
    flags.nrt = False
    flags.error_model = "numpy"
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    return flags


def build(function: Callable[..., Any], symbol: str, tier: Tier) -> bytes:
    """The object file of `function(args, thread, threads)`, exported as `symbol`.

    Attributes it may have: `needs` names CPU flags that it uses beyond those of the tier; with `returns` it returns an
    int64, and so does the symbol.
    """
    obj: bytes = _library(function, symbol, tier).emit_native_object()
    return obj


def assembly(function: Callable[..., Any], tier: Tier) -> str:
    """The machine code of a kernel as the assembler's text, to look at."""
    text: str = _library(function, "kernel", tier).get_asm_str()
    return text


@global_compiler_lock
def _library(function: Callable[..., Any], symbol: str, tier: Tier) -> Any:
    tier = replace(tier, needs=(*tier.needs, *getattr(function, "needs", ())))
    typing_context, context = _contexts(tier)
    args = (types.int64,) * 3
    returns = types.int64 if hasattr(function, "returns") else types.void
    result = compiler.compile_extra(typing_context, context, function, args, returns, _flags(), locals={})
    library = context.codegen().create_library(symbol)
    library.add_linking_library(result.library)
    library.add_ir_module(_export(result.fndesc, context, symbol))
    library.finalize()
    for defined in library.get_defined_functions():
        if defined.name != symbol:
            defined.linkage = "internal"
    return library


def _export(fndesc: Any, context: Any, symbol: str) -> ir.Module:
    """A module whose `symbol` has our C signature and calls numba's function."""
    module = context.create_module(symbol)
    int64 = ir.IntType(64)
    returns = fndesc.restype == types.int64
    outer = ir.Function(module, ir.FunctionType(int64 if returns else ir.VoidType(), [int64] * 3), symbol)
    builder = ir.IRBuilder(outer.append_basic_block())
    inner = context.call_conv.get_function_type(fndesc.restype, (types.int64,) * 3)
    callee = ir.Function(module, inner, fndesc.llvm_func_name)
    result = builder.alloca(inner.args[0].pointee)
    error = builder.alloca(inner.args[1].pointee)
    builder.call(callee, [result, error, *outer.args])
    if returns:
        builder.ret(builder.load(result))
    else:
        builder.ret_void()
    return module

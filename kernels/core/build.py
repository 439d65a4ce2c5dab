"""Compile one kernel into an object file for one ISA tier.

The object's only export is `void symbol(int64 args, int64 thread, int64 threads)`. It needs no Python and no symbol
beyond libm and mem* (a test holds it to that), so that llvmlite.binding alone can link it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ..isa.tiers import Tier
from .front import write

I64 = ir.IntType(64)


def build(function: Callable[..., Any], symbol: str, tier: Tier) -> bytes:
    """The object file of `function(args, thread, threads)`, exported as `symbol`.

    Attributes it may have: `needs`, names of CPU flags that it uses beyond the tier's; `returns`, if it returns an
    int64.
    """
    machine, module = _compiled(function, symbol, tier)
    obj: bytes = machine.emit_object(module)
    return obj


def assembly(function: Callable[..., Any], tier: Tier) -> str:
    """The machine code of a kernel as assembly text."""
    machine, module = _compiled(function, "kernel", tier)
    text: str = machine.emit_assembly(module)
    return text


def _compiled(function: Callable[..., Any], symbol: str, tier: Tier) -> tuple[Any, Any]:
    """LLVM's target machine, and the optimised module of a kernel."""
    machine = _machine(tier._replace(needs=(*tier.needs, *getattr(function, "needs", ()))))
    with _uncollected():
        text = _text(function, symbol, machine, tier)
    module = llvm.parse_assembly(text)
    module.verify()
    # Vectors are written as such: what LLVM's higher levels add takes half as long again, and makes nothing faster.
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.loop_interleaving = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine, module


class _Builder(ir.IRBuilder):
    """Drops casts between pointer types, which are one type to LLVM."""

    def bitcast(self, value: Any, typ: Any, name: str = "") -> Any:
        if not isinstance(typ, ir.PointerType) or not isinstance(value.type, ir.PointerType):
            return super().bitcast(value, typ, name)
        same = object.__new__(type(value))
        same.__dict__.update(value.__dict__, type=typ)
        return same


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: it would take a third of the time, on tens of thousands of live objects."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@cache
def _machine(tier: Tier) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=tier.cpu, features=tier.features, opt=3, reloc="pic", codemodel="default")


def _text(function: Any, symbol: str, machine: Any, tier: Tier) -> str:
    module = ir.Module(symbol)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    returns = hasattr(function, "returns")
    outer = ir.Function(module, ir.FunctionType(I64 if returns else ir.VoidType(), [I64] * 3), symbol)
    outer.attributes.add("nounwind")
    builder = _Builder(outer.append_basic_block())
    result = write(builder, function, outer.args, returns, tier)
    if returns:
        builder.ret(result)
    else:
        builder.ret_void()
    return str(module)

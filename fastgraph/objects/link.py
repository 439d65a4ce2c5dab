"""Links compiled kernels into this process, without loading LLVM where possible."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from ..errors import CompilerError
from ..locks import lock, undisturbed
from . import elf
from .code import ALLOWED, Foreign

_lock = lock()
_linked: dict[tuple[str, bytes], int] = {}
_engines: list[Any] = []


def undefined(obj: bytes) -> frozenset[str]:
    """The undefined symbols of an ELF64 object; none for other formats, which aren't examined."""
    if not obj.startswith(elf.ELF64):
        return frozenset()
    return frozenset(each.name for each in elf.symbols(obj, elf.sections(obj)) if each.name and not each.section)


def check(obj: bytes, what: object) -> None:
    """RuntimeError when `obj` is cut short, not of this platform, or needs symbols other than ALLOWED.

    Linking such an object would crash the process. Damage within it only a checksum can tell.
    """
    if sys.platform == "linux" and not obj.startswith(elf.ELF64):
        raise RuntimeError(f"{what} is not an object file of this platform")
    try:
        extra = undefined(obj) - ALLOWED
    except (struct.error, IndexError, ValueError):
        raise RuntimeError(f"{what} is not a whole object file") from None
    if extra:
        raise RuntimeError(f"{what} needs {', '.join(sorted(extra))}, which not every process has")


def link(objects: Mapping[str, bytes]) -> dict[str, int]:
    """{symbol: address in this process} for {symbol: object file}.

    A symbol that was linked before keeps its address. Code is never unloaded. RuntimeError when an object can't be read
    or does not define its symbol.
    """
    with undisturbed():
        from hashlib import sha256  # running a saved program does not import it

    keys = {symbol: (symbol, sha256(obj).digest()) for symbol, obj in objects.items()}
    with _lock:
        new = {symbol: objects[symbol] for symbol, key in keys.items() if key not in _linked}
        if new:
            with undisturbed():
                _linked.update((keys[symbol], address) for symbol, address in _load(new).items())
        return {symbol: _linked[key] for symbol, key in keys.items()}


@cache
def _llvm() -> Any:
    """llvmlite's binding, ready to use."""
    try:
        with undisturbed():
            import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise CompilerError(
            f"kernels can't be linked: llvmlite, which does that here, can't be imported ({error}): install it again "
            "(pip install --force-reinstall llvmlite), or load with isa='numpy', which is slow"
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _load(objects: Mapping[str, bytes]) -> dict[str, int]:
    for symbol, obj in objects.items():
        check(obj, symbol)
    try:
        addresses = elf.load(objects)
    except Foreign:
        addresses = _load_with_llvm(objects)
    except (struct.error, LookupError, ValueError, OverflowError):
        raise RuntimeError(f"of {', '.join(objects)}, one is not a whole object file") from None
    for symbol, address in addresses.items():
        if not address:
            raise RuntimeError(f"an object that should define {symbol} does not")
    return addresses


def _load_with_llvm(objects: Mapping[str, bytes]) -> dict[str, int]:
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    empty = llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"')
    engine = llvm.create_mcjit_compiler(empty, machine)
    for obj in objects.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
    engine.finalize_object()
    _engines.append(engine)
    return {symbol: engine.get_function_address(symbol) for symbol in objects}

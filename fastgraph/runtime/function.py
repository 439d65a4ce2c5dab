"""A run as a Python function of the interpreter's own kind: calls take a fifth of the time of ctypes."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_void_p
from functools import cache, partial
from typing import Any

from ..kernels.core.slots import CALL, CALL_AT

_NO_ARGUMENTS = 4
_Untyped = ctypes.PYFUNCTYPE(None)


class _Record(bytes):
    """A CALL record (kernels/core/slots.py); `owner` keeps alive what it points to."""

    owner: object


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [("name", c_char_p), ("function", c_void_p), ("flags", c_int), ("doc", c_char_p)]


def function(call: int, execute: int, program: int, owner: object) -> Callable[[], object]:
    """A function of no arguments that runs the PROGRAM record at `program` without the interpreter's lock.

    call, execute: addresses of the kernels of these names. The function keeps `owner` alive. It raises what the handler
    of a signal raises; then only some of the steps have run.
    """
    found = _native(call, program, owner)
    if found is not None:
        return found
    # Arguments made once, and no types to convert them by: the call itself takes a third of the time.
    arguments = [ctypes.c_int64(number) for number in (program, 0, 1)]
    arguments[0].owner = owner  # type: ignore[attr-defined]
    return partial(_Untyped(execute), *arguments)


def _native(call: int, program: int, owner: object) -> Callable[[], object] | None:
    """The function as a builtin of CPython; None in another interpreter."""
    if sys.implementation.name != "cpython" or bytes.__basicsize__ != CALL_AT + 1:
        return None
    new, addresses = _interpreter()
    record = _Record(struct.pack(f"{len(CALL)}q", program, *addresses))
    record.owner = owner
    if ctypes.string_at(id(record) + CALL_AT, len(record)) != record:
        return None
    return new(ctypes.addressof(_method(call)), record, None)  # type: ignore[no-any-return]


@cache
def interpreter(*names: str) -> tuple[int, ...]:
    """Addresses of functions of the interpreter by name."""
    return tuple(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names)


@cache
def _interpreter() -> tuple[Callable[..., Any], tuple[int, ...]]:
    """PyCFunction_NewEx, and the rest of a CALL record."""
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return kind(("PyCFunction_NewEx", ctypes.pythonapi)), (*interpreter("Py_IncRef"), id(None))


@cache
def _method(call: int) -> _Method:
    """The method table entry that all such functions point to: it is never freed."""
    return _Method(b"execute", call, _NO_ARGUMENTS, b"Run once on what lies in the inputs' memory.")

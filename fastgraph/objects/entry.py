"""Compiles a user's function with numba's public compiler: `void(int64 record, int64 thread, int64 threads)`.

The record has `.raised`, which becomes 1 when the function raises, and the address of the run's error cell: while that
is not 0 the function is not called, as its operands may be invalid. Then come the arguments by their forms
(ops/custom.py): the address and the extents of each array, integers, the bits of floats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.errors import TypingError as Written
from numba.extending import intrinsic

from ..errors import CompilerError
from ..freedoms import checked

Form = tuple[Any, ...]

ENTRY = """\
def entry(args, thread, threads):
    if thread == 0:
        r = carray(pointer(args), ({count},), int64)
{arrays}
        failed = carray(pointer(r[1]), (1,), int64)
        if failed[0] == 0:
            try:
                kernel({given})
            except Exception:
                r[0] = failed[0] = 1
"""


def entry_of(function: Callable[..., Any], options: Mapping[str, Any], forms: Mapping[str, Form], what: str) -> Any:
    """The numba.cfunc that calls a user's function with the arguments in a record; `options`: of numba.njit. Its
    `address` is the kernel, its `code` gives the function's machine code.

    CompilerError, which begins with `what`, where numba refuses the function.
    """
    try:
        kinds = {name: _type(form) for name, form in forms.items()}
    except AttributeError as error:
        raise CompilerError(f"{what}: numba has no such arrays ({error}): register it with native=False") from error
    try:
        kernel = numba.njit(tuple(kinds.values()), **_options(options))(function)
        made = kernel.overloads[tuple(kinds.values())]
        if made.signature.return_type is not types.none:
            raise Written(f"it returns {made.signature.return_type}: it is to write into its last parameters")
        _reads_only(made.type_annotation, set())
        entry: Any = numba.cfunc("void(int64, int64, int64)")(_entry(kernel, forms))
    except Exception as error:  # numba's own errors, and what its parts raise for code they don't foresee
        where = f"{function.__code__.co_filename}, line {_line(error, function)}"
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip() or type(error).__name__
        raise CompilerError(
            f"{what}: numba can't compile its kernel {function.__name__} ({where}) for "
            f"({', '.join(f'{name}: {kind}' for name, kind in kinds.items())}): write it as numba takes it, or "
            f"register it with native=False; numba says: {text}"
        ) from error
    entry.code = kernel.inspect_asm
    return entry


def _reads_only(typed: Any, seen: set[int]) -> None:
    """TypeError, with its line, for what writes into an operand in ways that numba lets pass: through `flat`, `nditer`
    and `fill_diagonal`, in the function or in those that it calls. `typed`: numba's annotation of a function.
    """
    if id(typed) in seen:
        return
    seen.add(id(typed))
    walked = any(_of_operand(kind) for kind in typed.typemap.values() if isinstance(kind, types.NumpyNdIterType))
    for statement, signature in typed.calltypes.items():
        match statement:
            case numba_ir.SetItem() | numba_ir.StaticSetItem():
                target = signature.args[0]
                if _of_operand(target) or walked and getattr(target, "ndim", None) == 0:
                    raise Written("Cannot modify readonly array", loc=statement.loc)
            case numba_ir.Expr(op="call"):
                called = typed.typemap[statement.func.name]
                if getattr(called, "typing_key", None) is np.fill_diagonal and _of_operand(signature.args[0]):
                    raise Written("Cannot modify readonly array", loc=statement.loc)
                if isinstance(called, types.Dispatcher) and (found := called.dispatcher.overloads.get(signature.args)):
                    _reads_only(found.type_annotation, seen)


def _of_operand(kind: Any) -> bool:
    """Whether an array can't be written, or is reached through one that can't."""
    arrays = [kind, getattr(kind, "array_type", None), *getattr(kind, "arrays", ())]
    return any(isinstance(each, types.Array) and not each.mutable for each in arrays)


def _options(own: Mapping[str, Any]) -> dict[str, Any]:
    """numba's options: the user's, but on one thread, without a cache, without Python objects."""
    kept = {name: own[name] for name in ("fastmath", "boundscheck", "error_model") if own.get(name) is not None}
    if checked():
        kept["boundscheck"] = True
    return {"error_model": "numpy", **kept, "nogil": True}


def _line(error: Exception, function: Callable[..., Any]) -> int:
    """The line of the function that numba's error names, if any."""
    loc = getattr(error, "loc", None)
    within = loc is not None and os.path.basename(loc.filename) == os.path.basename(function.__code__.co_filename)
    line: int = loc.line if within and loc is not None else function.__code__.co_firstlineno
    return line


def _type(form: Form) -> Any:
    """numba's type of an argument."""
    match form:
        case "array", element, axes, written:
            dtype = types.boolean if element == "bool" else getattr(types, element)
            return types.Array(dtype, axes, "C", readonly=not written)
        case "tuple", parts:
            return types.Tuple([_type(part) for part in parts])
    plain = {"int": "int64", "float": "float64", "bool": "boolean", "none": "none", "text": "unicode_type"}
    return getattr(types, plain[form[0]])


def _entry(kernel: Any, forms: Mapping[str, Form]) -> Any:
    """The function of a record that calls the kernel, generated for the forms of its arguments."""
    names = {"carray": numba.carray, "pointer": pointer, "real": real, "clear": clear, "int64": np.int64}
    names["kernel"] = kernel
    arrays, given, at = [], [], 2
    for number, form in enumerate(forms.values()):
        if form[0] == "array":
            _, element, axes, written = form
            names[f"type{number}"] = np.dtype(element).type
            extents = "".join(f"r[{at + 1 + axis}], " for axis in range(axes))
            arrays.append(f"a{number} = carray(pointer(r[{at}]), ({extents}), type{number})")
            arrays += [f"clear(r[{at}], a{number}.nbytes)"] * written
            given.append(f"a{number}")
            at += 1 + axes
        else:
            text, at = _read(form, at, names)
            given.append(text)
    lines = "\n".join(f"        {line}" for line in arrays)
    exec(compile(ENTRY.format(count=at, arrays=lines, given=", ".join(given)), "<entry>", "exec"), names)
    return names["entry"]


def _read(form: Form, at: int, names: dict[str, Any]) -> tuple[str, int]:
    """The expression that reads an argument from word `at` of the record; and the number of the next word."""
    match form:
        case ("none",):
            return "None", at
        case ("int",):
            return f"r[{at}]", at + 1
        case ("bool",):
            return f"r[{at}] != 0", at + 1
        case ("float",):
            return f"real(r[{at}])", at + 1
        case "text", text:
            name = f"text{len(names)}"
            names[name] = text
            return name, at
    parts = []
    for part in form[1]:
        text, at = _read(part, at, names)
        parts.append(text)
    return f"({''.join(f'{part}, ' for part in parts)})", at


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), code


@intrinsic
def real(typing: Any, bits: Any) -> Any:
    """The float64 of these bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), code


@intrinsic
def clear(typing: Any, address: Any, count: Any) -> Any:
    """Zero so many bytes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cgutils.memset(builder, builder.inttoptr(args[0], ir.IntType(8).as_pointer()), args[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code

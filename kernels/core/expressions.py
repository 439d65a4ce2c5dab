"""Expressions of a kernel's Python in LLVM's IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from llvmlite import ir

from .arithmetic import I64, binary, compared, merged, number, numbers, truth

UNKNOWN = object()
"""In place of a value that only the running kernel knows."""


@dataclass
class Frame:
    """A function that is being translated.

    `inline` writes the body of a function that it calls; `bound`: names with values that are known or never change;
    `slots`: where the other local names' numbers are; `stores`: how many statements store to a local name; `loops`:
    where `continue` and `break` lead; `returned`: values, and the blocks that they come from to `end`.
    """

    b: Any
    inline: Callable[..., Any]
    function: FunctionType
    bound: dict[str, Any]
    stores: dict[str, int]
    end: Any
    slots: dict[str, Any] = field(default_factory=dict)
    loops: list[tuple[Any, Any]] = field(default_factory=list)
    returned: list[tuple[Any, Any]] = field(default_factory=list)


def slot(f: Frame, name: str) -> Any:
    """The memory of a local name's number; LLVM turns it into a register."""
    if name not in f.slots:
        with f.b.goto_entry_block():
            f.slots[name] = f.b.alloca(I64)
    return f.slots[name]


def evaluate(f: Frame, node: ast.expr) -> Any:
    """An expression's value: an LLVM number (or a bit, of a condition), what is known, or a tuple of these."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return read(f, name)
        case ast.Attribute(value=of, attr=name):
            return getattr(evaluate(f, of), name)
        case ast.Subscript(value=of, slice=index):
            return evaluate(f, of)[evaluate(f, index)]
        case ast.Tuple(elts=items):
            return tuple(evaluate(f, item) for item in items)
        case ast.BinOp(left=left, op=op, right=right):
            return binary(f.b, op, evaluate(f, left), evaluate(f, right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return binary(f.b, ast.Sub(), 0, evaluate(f, operand))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = evaluate(f, operand)
            return f.b.not_(truth(f.b, value)) if isinstance(value, ir.Value) else not value
        case ast.Compare(left=left, ops=ops, comparators=others):
            return compared(f.b, ops, [evaluate(f, each) for each in (left, *others)])
        case ast.BoolOp() if (known := settled(f, node)) is not UNKNOWN:
            return known
        case ast.BoolOp(op=op, values=values):
            return _short_circuit(f, isinstance(op, ast.Or), values)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _chosen(f, test, body, orelse)
        case ast.Call(func=function, args=args, keywords=named):
            values = [evaluate(f, each) for each in args]
            return call(f, evaluate(f, function), values, {str(k.arg): evaluate(f, k.value) for k in named})
    raise TypeError(f"kernel code can't have {ast.unparse(node)!r}")


def call(f: Frame, function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """What a function that kernel code calls returns."""
    b = f.b
    if not hasattr(function, "emits"):
        return f.inline(b, function, args, named)
    return function(b, *(_passed(b, each) for each in args), **{n: _passed(b, each) for n, each in named.items()})


def _passed(b: Any, value: Any) -> Any:
    return number(b, value) if isinstance(value, ir.Value | int) else value


def read(f: Frame, name: str) -> Any:
    """What a name means: a local one's value, or what it is in the scopes around the function."""
    if name in f.bound:
        return f.bound[name]
    if name in f.stores:
        return f.b.load(slot(f, name))
    code = f.function.__code__
    if name in code.co_freevars:
        return (f.function.__closure__ or ())[code.co_freevars.index(name)].cell_contents
    if name in f.function.__globals__:
        return f.function.__globals__[name]
    raise TypeError(f"kernel code can't use {name!r}")


def settled(f: Frame, node: ast.expr) -> Any:
    """The value of an expression that needs no code, or UNKNOWN."""
    if isinstance(node, ast.BoolOp):
        value: Any = UNKNOWN
        for each in node.values:
            value = settled(f, each)
            if value is UNKNOWN or bool(value) == isinstance(node.op, ast.Or):
                break
        return value
    for part in ast.walk(node):
        if isinstance(part, ast.Call) or (isinstance(part, ast.Name) and not _fixed(f, part.id)):
            return UNKNOWN
    value = evaluate(f, node)
    return UNKNOWN if isinstance(value, ir.Value) else value


def _fixed(f: Frame, name: str) -> bool:
    return not isinstance(f.bound[name], ir.Value) if name in f.bound else name not in f.stores


def branch(f: Frame, test: ast.expr, yes: Any, no: Any) -> None:
    """Go on at one of two blocks."""
    match test:
        case ast.BoolOp(op=op, values=values):
            for value in values[:-1]:
                following = f.b.append_basic_block("test")
                branch(f, value, *((yes, following) if isinstance(op, ast.Or) else (following, no)))
                f.b.position_at_end(following)
            branch(f, values[-1], yes, no)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            branch(f, operand, no, yes)
        case _:
            value = evaluate(f, test)
            if isinstance(value, ir.Value):
                f.b.cbranch(truth(f.b, value), yes, no)
            else:
                f.b.branch(yes if value else no)


def _short_circuit(f: Frame, either: bool, values: Sequence[ast.expr]) -> Any:
    """The value of `and` and `or`."""
    after, found = f.b.append_basic_block("after"), []
    for node in values:
        value = number(f.b, evaluate(f, node))
        found.append((value, f.b.block))
        if node is values[-1]:
            f.b.branch(after)
        else:
            following = f.b.append_basic_block("test")
            f.b.cbranch(truth(f.b, value), *((after, following) if either else (following, after)))
            f.b.position_at_end(following)
    f.b.position_at_end(after)
    return merged(f.b, found)


def _chosen(f: Frame, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
    """The value of `body if test else orelse`."""
    if (known := settled(f, test)) is not UNKNOWN:
        return evaluate(f, body if known else orelse)
    yes, no, after = (f.b.append_basic_block(name) for name in ("then", "else", "after"))
    branch(f, test, yes, no)
    found = []
    for block, node in ((yes, body), (no, orelse)):
        f.b.position_at_end(block)
        found.append((numbers(f.b, evaluate(f, node)), f.b.block))
        f.b.branch(after)
    f.b.position_at_end(after)
    return merged(f.b, found)

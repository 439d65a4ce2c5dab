"""Translate a kernel's Python to LLVM's IR.

A kernel computes with int64 numbers. All else is known while it is translated: numbers of the enclosing scope, records
and tuples of numbers, functions. A function made by `isa.vector.emits` writes IR itself; any other function is taken in
where it is called. What is known is computed, and a branch that can't be taken is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

from llvmlite import ir

from .arithmetic import I64, binary, merged, number, numbers
from .expressions import UNKNOWN, Frame, branch, evaluate, read, settled, slot


def translate(b: Any, function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any] | None = None) -> Any:
    """Write a function's body at the builder's place; what it returns: a number, a tuple of numbers, or None.

    TypeError, with the place, for Python that kernels can't be written in.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"kernel code can't call {function!r}")
    tree = _parsed(function.__code__.co_filename)[function.__code__.co_firstlineno, function.__name__]
    bound = dict(zip((each.arg for each in tree.args.args), args, strict=False)) | (named or {})
    if len(bound) != len(tree.args.args) or len(args) + len(named or {}) != len(bound):
        raise TypeError(f"{function.__name__} takes {ast.unparse(tree.args)}, which is not what it is called with")
    stores: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
    frame = Frame(b, translate, function, bound, stores, b.append_basic_block("end"))
    for name in bound.keys() & stores.keys():
        stores[name] += 1
        _store(frame, name, bound.pop(name))
    _run(frame, tree.body)
    if not b.block.is_terminated:
        _return(frame, None)
    b.position_at_end(frame.end)
    return merged(b, frame.returned)


@cache
def _parsed(path: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """A file's functions, by the line that each begins in and its name."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name): node for node in found}


def _run(f: Frame, body: Sequence[ast.stmt]) -> None:
    for statement in body:
        if f.b.block.is_terminated:
            return
        try:
            _statement(f, statement)
        except TypeError as error:
            if hasattr(error, "place"):
                raise
            place = f"{f.function.__code__.co_filename}:{statement.lineno}"
            error = TypeError(f"{place}: in {f.function.__name__}: {error}")
            error.place = place  # type: ignore[attr-defined]
            raise error from None


def _statement(f: Frame, node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            pass
        case ast.Expr(value=value):
            evaluate(f, value)
        case ast.Assign(targets=targets, value=value):
            result = evaluate(f, value)
            for target in targets:
                _assign(f, target, result)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _assign(f, target, evaluate(f, value))
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            _store(f, name, binary(f.b, op, read(f, name), evaluate(f, value)))
        case ast.If(test=test, body=body, orelse=orelse):
            _if(f, test, body, orelse)
        case ast.While(test=test, body=body, orelse=[]):
            _while(f, test, body)
        case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=args), body=body, orelse=[]):
            _for(f, target, [number(f.b, evaluate(f, each)) for each in args], body)
        case ast.Return(value=value):
            _return(f, None if value is None else evaluate(f, value))
        case ast.Continue():
            f.b.branch(f.loops[-1][0])
        case ast.Break():
            f.b.branch(f.loops[-1][1])
        case _:
            raise TypeError(f"kernel code can't have {ast.unparse(node).splitlines()[0]!r}")


def _assign(f: Frame, target: ast.expr, value: Any) -> None:
    match target:
        case ast.Name(id=name):
            _store(f, name, value)
        case ast.Tuple(elts=targets):
            if not isinstance(value, tuple | list) or len(value) != len(targets):
                raise TypeError(f"{value!r} isn't {len(targets)} values")
            for each, item in zip(targets, value, strict=True):
                _assign(f, each, item)
        case _:
            raise TypeError(f"kernel code can't assign to {ast.unparse(target)!r}")


def _store(f: Frame, name: str, value: Any) -> None:
    if f.stores[name] == 1 and name not in f.slots and not isinstance(value, ir.Value):
        f.bound[name] = value
    else:
        f.b.store(number(f.b, value), slot(f, name))


def _if(f: Frame, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
    if (known := settled(f, test)) is not UNKNOWN:
        _run(f, body if known else orelse)
        return
    yes, no, after = (f.b.append_basic_block(name) for name in ("then", "else", "after"))
    branch(f, test, yes, no)
    for block, statements in ((yes, body), (no, orelse)):
        f.b.position_at_end(block)
        _run(f, statements)
        if not f.b.block.is_terminated:
            f.b.branch(after)
    f.b.position_at_end(after)


def _while(f: Frame, test: ast.expr, body: Sequence[ast.stmt]) -> None:
    head, inside, after = (f.b.append_basic_block(name) for name in ("head", "body", "after"))
    f.b.branch(head)
    f.b.position_at_end(head)
    branch(f, test, inside, after)
    _inside(f, inside, body, head, after)


def _for(f: Frame, target: ast.expr, ends: Sequence[Any], body: Sequence[ast.stmt]) -> None:
    """A loop over a range; a step that isn't known is above 0."""
    b = f.b
    start, stop, step = (I64(0), *ends, I64(1)) if len(ends) == 1 else (*ends, I64(1))[:3]
    down = isinstance(step, ir.Constant) and step.constant < 0
    before = b.block
    head, inside, latch, after = (b.append_basic_block(name) for name in ("head", "body", "next", "after"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(start, before)
    b.cbranch(b.icmp_signed(">" if down else "<", i, stop), inside, after)
    b.position_at_end(latch)
    i.add_incoming(b.add(i, step, flags=("nsw",)), latch)
    b.branch(head)
    b.position_at_end(inside)
    _assign(f, target, i)
    _inside(f, inside, body, latch, after)


def _inside(f: Frame, inside: Any, body: Sequence[ast.stmt], again: Any, after: Any) -> None:
    f.loops.append((again, after))
    f.b.position_at_end(inside)
    _run(f, body)
    if not f.b.block.is_terminated:
        f.b.branch(again)
    f.loops.pop()
    f.b.position_at_end(after)


def _return(f: Frame, value: Any) -> None:
    f.returned.append((numbers(f.b, value), f.b.block))
    f.b.branch(f.end)

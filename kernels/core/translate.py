"""Translate a kernel's Python to LLVM's IR.

A kernel computes with int64 numbers. All else is known while it is translated: numbers of the enclosing scope, records
and tuples of numbers, functions. A function made by `isa.vector.emits` writes IR itself; any other function is taken in
where it is called. What is known is computed, and a branch that can't be taken is left out.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

from llvmlite import ir

I64 = ir.IntType(64)
_UNKNOWN = object()

_KNOWN: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}  # fmt: skip
_EMITTED = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass
class _Frame:
    """A function that is being translated.

    `bound`: names with values that are known or never change; `slots`: where the other local names' numbers are;
    `stores`: how many statements store to a local name; `loops`: where `continue` and `break` lead; `returned`: values,
    and the blocks that they come from to `end`.
    """

    b: Any
    function: FunctionType
    bound: dict[str, Any]
    stores: dict[str, int]
    end: Any
    slots: dict[str, Any] = field(default_factory=dict)
    loops: list[tuple[Any, Any]] = field(default_factory=list)
    returned: list[tuple[Any, Any]] = field(default_factory=list)


def translate(b: Any, function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any] | None = None) -> Any:
    """Write a function's body at the builder's place; what it returns: a number, a tuple of numbers, or None.

    TypeError, with the place, for Python that kernels can't be written in.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"kernel code can't call {function!r}")
    tree = _parsed(function.__code__.co_filename)[function.__code__.co_firstlineno, function.__name__]
    bound = dict(zip((each.arg for each in tree.args.args), args, strict=False)) | (named or {})
    if len(bound) != len(tree.args.args) or len(args) + len(named or {}) != len(bound):
        raise TypeError(f"{function.__name__} takes {len(tree.args.args)} arguments, of others' names: {[*bound]}")
    stores: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
    frame = _Frame(b, function, bound, stores, b.append_basic_block("end"))
    for name in bound.keys() & stores.keys():
        _store(frame, name, bound.pop(name))
    _run(frame, tree.body)
    if not b.block.is_terminated:
        _return(frame, None)
    b.position_at_end(frame.end)
    return _merged(b, frame.returned)


@cache
def _parsed(path: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """A file's functions, by the line that each begins in and its name."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name): node for node in found}


# -- statements


def _run(f: _Frame, body: Sequence[ast.stmt]) -> None:
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


def _statement(f: _Frame, node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            pass
        case ast.Expr(value=value):
            _value(f, value)
        case ast.Assign(targets=targets, value=value):
            result = _value(f, value)
            for target in targets:
                _assign(f, target, result)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _assign(f, target, _value(f, value))
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            _store(f, name, _binary(f.b, op, _read(f, name), _value(f, value)))
        case ast.If(test=test, body=body, orelse=orelse):
            _if(f, test, body, orelse)
        case ast.While(test=test, body=body, orelse=[]):
            _while(f, test, body)
        case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=args), body=body, orelse=[]):
            _for(f, target, [_number(f.b, _value(f, each)) for each in args], body)
        case ast.Return(value=value):
            _return(f, None if value is None else _value(f, value))
        case ast.Continue():
            f.b.branch(f.loops[-1][0])
        case ast.Break():
            f.b.branch(f.loops[-1][1])
        case _:
            raise TypeError(f"kernel code can't have {ast.unparse(node).splitlines()[0]!r}")


def _assign(f: _Frame, target: ast.expr, value: Any) -> None:
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


def _store(f: _Frame, name: str, value: Any) -> None:
    if f.stores[name] == 1 and name not in f.slots and not isinstance(value, ir.Value):
        f.bound[name] = value
    else:
        f.b.store(_number(f.b, value), _slot(f, name))


def _slot(f: _Frame, name: str) -> Any:
    if name not in f.slots:
        with f.b.goto_entry_block():
            f.slots[name] = f.b.alloca(I64)
    return f.slots[name]


def _if(f: _Frame, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
    if (known := _known(f, test)) is not _UNKNOWN:
        _run(f, body if known else orelse)
        return
    yes, no, after = (f.b.append_basic_block(name) for name in ("then", "else", "after"))
    _branch(f, test, yes, no)
    for block, statements in ((yes, body), (no, orelse)):
        f.b.position_at_end(block)
        _run(f, statements)
        if not f.b.block.is_terminated:
            f.b.branch(after)
    f.b.position_at_end(after)


def _while(f: _Frame, test: ast.expr, body: Sequence[ast.stmt]) -> None:
    head, inside, after = (f.b.append_basic_block(name) for name in ("head", "body", "after"))
    f.b.branch(head)
    f.b.position_at_end(head)
    _branch(f, test, inside, after)
    _inside(f, inside, body, head, after)


def _for(f: _Frame, target: ast.expr, ends: Sequence[Any], body: Sequence[ast.stmt]) -> None:
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


def _inside(f: _Frame, inside: Any, body: Sequence[ast.stmt], again: Any, after: Any) -> None:
    f.loops.append((again, after))
    f.b.position_at_end(inside)
    _run(f, body)
    if not f.b.block.is_terminated:
        f.b.branch(again)
    f.loops.pop()
    f.b.position_at_end(after)


def _return(f: _Frame, value: Any) -> None:
    f.returned.append((_numbers(f.b, value), f.b.block))
    f.b.branch(f.end)


# -- expressions


def _value(f: _Frame, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _read(f, name)
        case ast.Attribute(value=of, attr=name):
            return getattr(_value(f, of), name)
        case ast.Subscript(value=of, slice=index):
            return _value(f, of)[_value(f, index)]
        case ast.Tuple(elts=items):
            return tuple(_value(f, item) for item in items)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(f.b, op, _value(f, left), _value(f, right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _binary(f.b, ast.Sub(), 0, _value(f, operand))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = _value(f, operand)
            return f.b.not_(_truth(f.b, value)) if isinstance(value, ir.Value) else not value
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(f.b, ops, [_value(f, each) for each in (left, *others)])
        case ast.BoolOp() if (known := _known(f, node)) is not _UNKNOWN:
            return known
        case ast.BoolOp(op=op, values=values):
            return _short_circuit(f, isinstance(op, ast.Or), values)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _chosen(f, test, body, orelse)
        case ast.Call(func=function, args=args, keywords=named):
            values = [_value(f, each) for each in args]
            return call(f.b, _value(f, function), values, {str(k.arg): _value(f, k.value) for k in named})
    raise TypeError(f"kernel code can't have {ast.unparse(node)!r}")


def call(b: Any, function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """What a function that kernel code calls returns."""
    function = getattr(function, "py_func", function)
    if not hasattr(function, "emits"):
        return translate(b, function, args, named)
    values = [_passed(b, each) for each in args]
    result = function(b, *values, **{name: _passed(b, each) for name, each in named.items()})
    if isinstance(result, ir.Value) and isinstance(result.type, ir.ArrayType):
        return tuple(b.extract_value(result, i) for i in range(result.type.count))
    return result


def _passed(b: Any, value: Any) -> Any:
    return _number(b, value) if isinstance(value, ir.Value | int) else value


def _read(f: _Frame, name: str) -> Any:
    if name in f.bound:
        return f.bound[name]
    if name in f.stores:
        return f.b.load(_slot(f, name))
    code = f.function.__code__
    if name in code.co_freevars:
        return (f.function.__closure__ or ())[code.co_freevars.index(name)].cell_contents
    if name in f.function.__globals__:
        return f.function.__globals__[name]
    raise TypeError(f"kernel code can't use {name!r}")


def _binary(b: Any, op: ast.operator, x: Any, y: Any) -> Any:
    if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
        return _KNOWN[type(op)](x, y)
    x, y = _number(b, x), _number(b, y)
    if isinstance(op, ast.FloorDiv | ast.Mod):
        return _divided(b, x, y)[isinstance(op, ast.Mod)]
    if type(op) not in _EMITTED:
        raise TypeError(f"kernel code has no {type(op).__name__}")
    return getattr(b, _EMITTED[type(op)])(x, y)


def _divided(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x // y and x % y as Python has them; 0 and 0 where y is 0."""
    none = b.icmp_signed("==", y, I64(0))
    y = b.select(none, I64(1), y)
    quotient, rest = b.sdiv(x, y), b.srem(x, y)
    below = b.and_(b.icmp_signed("!=", rest, I64(0)), b.icmp_signed("<", b.xor(y, rest), I64(0)))
    quotient = b.select(below, b.sub(quotient, I64(1)), quotient)
    return b.select(none, I64(0), quotient), b.select(below, b.add(rest, y), rest)


def _compared(b: Any, ops: Sequence[ast.cmpop], values: Sequence[Any]) -> Any:
    result: Any = True
    for op, x, y in zip(ops, values, values[1:], strict=False):
        if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
            one: Any = _KNOWN[type(op)](x, y)
        else:
            one = b.icmp_signed(_COMPARED[type(op)], _number(b, x), _number(b, y))
        if isinstance(one, ir.Value) and isinstance(result, ir.Value):
            result = b.and_(result, one)
        else:
            result = one if result is True else result and one
    return result


def _known(f: _Frame, node: ast.expr) -> Any:
    """The value of an expression that needs no code, or _UNKNOWN."""
    if isinstance(node, ast.BoolOp):
        value: Any = _UNKNOWN
        for each in node.values:
            value = _known(f, each)
            if value is _UNKNOWN or bool(value) == isinstance(node.op, ast.Or):
                break
        return value
    for part in ast.walk(node):
        if isinstance(part, ast.Call) or (isinstance(part, ast.Name) and not _fixed(f, part.id)):
            return _UNKNOWN
    value = _value(f, node)
    return _UNKNOWN if isinstance(value, ir.Value) else value


def _fixed(f: _Frame, name: str) -> bool:
    return not isinstance(f.bound[name], ir.Value) if name in f.bound else name not in f.stores


def _branch(f: _Frame, test: ast.expr, yes: Any, no: Any) -> None:
    """Go on at one of two blocks."""
    match test:
        case ast.BoolOp(op=op, values=values):
            for value in values[:-1]:
                following = f.b.append_basic_block("test")
                _branch(f, value, *((yes, following) if isinstance(op, ast.Or) else (following, no)))
                f.b.position_at_end(following)
            _branch(f, values[-1], yes, no)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _branch(f, operand, no, yes)
        case _:
            value = _value(f, test)
            if isinstance(value, ir.Value):
                f.b.cbranch(_truth(f.b, value), yes, no)
            else:
                f.b.branch(yes if value else no)


def _short_circuit(f: _Frame, either: bool, values: Sequence[ast.expr]) -> Any:
    """The value of `and` and `or`."""
    after, found = f.b.append_basic_block("after"), []
    for node in values:
        value = _number(f.b, _value(f, node))
        found.append((value, f.b.block))
        if node is values[-1]:
            f.b.branch(after)
        else:
            following = f.b.append_basic_block("test")
            f.b.cbranch(_truth(f.b, value), *((after, following) if either else (following, after)))
            f.b.position_at_end(following)
    f.b.position_at_end(after)
    return _merged(f.b, found)


def _chosen(f: _Frame, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
    """The value of `body if test else orelse`."""
    if (known := _known(f, test)) is not _UNKNOWN:
        return _value(f, body if known else orelse)
    yes, no, after = (f.b.append_basic_block(name) for name in ("then", "else", "after"))
    _branch(f, test, yes, no)
    found = []
    for block, node in ((yes, body), (no, orelse)):
        f.b.position_at_end(block)
        found.append((_numbers(f.b, _value(f, node)), f.b.block))
        f.b.branch(after)
    f.b.position_at_end(after)
    return _merged(f.b, found)


# -- values


def _number(b: Any, value: Any) -> Any:
    """A value as an int64."""
    if isinstance(value, int):
        return I64(int(value))
    if isinstance(value, ir.Value) and isinstance(value.type, ir.IntType):
        return b.zext(value, I64) if value.type.width < 64 else value
    raise TypeError(f"{value!r} is no number")


def _numbers(b: Any, value: Any) -> Any:
    """A value with int64 for every number in it that isn't known."""
    if isinstance(value, ir.Value):
        return _number(b, value)
    return tuple(_numbers(b, item) for item in value) if type(value) in (tuple, list) else value


def _truth(b: Any, value: Any) -> Any:
    return value if value.type.width == 1 else b.icmp_signed("!=", value, I64(0))


def _merged(b: Any, found: Sequence[tuple[Any, Any]]) -> Any:
    """The value that control comes with from one of several blocks."""
    values = [value for value, _ in found]
    if len(values) == 1 or all(value is None for value in values):
        return values[0] if values else None
    if isinstance(values[0], tuple):
        return tuple(_merged(b, [(value[i], block) for value, block in found]) for i in range(len(values[0])))
    phi = b.phi(I64)
    for value, block in found:
        phi.add_incoming(I64(int(value)) if isinstance(value, int) else value, block)
    return phi

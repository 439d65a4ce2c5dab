"""Compiles kernel code, Python over int64 numbers, to LLVM's IR: numba reads, types and lowers it.

Kernel code has numbers, ranges, tuples, records, and values of `lang`: vectors and masks. It may call `traced`
functions, which Python runs to write IR, and other Python functions, which are inlined. Conditions that depend on the
enclosing scope only are constants: branches that can't be taken are removed before type inference.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import is_dataclass
from threading import Lock
from traceback import walk_tb
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from numba.core import ir, types, typing
from numba.core.errors import NumbaError, TypingError
from numba.core.ir_utils import get_definition, guard

from ..isa.tiers import Tier
from ..lang import I64, Mistake, Type, Value
from ..lang.values import writing
from .numba_parts import Infer, Lowering, Typing, contexts, read
from .numba_values import Known, Slots, forget, given, of_values, type_of, value_of
from .record import Record


def write(builder: Any, function: FunctionType, args: Sequence[Any], returns: bool, tier: Tier) -> Any:
    """Write a kernel's body at the builder's position, for int64 arguments; returns its result, an int64, or None.

    TypeError, with file, line and function, for Python that is no kernel code.
    """
    with _lock, writing(builder, tier):
        try:
            typed = Typed.of(function, (types.int64,) * len(args), {}, types.int64 if returns else None)
            found = _Lowering(contexts(_Typing)[1], builder, typed, args).lowered()
        finally:
            _typed.clear()
            forget()
    return found if returns else None


_lock = Lock()
"""The cache of typed functions belongs to one kernel at a time."""


class KernelError(TypeError):
    """An error in kernel code, and its place."""


@contextmanager
def _placed(function: FunctionType, where: Any = None) -> Iterator[None]:
    """Adds the line of a function to errors within; where.loc: numba's location of the current statement."""
    try:
        yield
    except KernelError:
        raise
    except Exception as error:
        loc = getattr(error, "loc", None) or getattr(where, "loc", None)
        line = loc.line if loc is not None else function.__code__.co_firstlineno
        if isinstance(error, NumbaError):  # of which the rest is its way there
            said = str(error.msg).strip().partition("\n\n")[0].partition("\nDuring: ")[0]
        else:
            said = str(error) if isinstance(error, Mistake) else f"{type(error).__name__}: {error}"
        place = _traced_place(error) or f"{function.__code__.co_filename}:{line}: in {function.__name__}"
        raise KernelError(f"{place}: {said}") from error


def _traced_place(error: Exception) -> str | None:
    """The innermost line of traced code in an error's traceback: between this file's call and the library of values."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    lines = {id(frame): line for frame, line in walk_tb(error.__traceback__)}
    calls = [i for i, frame in enumerate(frames) if frame.f_code in _CALLS]
    if not calls:
        return None
    traced = [frame for frame in frames[calls[-1] + 1 :] if not frame.f_globals["__name__"].startswith(_LIBRARY)]
    if not traced:
        return None
    code = traced[-1].f_code
    return f"{code.co_filename}:{lines[id(traced[-1])]}: in {code.co_name}"


_LIBRARY = (Type.__module__.rpartition(".")[0], "contextlib", "llvmlite", "numba")


class Function(types.Callable):
    """A function that kernel code can call."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        super().__init__(f"{function.__qualname__}@{id(function)}")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        kinds, named = tuple(map(_passed, args)), {name: _passed(kind) for name, kind in dict(kws).items()}
        if hasattr(self.function, "traced"):
            found = given(self.function, ordered(self.function, args, dict(kws)))
            return typing.signature(found, *args, *dict(kws).values())
        return typing.signature(Typed.of(self.function, kinds, named).restype, *kinds)

    def get_call_signatures(self) -> Any:
        return [], True

    def get_impl_key(self, sig: Any) -> Any:
        return self


def _passed(kind: Any) -> Any:
    """The type of a parameter for an argument's type: all numbers are int64."""
    return types.int64 if isinstance(kind, types.Integer | types.Boolean | types.Literal) else kind


class _Typing(Typing):
    def resolve_value_type(self, value: Any) -> Any:
        if isinstance(value, Type | Record) or is_dataclass(value):
            return Known(value)
        return Function(value) if type(value) is FunctionType else super().resolve_value_type(value)

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        given(operator.setitem, (target, index, value))
        return typing.signature(types.none, target, index, value)

    resolve_static_setitem = resolve_setitem

    def resolve_getattr(self, kind: Any, name: str) -> Any:
        if isinstance(kind, Known):
            found = getattr(kind.it, name)
            return types.literal(found) if isinstance(found, int) else Known(found)
        if isinstance(kind, Slots) and name not in kind.names:
            raise TypingError(f"the record has no slot {name!r}; it has {', '.join(kind.names)}")
        return types.int64 if isinstance(kind, Slots) else super().resolve_getattr(kind, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        if isinstance(function, Function):
            return function.get_call_type(self, args, kws)
        operation = getattr(function, "typing_key", getattr(function, "it", function))
        if callable(operation) and (of_values(args) or isinstance(function, Known)):
            return typing.signature(given(_PLAIN.get(operation, operation), args), *args)
        if any(isinstance(kind, types.Float) for kind in args):
            raise TypingError("kernel code computes with int64s and with values of lang, a number like 1.5 is neither")
        return super().resolve_function_type(function, args, kws)


# -- from Python to typed IR


class Typed(NamedTuple):
    """A function with the types of its variables; what numba's lowering calls a function's descriptor. `scope`: the
    values of names from the enclosing scope.
    """

    function: FunctionType
    ir: Any
    typemap: Any
    restype: Any
    calltypes: Any
    scope: Mapping[str, Any]

    @classmethod
    def of(cls, function: FunctionType, given: Sequence[Any], named: Mapping[str, Any], returns: Any = None) -> Typed:
        """The typed function for these argument types."""
        kinds = ordered(function, given, named)
        key = function, kinds
        if key in _typed and _typed[key] is None:
            raise TypingError(f"{function.__name__} calls itself")
        if key not in _typed:
            _typed[key] = None
            cells = (cell.cell_contents for cell in function.__closure__ or ())
            scope = dict(zip(function.__code__.co_freevars, cells, strict=True))
            with _placed(function):
                body = _body(function, scope)
                infer = Infer(contexts(_Typing)[0], body)
                for index, (name, kind) in enumerate(zip(body.arg_names, kinds, strict=True)):
                    infer.seed_argument(name, index, kind)
                if returns is not None:
                    infer.seed_return(returns)
                infer.build_constraint()
                infer.propagate()
                typemap, restype, calltypes = infer.unify()
                typed = cls(function, body, typemap, restype, calltypes, scope)
                if isinstance(typed.restype, types.Optional):
                    raise TypingError("it returns a value in one place, and nothing in another")
                _typed[key] = typed
        return _typed[key]  # type: ignore[return-value]


_typed: dict[Any, Typed | None] = {}
"""The functions that a kernel calls; None for one that is being typed."""


def ordered(function: FunctionType, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of a function's parameters. An error unless each has one."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    rest = names[len(given) :]
    if len(given) > len(names) or named.keys() != set(rest):
        more = f" and {', '.join(named)}" if named else ""
        raise TypingError(f"{function.__name__}({', '.join(names)}) is called with {len(given)} values{more}")
    return (*given, *(named[name] for name in rest))


_bodies: dict[CodeType, tuple[Any, list[Any]]] = {}


def _body(function: FunctionType, scope: Mapping[str, Any]) -> Any:
    """numba's IR of a function in a scope, without branches that can't be taken. Its bytecode is read once."""
    if (code := function.__code__) not in _bodies:
        body = read(function)
        values = [inst.value for block in body.blocks.values() for inst in block.find_insts(ir.Assign)]
        _bodies[code] = body, [value for value in values if isinstance(value, ir.FreeVar)]
    body, free = _bodies[code]
    for value in free:
        value.value = scope[value.name]
    return _pruned(body)


UNKNOWN = object()
_DECIDED = (operator.is_, operator.is_not, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def _settled(body: Any, var: Any) -> Any:
    """The value of a condition that depends on the enclosing scope only, else UNKNOWN."""
    found = guard(get_definition, body, var)
    match found:
        case ir.Const() | ir.Global() | ir.FreeVar():
            return found.value
        case ir.Expr(op="call") if len(found.args) == 1 and _settled(body, found.func) is bool:
            value = _settled(body, found.args[0])
            return value if value is UNKNOWN else bool(value)
        case ir.Expr(op="unary") if found.fn is operator.not_:
            value = _settled(body, found.value)
            return value if value is UNKNOWN else not value
        case ir.Expr(op="binop") if found.fn in _DECIDED:
            left, right = _settled(body, found.lhs), _settled(body, found.rhs)
            return UNKNOWN if left is UNKNOWN or right is UNKNOWN else found.fn(left, right)
    return UNKNOWN


def _pruned(body: Any) -> Any:
    """A copy of the IR with constant branches as jumps, and without unreachable blocks."""
    blocks = dict(body.blocks)
    for at, block in body.blocks.items():
        last = block.body[-1]
        if isinstance(last, ir.Branch) and (value := _settled(body, last.cond)) is not UNKNOWN:
            blocks[at] = copy(block)
            blocks[at].body = [*block.body[:-1], ir.Jump(last.truebr if value else last.falsebr, last.loc)]
    reached: set[int] = set()
    ahead = [min(blocks)]
    while ahead:
        if (at := ahead.pop()) not in reached:
            reached.add(at)
            ahead += blocks[at].body[-1].get_targets()
    body = copy(body)
    body.blocks = {at: blocks[at] for at in sorted(reached)}
    return body


# -- from typed IR to LLVM's


_PLAIN = {getattr(operator, f"i{name}"): getattr(operator, name) for name in ("add", "sub", "mul", "lshift", "rshift")}
_PLAIN |= {operator.iand: operator.and_, operator.ior: operator.or_, operator.ixor: operator.xor}
_PLAIN |= {operator.itruediv: operator.truediv}


def _operation(expr: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """The operator of an expression, and its operands."""
    match expr.op:
        case "binop" | "inplace_binop":
            return _PLAIN.get(expr.fn, expr.fn), (expr.lhs, expr.rhs)
        case "unary":
            return expr.fn, (expr.value,)
        case "getitem":
            return operator.getitem, (expr.value, expr.index)
        case "static_getitem" if expr.index_var is not None:
            return operator.getitem, (expr.value, expr.index_var)
    return None


class _Lowering(Lowering):
    """numba's lowering, with calls of functions, and records."""

    def lowered(self) -> Any:
        with _placed(self.fndesc.function, self):
            return self.run()

    def lower_assign(self, kind: Any, inst: Any) -> Any:
        if isinstance(kind, Function):
            return None
        if isinstance(kind, Known) and not isinstance(inst.value, ir.Expr):
            return kind.it
        if isinstance(inst.value, ir.FreeVar):
            return self.context.get_constant_generic(self.builder, kind, self.fndesc.scope[inst.value.name])
        return super().lower_assign(kind, inst)

    def lower_expr(self, kind: Any, expr: Any) -> Any:
        if expr.op == "getattr" and isinstance(of := self.typeof(expr.value.name), Slots | Known):
            found = getattr(self.loadvar(expr.value.name) if isinstance(of, Slots) else of.it, expr.attr)
            return self._plain(found)
        if (operation := _operation(expr)) and of_values([self.typeof(v.name) for v in operation[1]]):
            return self._computed(*operation)
        return super().lower_expr(kind, expr)

    def lower_call(self, kind: Any, expr: Any) -> Any:
        callee = self.typeof(expr.func.name)
        if isinstance(callee, Known):
            return self._computed(callee.it, expr.args)
        if not isinstance(callee, Function):
            return super().lower_call(kind, expr)
        if hasattr(callee.function, "traced"):
            return self._computed(callee.function, ordered(callee.function, expr.args, dict(expr.kws)))
        function, kinds = callee.function, [_passed(self.typeof(var.name)) for var in expr.args]
        args, named = [self._value(var) for var in expr.args], {name: self._value(var) for name, var in expr.kws}
        typed = Typed.of(function, kinds, {name: _passed(self.typeof(var.name)) for name, var in expr.kws})
        return type(self)(self.context, self.builder, typed, ordered(function, args, named)).lowered()

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, ir.SetItem | ir.StaticSetItem):
            self.loc = inst.loc
            index = inst.index if isinstance(inst, ir.SetItem) else inst.index_var
            self._computed(operator.setitem, (inst.target, index, inst.value))
        else:
            super().lower_inst(inst)

    def _computed(self, function: Any, variables: Sequence[Any]) -> Any:
        """The result of a traced function or an operator for these variables, as an LLVM value."""
        values = (value_of(self.loadvar(v.name), self.typeof(v.name), self.builder) for v in variables)
        return self._plain(function(*values))

    def _plain(self, found: Any) -> Any:
        if found is None:
            return self.context.get_dummy_value()
        if isinstance(found, Value):
            return found.x
        if isinstance(found, int):
            return I64(found).x
        if hasattr(found, "_fields"):
            return type(found)(*map(self._plain, found))
        if isinstance(found, tuple | list):
            return self.context.make_tuple(self.builder, type_of(found), [self._plain(each) for each in found])
        return found

    def _value(self, var: Any) -> Any:
        """A variable as an argument."""
        kind = self.typeof(var.name)
        return self.context.cast(self.builder, self.loadvar(var.name), kind, _passed(kind))

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        if isinstance(self.typeof(name), Function | Known):
            self.values[name] = value
        else:
            super().storevar(value, name)


_CALLS = {given.__code__, _Lowering._computed.__code__}
"""Where traced code is called."""

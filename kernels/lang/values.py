"""Values of the kernel that is being written, with Python's operators.

An operator writes one instruction, chosen by the types of its operands. Numbers of Python become constants of the other
operand's type, and a number that meets a vector goes into each of its lanes; nothing else is converted: x.to(F32) does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from . import llvm
from .types import BIT, I8, I32, I64, Mistake, Type, integer, pointer_to


class _Writer:
    """Where instructions go, and for which CPU. Kernels are written one at a time (core.front)."""

    builder: Any = None
    tier: Any = None


@contextmanager
def writing(builder: Any, tier: Any) -> Iterator[None]:
    """Have instructions go to a builder of LLVM's IR, for a tier."""
    before = _Writer.builder, _Writer.tier
    _Writer.builder, _Writer.tier = builder, tier
    try:
        yield
    finally:
        _Writer.builder, _Writer.tier = before


def builder() -> Any:
    """LLVM's builder, for what has no words here."""
    return _Writer.builder


def tier() -> Any:
    """The tier (isa.tiers) that the kernel at hand is written for."""
    return _Writer.tier


_INSTRUCTIONS = {  # of real numbers, signed and unsigned integers
    "add": ("fadd", "add", "add"),
    "sub": ("fsub", "sub", "sub"),
    "mul": ("fmul", "mul", "mul"),
    "truediv": ("fdiv", "", ""),
    "floordiv": ("", "", "udiv"),
    "mod": ("", "", "urem"),
    "and": ("", "and_", "and_"),
    "or": ("", "or_", "or_"),
    "xor": ("", "xor", "xor"),
    "lshift": ("", "shl", "shl"),
    "rshift": ("", "ashr", "lshr"),
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class Value:
    """A value of LLVM's, `x`, and its type."""

    __slots__ = ("type", "x")

    def __init__(self, x: Any, type: Type) -> None:
        self.x, self.type = x, type

    def __repr__(self) -> str:
        return f"<{self.type}>"

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise Mistake("Python can't branch on what is known only when the kernel runs: write choose(...) or when(...)")

    @property
    def lanes(self) -> int:
        return self.type.lanes

    @property
    def known(self) -> bool:
        return hasattr(self.x, "constant")

    # -- operators

    if TYPE_CHECKING:  # _install gives them

        def _operator(self, other: Any) -> Value: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __lshift__ = __rshift__ = _operator
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rlshift__ = __rrshift__ = _operator
        __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator
        __eq__ = __ne__ = _operator  # type: ignore[assignment]

    def _computed(self, name: str, other: Any, turned: bool = False) -> Value:
        if self.type.target is not None:
            return self._moved(name, other)
        x, y = alike(f"{name} of", *((other, self) if turned else (self, other)))
        kind = x.type
        instruction = _INSTRUCTIONS[name][0 if kind.real else 1 if kind.signed else 2]
        if not instruction:
            hint = "; divide(x, y) and remainder(x, y) take numbers from 0 on" if name in ("floordiv", "mod") else ""
            raise Mistake(f"{name} of {x.type} and {y.type} is no instruction{hint}")
        return Value(getattr(_Writer.builder, instruction)(x.x, y.x), kind)

    def _moved(self, name: str, count: Any) -> Value:
        """A pointer some elements further on."""
        if name != "add":
            raise Mistake(f"{name} of {self.type} is no instruction")
        return Value(_Writer.builder.gep(self.x, [number(count).x]), self.type)

    def _compared(self, name: str, other: Any) -> Value:
        x, y = alike("comparison of", self, other)
        b, sign = _Writer.builder, _COMPARISONS[name]
        if x.type.real:
            # NaN differs from every number.
            found = b.fcmp_unordered("une", x.x, y.x) if name == "ne" else b.fcmp_ordered(sign, x.x, y.x)
        else:
            found = (b.icmp_signed if x.type.signed else b.icmp_unsigned)(sign, x.x, y.x)
        return Value(found, BIT.like(x.type))

    def __neg__(self) -> Value:
        b = _Writer.builder
        return Value(b.fneg(self.x) if self.type.real else b.neg(self.x), self.type)

    def __invert__(self) -> Value:
        return Value(_Writer.builder.not_(self.x), self.type)

    def __abs__(self) -> Value:
        return intrinsic("fabs", self)

    # -- conversions

    def to(self, number: Type) -> Value:
        """The same number as another type: widened by its sign, cut off, or rounded as LLVM does."""
        old, new, b = self.type, number.number.like(self.type), _Writer.builder
        if new.real and old.real:
            name = "fpext" if new.bits > old.bits else "fptrunc" if new.bits < old.bits else ""
        elif new.real:
            name = "sitofp" if old.signed else "uitofp"
        elif old.real:
            name = "fptosi" if new.signed else "fptoui"
        else:
            wider = "sext" if old.signed else "zext"
            name = wider if new.bits > old.bits else "trunc" if new.bits < old.bits else ""
        return Value(getattr(b, name)(self.x, new.llvm) if name else self.x, new)

    def bits(self, number: Type) -> Value:
        """The same bits as numbers of another type, as many as they make; one, where that is not a vector."""
        if self.type.target is not None:
            return Value(_Writer.builder.bitcast(self.x, pointer_to(number).llvm), pointer_to(number))
        count = (self.type.lanes or 1) * self.type.bits // number.bits
        new = number if count == 1 and not (self.lanes == 1 and number.bits == self.type.bits) else number.vector(count)
        same = new.llvm == self.x.type
        return Value(self.x if same else _Writer.builder.bitcast(self.x, new.llvm), new)

    @property
    def signed(self) -> Value:
        """The same bits, taken for a signed integer."""
        return Value(self.x, integer(self.type.bits).like(self.type))

    @property
    def unsigned(self) -> Value:
        """The same bits, taken for an unsigned integer."""
        return Value(self.x, integer(self.type.bits, signed=False).like(self.type))

    # -- lanes, and what a pointer points to

    def __getitem__(self, index: Any) -> Value:
        """Lane `index` of a vector; the element at a pointer, so many further on."""
        if (target := self.type.target) is not None:
            return target[self + index if not isinstance(index, int) or index else self]
        index = I32.llvm(index) if isinstance(index, int) else index.x
        return Value(_Writer.builder.extract_element(self.x, index), self.type.number)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store the element at a pointer, so many further on."""
        if (target := self.type.target) is None:
            raise Mistake("a vector can't be changed: x.with_lane(index, value) makes another")
        target[self + index if not isinstance(index, int) or index else self] = value

    def with_lane(self, index: Any, value: Any) -> Value:
        """The vector with another number in a lane."""
        index = I32.llvm(index) if isinstance(index, int) else index.x
        return Value(_Writer.builder.insert_element(self.x, self.type.number(value).x, index), self.type)

    @property
    def address(self) -> Value:
        """A pointer's address, an int64."""
        return Value(_Writer.builder.ptrtoint(self.x, I64.llvm), I64)


def _install() -> None:
    for name in _INSTRUCTIONS:
        setattr(Value, f"__{name}__", lambda self, other, name=name: self._computed(name, other))
        setattr(Value, f"__r{name}__", lambda self, other, name=name: self._computed(name, other, True))
    for name in _COMPARISONS:
        setattr(Value, f"__{name}__", lambda self, other, name=name: self._compared(name, other))


_install()


def alike(what: str, *values: Any) -> list[Value]:
    """Values of one type: numbers of Python become constants, and numbers go into each lane where there are vectors."""
    wanted = max((v.type for v in values if isinstance(v, Value)), key=lambda kind: kind.lanes)
    out = []
    for v in values:
        if not isinstance(v, Value):
            if not isinstance(v, int | float) or (isinstance(v, float) and not wanted.real):
                raise Mistake(f"{what} {wanted} and {v!r}")
            v = constant(wanted, v)
        elif wanted.lanes and not v.type.lanes and v.type is wanted.number:
            v = splat(v, wanted.lanes)
        elif v.type is not wanted:
            raise Mistake(f"{what} {wanted} and {v.type}: convert one of them")
        out.append(v)
    return out


def made(kind: Type, x: Any) -> Value:
    """type(x): a constant, of a number of Python's or of a list of one for each lane; or a number in each lane."""
    if not isinstance(x, Value):
        return constant(kind, x)
    if kind.lanes and not x.type.lanes and x.type.number is kind.number:
        return splat(x, kind.lanes)
    if x.type is not kind:
        raise Mistake(f"{kind} can't be made of {x.type}: convert it with .to({kind.number})")
    return x


def undefined(kind: Type) -> Value:
    """type.undefined(): a value of which nothing is known."""
    return Value(llvm.Constant(kind.llvm, llvm.Undefined), kind)


class First(Value):
    """The mask of the lanes before `count`, as `type.below` makes it."""

    __slots__ = ("count",)

    def __init__(self, mask: Value, count: Any) -> None:
        super().__init__(mask.x, mask.type)
        self.count = count


def lanes_below(kind: Type, count: Any) -> Value:
    """type.below(count): the mask of the lanes before `count`, an int64 that may be negative or more than there are."""
    index, last = (I8 if kind.bits == 8 else I32).like(kind), count
    if kind.bits == 8 and isinstance(count, Value):
        last = intrinsic("smax", intrinsic("smin", count, 127), -1)
    last = index(last.to(index.number) if isinstance(count, Value) else count)
    return First(constant(index, range(kind.lanes)) < last, count)


Type.__call__, Type.undefined, Type.below = made, undefined, lanes_below  # type: ignore[assignment, method-assign]


def number(x: Any) -> Value:
    """An int64, which a number of Python becomes."""
    if isinstance(x, int):
        return I64(x)
    if x.type is not I64:
        raise Mistake(f"this is an int64, not {x.type}")
    return x


@cache
def _repeated(kind: Type, text: str) -> Any:
    """A number in each lane. By its text: 0.0 equals -0.0, and is another."""
    return llvm.Constant(kind.llvm, [(float if kind.real else int)(text)] * kind.lanes)


def constant(kind: Type, x: Any) -> Value:
    """A number of Python's, or a list of one for each lane."""
    if isinstance(x, list | tuple | range):
        return Value(llvm.Constant(kind.llvm, list(x)), kind)
    x = float(x) if kind.real else int(x)
    return Value(_repeated(kind, repr(x)) if kind.lanes else kind.llvm(x), kind)


def indices(lanes: int) -> Value:
    """0, 1, 2, ... in the lanes of an int32 vector."""
    return constant(I32.vector(lanes), range(lanes))


def splat(x: Value, lanes: int) -> Value:
    """A number in each lane."""
    b, kind = _Writer.builder, x.type.vector(lanes)
    nothing = kind.undefined().x
    first = b.insert_element(nothing, x.x, I32.llvm(0))
    return Value(b.shuffle_vector(first, nothing, _repeated(I32.vector(lanes), "0")), kind)


# -- functions of LLVM's


def function(name: str, returns: Type | None, types: Sequence[Type]) -> Any:
    """The module's function of this name, declared when it is asked for first."""
    module = _Writer.builder.module
    if name in module.globals:
        return module.globals[name]
    result = llvm.VoidType() if returns is None else returns.llvm
    return llvm.Function(module, llvm.FunctionType(result, [kind.llvm for kind in types]), name)


def called(name: str, returns: Type | None, *values: Value) -> Any:
    """The result of a function of LLVM's or of the module for these values."""
    found = _Writer.builder.call(function(name, returns, [v.type for v in values]), [v.x for v in values])
    return None if returns is None else Value(found, returns)


def intrinsic(name: str, *values: Any) -> Value:
    """An overloaded intrinsic of LLVM's, of values of one type: "sqrt", "copysign", "smax", "sadd.sat" ..."""
    operands = alike(f"{name} of", *values)
    kind = operands[0].type
    spelled = f"{'f' if kind.real else 'i'}{kind.bits}"
    return called(f"llvm.{name}.{f'v{kind.lanes}' if kind.lanes else ''}{spelled}", kind, *operands)

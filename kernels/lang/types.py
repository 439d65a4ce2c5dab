"""Types of the values that kernels compute with: numbers, vectors of them, masks, pointers.

LLVM's integers have no sign; here it belongs to the type, and operators choose their instructions by it. A type is one
object, so that types are compared by `is`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import llvm

if TYPE_CHECKING:
    from .values import Value


class Mistake(TypeError):
    """What the author of a kernel is told; the front end adds the place."""


class Type:
    """A number of some bits, or a vector of `lanes` of them; a pointer where `target` says to what.

    `f32(0.5)` is a constant, `f32(x)` a number in each lane; `f32[place]` is what lies at an address or a pointer,
    `f32[place, mask]` its lanes that the mask has, and 0; `f32[place] = x` stores there.
    """

    __slots__ = ("_llvm", "bits", "lanes", "name", "number", "real", "signed", "target")

    def __init__(self, name: str, bits: int, real: bool, signed: bool) -> None:
        self.name, self.bits, self.real, self.signed = name, bits, real, signed
        self.lanes, self.number, self._llvm = 0, self, None
        self.target: Type | None = None

    def __repr__(self) -> str:
        return f"{self.name} x {self.lanes}" if self.lanes else self.name

    def vector(self, lanes: int) -> Type:
        """So many lanes of this type's numbers."""
        return _made(self.number, lanes)

    def like(self, other: Type) -> Type:
        """This type's numbers, in as many lanes as another type has."""
        return _made(self.number, other.lanes)

    def times(self, count: int) -> Type:
        """A vector as wide as so many of this one."""
        return _made(self.number, count * self.lanes)

    @property
    def size(self) -> int:
        """The bytes of a value in memory."""
        return (self.lanes or 1) * self.bits // 8

    @property
    def llvm(self) -> Any:
        if self._llvm is None:
            if self.lanes:
                self._llvm = llvm.VectorType(self.number.llvm, self.lanes)
            elif self.target is not None:
                self._llvm = self.target.llvm.as_pointer()
            elif self.real:
                self._llvm = getattr(llvm, _REALS[self.name])()
            else:
                self._llvm = llvm.IntType(self.bits)
        return self._llvm

    if TYPE_CHECKING:  # values.py and memory.py give them

        def __call__(self, x: Any) -> Value: ...
        def __getitem__(self, at: Any) -> Value: ...
        def __setitem__(self, at: Any, value: Any) -> None: ...
        def at(self, address: Any) -> Value: ...
        def undefined(self) -> Value: ...
        def below(self, count: Any) -> Value: ...


_REALS = {"f16": "HalfType", "bf16": "BFloatType", "f32": "FloatType", "f64": "DoubleType"}
_vectors: dict[tuple[Type, int], Type] = {}
_pointers: dict[Type, Type] = {}
_integers: dict[tuple[int, bool], Type] = {}


def _made(number: Type, lanes: int) -> Type:
    if not lanes:
        return number
    if (number, lanes) not in _vectors:
        made = Type(number.name, number.bits, number.real, number.signed)
        made.lanes, made.number = lanes, number
        _vectors[number, lanes] = made
    return _vectors[number, lanes]


def pointer_to(target: Type) -> Type:
    """The type of pointers to a type's values."""
    if target not in _pointers:
        made = Type(f"pointer to {target}", 64, real=False, signed=False)
        made.target = target
        _pointers[target] = made
    return _pointers[target]


def integer(bits: int, signed: bool = True) -> Type:
    """The integers of any number of bits."""
    if (bits, signed) not in _integers:
        _integers[bits, signed] = Type(f"{'i' if signed else 'u'}{bits}", bits, False, signed)
    return _integers[bits, signed]


def word(size: int) -> Type:
    """The type whose loads and stores move `size` bytes, a power of two."""
    return U8.vector(size) if size > 8 else integer(8 * size, signed=False)


F16, F32, F64 = (Type(f"f{bits}", bits, True, True) for bits in (16, 32, 64))
BF16 = Type("bf16", 16, True, True)
I8, I16, I32, I64 = (integer(bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (integer(bits, signed=False) for bits in (8, 16, 32, 64))
BIT = integer(1, signed=False)
"""A condition; a vector of them is a mask."""

_NAMED = {kind.name: kind for kind in (F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64)} | {"bool": BIT}


def named(name: str) -> Type:
    """The type of numbers called so: "i8", "u16", "f32", "bool" ..."""
    return _NAMED[name]

"""Integer instructions of int8 kernels: multiply-add of bytes, rounding, and packing to bytes.

Vectors are as wide as the tier's: <lanes x i32>, and as many bits of i16 or i8. Packing works within 128 bits, as
x86's does: dword 4 * i + j of `pack_bytes` holds elements 4 * i.. of the j-th vector.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..lang.both import both
from .vector import I8, I16, I32, Vector

_GREATEST = 2.0**31 - 128
"""The greatest f32 that is an i32."""
_X86 = platform.machine().lower() in ("x86_64", "amd64")


@both
def bytes_type(v: Vector) -> Any:
    return ir.VectorType(I8, 4 * v.lanes)


@both
def halves_type(v: Vector) -> Any:
    return ir.VectorType(I16, 2 * v.lanes)


@both
def dot_bytes(v: Vector, sums: Any, a: Any, w: Any) -> Any:
    """sums + the products of u8 `a` and s8 `w`, four to a lane, all i32 vectors (vpdpbusd; tiers with vnni)."""
    kind, wide = bytes_type(v), v.lanes * 32
    fn = v.declare(f"llvm.x86.avx512.vpdpbusd.{wide}", v.itype, [v.itype, kind, kind])
    return v.b.call(fn, [sums, v.b.bitcast(a, kind), v.b.bitcast(w, kind)])


@both
def split_bytes(v: Vector, a: Any) -> tuple[Any, Any]:
    """Bytes 0 and 2, and bytes 1 and 3, of each lane of an i32 vector, as i16."""
    kind = halves_type(v)
    halves = v.b.bitcast(a, kind)
    low = v.b.and_(halves, ir.Constant(kind, [255] * kind.count))
    return low, v.b.lshr(halves, ir.Constant(kind, [8] * kind.count))


@both
def dot_halves(v: Vector, a: Any, w: Any) -> Any:
    """The i32 sums of the two i16 products in each lane (pmaddwd)."""
    kind = halves_type(v)
    a, w = v.b.bitcast(a, kind), v.b.bitcast(w, kind)
    if _X86:
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[v.lanes]
        return v.b.call(v.declare(f"llvm.x86.{name}", v.itype, [kind, kind]), [a, w])
    parts = []
    for first in (0, 1):
        mask = ir.Constant(v.itype, list(range(first, kind.count, 2)))
        x, y = (v.b.sext(v.b.shuffle_vector(z, ir.Constant(kind, ir.Undefined), mask), v.itype) for z in (a, w))
        parts.append(v.b.mul(x, y))
    return v.b.add(*parts)


@both
def round_to_int(v: Vector, x: Any) -> Any:
    """f32 to i32, halves to even, held within int32; NaN becomes the least."""
    b = v.b
    # x86 makes -2**31 of all that is no int32.
    x = b.select(b.fcmp_ordered("<", v.const(_GREATEST), x), v.const(_GREATEST), x)
    if not _X86:
        x = b.select(b.fcmp_ordered(">", x, v.const(-(2.0**31))), x, v.const(-(2.0**31)))
        return v.b.fptosi(v.call("roundeven", x), v.itype)
    if v.lanes < 16:
        name = {4: "sse2.cvtps2dq", 8: "avx.cvt.ps2dq.256"}[v.lanes]
        return v.b.call(v.declare(f"llvm.x86.{name}", v.itype, [v.type]), [x])
    mask = ir.IntType(16)
    fn = v.declare("llvm.x86.avx512.mask.cvtps2dq.512", v.itype, [v.type, v.itype, mask, I32])
    return v.b.call(fn, [x, v.iconst(0), mask(-1), I32(4)])


@both
def binary(v: Vector, name: str, x: Any, y: Any) -> Any:
    """An overloaded LLVM intrinsic of two integer vectors: "umax", "umin", "smax", "sadd.sat" ..."""
    fn = v.declare(f"llvm.{name}.v{x.type.count}i{x.type.element.width}", x.type, [x.type, x.type])
    return v.b.call(fn, [x, y])


@both
def pack(v: Vector, x: Any, y: Any, signed: bool = True) -> Any:
    """Two vectors as one of elements half as wide, saturated to signed or unsigned numbers: x's, then y's, within 128
    bits. Signed i32 or i16, as wide as the tier's registers or one of half or a quarter of that.
    """
    bits, count = x.type.element.width // 2, 2 * x.type.count
    kind = ir.VectorType(ir.IntType(bits), count)
    if _X86:
        name = "packssdw" if bits == 16 else "packsswb" if signed else "packuswb"
        full = {128: f"sse2.{name}.128", 256: f"avx2.{name}", 512: f"avx512.{name}.512"}[bits * count]
        return v.b.call(v.declare(f"llvm.x86.{full}", kind, [x.type, y.type]), [x, y])
    assert bits * count == 128
    both = v.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, count), list(range(count))))
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for limit, clamp in ((low, "smax"), (high, "smin")):
        both = binary(v, clamp, both, ir.Constant(both.type, [limit] * count))
    return v.b.trunc(both, kind)


@both
def pack_bytes(v: Vector, words: Sequence[Any], zero: Any, signed: bool = False) -> Any:
    """Up to four i32 vectors, each plus the i16 vector `zero`, saturated to u8 or s8, as one i8 vector."""
    four = [*words, *[words[-1]] * (4 - len(words))] if len(words) != 2 else [*words, *words]
    pairs = [pack(v, four[0], four[1])]
    pairs += pairs if len(words) <= 2 else [pack(v, four[2], four[3])]
    pairs = [binary(v, "sadd.sat", pair, zero) for pair in pairs]
    return pack(v, pairs[0], pairs[1], signed)


@both
def to_bytes(
    v: Vector,
    zero: Any,
    low: Any = None,
    high: Any = None,
    signed: bool = False,
    whole: Callable[[Vector, Any], Any] = round_to_int,
) -> Callable[[Sequence[Any]], Any]:
    """What makes u8 or s8 of up to four f32 vectors, in the order of `pack_bytes`: clamp(whole(x) + zero, low, high).

    zero, low and high: int64s, numbers of the type that is stored; without low and high, the limits of that type.
    """
    b, sign = v.b, "s" if signed else "u"
    zeros = v.splat(b.trunc(zero, I16), 2 * v.lanes)
    limits = [] if low is None else [("max", low), ("min", high)]
    bounds = [(f"{sign}{name}", v.splat(b.trunc(limit, I8), 4 * v.lanes)) for name, limit in limits]

    def rounded(vectors: Sequence[Any]) -> Any:
        stored = pack_bytes(v, [whole(v, x) for x in vectors], zeros, signed)
        for clamp, bound in bounds:
            stored = binary(v, clamp, stored, bound)
        return stored

    return rounded


@both
def in_order(v: Vector, packed: Any, count: int = 4) -> Any:
    """The bytes of the first `count` vectors that `pack_bytes` took, one vector's behind the other's."""
    words = v.b.bitcast(packed, v.itype)
    order = [4 * i + j for j in range(count) for i in range(v.lanes // 4)]
    lanes = ir.Constant(ir.VectorType(I32, len(order)), order)
    turned = v.b.shuffle_vector(words, ir.Constant(v.itype, ir.Undefined), lanes)
    return v.b.bitcast(turned, ir.VectorType(I8, 4 * len(order)))

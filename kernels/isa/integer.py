"""Integer instructions of int8 kernels: multiply-add of bytes, rounding, and packing to bytes.

Vectors are as wide as the tier's: <lanes x i32>, and as many bits of i16 or i8. Packing works within 128 bits, as
x86's does: dword 4 * i + j of `pack_bytes` holds elements 4 * i.. of the j-th vector.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from .vector import I8, I16, I32, Vector

_GREATEST = 2.0**31 - 128
"""The greatest f32 that is an i32."""
_X86 = platform.machine().lower() in ("x86_64", "amd64")


def bytes_type(v: Vector) -> Any:
    return ir.VectorType(I8, 4 * v.lanes)


def halves_type(v: Vector) -> Any:
    return ir.VectorType(I16, 2 * v.lanes)


def dot_bytes(v: Vector, sums: Any, a: Any, w: Any) -> Any:
    """sums + the products of u8 `a` and s8 `w`, four to a lane, all i32 vectors (vpdpbusd; tiers with vnni)."""
    kind, wide = bytes_type(v), v.lanes * 32
    fn = v.declare(f"llvm.x86.avx512.vpdpbusd.{wide}", v.itype, [v.itype, kind, kind])
    return v.b.call(fn, [sums, v.b.bitcast(a, kind), v.b.bitcast(w, kind)])


def split_bytes(v: Vector, a: Any) -> tuple[Any, Any]:
    """Bytes 0 and 2, and bytes 1 and 3, of each lane of an i32 vector, as i16."""
    kind = halves_type(v)
    halves = v.b.bitcast(a, kind)
    low = v.b.and_(halves, ir.Constant(kind, [255] * kind.count))
    return low, v.b.lshr(halves, ir.Constant(kind, [8] * kind.count))


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


def binary(v: Vector, name: str, x: Any, y: Any) -> Any:
    """An overloaded LLVM intrinsic of two integer vectors: "umax", "umin", "smax", "sadd.sat" ..."""
    fn = v.declare(f"llvm.{name}.v{x.type.count}i{x.type.element.width}", x.type, [x.type, x.type])
    return v.b.call(fn, [x, y])


def pack_halves(v: Vector, x: Any, y: Any) -> Any:
    """Two i32 vectors as one of i16, saturated."""
    return _pack(v, "packssdw", x, y, halves_type(v), -32768, 32767)


def pack_bytes(v: Vector, words: Sequence[Any], zero: Any) -> Any:
    """Up to four i32 vectors, each plus the i16 vector `zero`, saturated to u8, as one i8 vector."""
    four = [*words, *[words[-1]] * (4 - len(words))] if len(words) != 2 else [*words, *words]
    pairs = [pack_halves(v, four[0], four[1])]
    pairs += pairs if len(words) <= 2 else [pack_halves(v, four[2], four[3])]
    pairs = [binary(v, "sadd.sat", pair, zero) for pair in pairs]
    return _pack(v, "packuswb", pairs[0], pairs[1], bytes_type(v), 0, 255)


def _pack(v: Vector, name: str, x: Any, y: Any, kind: Any, low: int, high: int) -> Any:
    if _X86:
        full = {4: f"sse2.{name}.128", 8: f"avx2.{name}", 16: f"avx512.{name}.512"}[v.lanes]
        return v.b.call(v.declare(f"llvm.x86.{full}", kind, [x.type, y.type]), [x, y])
    assert v.lanes == 4
    wide = ir.VectorType(x.type.element, kind.count)
    order = ir.Constant(ir.VectorType(I32, kind.count), list(range(kind.count)))
    both = v.b.shuffle_vector(x, y, order)
    for limit, clamp in ((low, "smax"), (high, "smin")):
        both = binary(v, clamp, both, ir.Constant(wide, [limit] * kind.count))
    return v.b.trunc(both, kind)


def splat(v: Vector, scalar: Any, count: int) -> Any:
    """An integer scalar in each of `count` lanes."""
    undef = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    one = v.b.insert_element(undef, scalar, I32(0))
    return v.b.shuffle_vector(one, undef, ir.Constant(ir.VectorType(I32, count), [0] * count))

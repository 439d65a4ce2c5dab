"""Instructions of every CPU, as LLVM's own IR. An instruction set is a class that overrides some of them.

A vector is one of the tier's registers by default. To add an instruction set: a class like those of x86_avx2.py, and a
row in tiers.py that names it.
"""

from __future__ import annotations

from ..lang import F32, I32, I64, Mistake, Type, Value, called, choose, integer, intrinsic, shuffle

GREATEST = 2.0**31 - 128
"""The greatest f32 that is an i32."""


class Generic:
    """Plain IR."""

    def dot_bytes(self, sums: Value, a: Value, w: Value) -> Value:
        """sums + the products of u8 `a` and s8 `w`, four to a lane of int32; tiers with `byte_dot` have it."""
        raise Mistake(f"{type(self).__name__} has no product of bytes")

    def pair_sums(self, a: Value, w: Value) -> Value:
        """The int16 sums of the two products of u8 `a` and s8 `w` in each 16 bits, saturated; tiers with `byte_shuffle`
        have it.
        """
        raise Mistake(f"{type(self).__name__} has no sums of two products of bytes")

    def dot_halves(self, a: Value, w: Value) -> Value:
        """The int32 sums of the two products of int16 in each 32 bits."""
        even, odd = (range(first, a.lanes, 2) for first in (0, 1))
        low, high = (shuffle(a, part).to(I32) * shuffle(w, part).to(I32) for part in (even, odd))
        return low + high

    def round_to_int(self, x: Value, within: bool = False) -> Value:
        """f32 to int32, halves to even, held within int32; NaN becomes the least. within: none is 2**31 or more."""
        x = x if within else choose(x.type(GREATEST) < x, GREATEST, x)
        x = choose(x > -(2.0**31), x, -(2.0**31))
        return intrinsic("roundeven", x).to(I32)

    def pack(self, x: Value, y: Value, signed: bool = True) -> Value:
        """Two vectors of signed integers as one of elements half as wide, saturated to signed or unsigned numbers: x's,
        then y's, within 128 bits. As wide as a register, or half or a quarter of one.
        """
        kind = packed_type(x, signed)
        if kind.size != 16:
            raise Mistake(f"a vector of 128 bits is packed, {kind} has {8 * kind.size}")
        both = shuffle(x, range(2 * x.lanes), y)
        low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if signed else (0, (1 << kind.bits) - 1)
        return intrinsic("smin", intrinsic("smax", both, low), high).to(kind)

    def shuffle_bytes(self, table: Value, index: Value) -> Value:
        """The bytes of `table` that the low four bits of `index` name, within 128 bits; 0 where an index is below 0.
        Tiers with `byte_shuffle` have it.
        """
        raise Mistake(f"{type(self).__name__} has no shuffle of bytes")

    def gathered(self, address: Value, offsets: Value) -> Value:
        """The int32 at so many bytes (int32) from an address."""
        found = offsets.type.undefined()
        for lane in range(offsets.lanes):
            found = found.with_lane(lane, I32[address + offsets[lane].to(I64)])
        return found

    def permute(self, pixel: Value, index: Value) -> Value:
        """The f32 at a pointer, or bytes as int32, that the lanes of `index` (int32, below their number) name."""
        number = F32 if pixel.type.target is F32 else I32
        found = number.like(index.type).undefined()
        for i in range(index.lanes):
            found = found.with_lane(i, pixel[index[i].unsigned.to(I64)].to(number))
        return found

    # -- the processor

    tenth = 1 << 21
    """The ticks of `clock` in about a tenth of a second."""

    def clock(self) -> Value:
        """A counter of constant rate, an int64."""
        return called("llvm.readsteadycounter", I64)

    def pause(self) -> None:
        """Tell the core that this thread spins."""

    def flush_denormals(self) -> Value:
        """Flush denormals to zero, where supported; returns the mode to restore, an int64."""
        return I64(0)

    def restore_mode(self, before: Value) -> None:
        """Restore a mode that `flush_denormals` returned."""


def packed_type(x: Value, signed: bool) -> Type:
    return integer(x.type.bits // 2, signed).vector(2 * x.lanes)

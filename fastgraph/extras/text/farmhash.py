"""FarmHash's 64-bit fingerprint of bytes, as LSH_PROJECTION uses it. Semantics: google/farmhash, `Fingerprint64`."""

from __future__ import annotations

K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
MASK = (1 << 64) - 1


def _word(data: bytes, at: int, size: int = 8) -> int:
    """The little-endian number of `size` bytes at `at`; a negative place counts from the end."""
    at += len(data) if at < 0 else 0
    return int.from_bytes(data[at : at + size], "little")


def _turn(value: int, by: int) -> int:
    """Rotated right."""
    value &= MASK
    return (value >> by | value << (64 - by)) & MASK


def _fold(value: int) -> int:
    value &= MASK
    return value ^ value >> 47


def _mix(u: int, v: int, mul: int) -> int:
    a = _fold((u ^ v) * mul)
    return _fold((v ^ a) * mul) * mul & MASK


def _short(data: bytes) -> int:
    """The fingerprint of up to 16 bytes."""
    n = len(data)
    mul = K2 + 2 * n
    if n >= 8:
        a, b = _word(data, 0) + K2, _word(data, -8)
        return _mix((_turn(b, 37) * mul + a) & MASK, (_turn(a, 25) + b) * mul & MASK, mul)
    if n >= 4:
        return _mix(n + (_word(data, 0, 4) << 3), _word(data, -4, 4), mul)
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[-1] << 2)
        return _fold(y * K2 & MASK ^ z * K0 & MASK) * K2 & MASK
    return K2


def _pair(data: bytes, mul: int) -> tuple[int, int, int]:
    """The start for lengths from 17 to 64: a, and the two numbers to be mixed."""
    a, b = _word(data, 0) * K1 if len(data) <= 32 else _word(data, 0) * K2, _word(data, 8)
    c, d = _word(data, -8) * mul, _word(data, -16) * K2
    return a, (_turn(a + b, 43) + _turn(c, 30) + d) & MASK, (a + _turn(b + K2, 18) + c) & MASK


def _middle(data: bytes) -> int:
    """The fingerprint of 17 to 64 bytes."""
    mul = K2 + 2 * len(data)
    a, y, z = _pair(data, mul)
    mixed = _mix(y, z, mul)
    if len(data) <= 32:
        return mixed
    e, f = _word(data, 16) * mul, _word(data, 24)
    g, h = (y + _word(data, -32)) * mul, (mixed + _word(data, -24)) * mul
    return _mix((_turn(e + f, 43) + _turn(g, 30) + h) & MASK, (e + _turn(f + a, 18) + g) & MASK, mul)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(data, at + 8 * i) for i in range(4))
    a += w
    b = _turn(b + a + z, 21)
    c = a
    a += x + y
    return (a + z) & MASK, (b + _turn(a, 44) + c) & MASK


def _long(data: bytes) -> int:
    """More than 64 bytes: 64 at a time, then the last 64 once more."""
    n = len(data)
    y = 81 * K1 + 113
    z = _fold(y * K2 + 113) * K2
    x = 81 * K2 + _word(data, 0)
    v, w = (0, 0), (0, 0)
    last = (n - 1) // 64 * 64

    def turn(at: int, mul: int, by: int) -> None:
        nonlocal x, y, z, v, w
        x = _turn(x + y + v[0] + _word(data, at + 8), 37) * mul & MASK
        y = _turn(y + v[1] + _word(data, at + 48), 42) * mul & MASK
        x ^= w[1] * by & MASK
        y = y + v[0] * by + _word(data, at + 40) & MASK
        z = _turn(z + w[0], 33) * mul & MASK
        v = _weak(data, at, v[1] * mul, x + w[0])
        w = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
        z, x = x, z

    for at in range(0, last, 64):
        turn(at, K1, 1)
    mul = K1 + ((z & 0xFF) << 1)
    w = (w[0] + ((n - 1) & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    turn(n - 64, mul, 9)
    first = _mix(v[0], w[0], mul) + _fold(y) * K0 + z & MASK
    return _mix(first, _mix(v[1], w[1], mul) + x & MASK, mul)


def fingerprint(data: bytes) -> int:
    """The 64-bit fingerprint, from 0 to 2**64 - 1."""
    return _short(data) if len(data) <= 16 else _middle(data) if len(data) <= 64 else _long(data)

"""The rounds of Philox 4x32-10 and Threefry 2x32-20, on words of 32 bits held in 64: a kernel's values or arrays."""

from __future__ import annotations

from typing import Any

TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def low(x: Any) -> Any:
    return x & 0xFFFFFFFF


def halves(x: Any) -> tuple[Any, Any]:
    """The two words of 64 bits."""
    return low(x), x >> 32


def philox(counter: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Four words of a counter of four and a key of two."""
    c, (key0, key1) = counter, key
    for _ in range(10):
        x, y = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [y >> 32 ^ c[1] ^ key0, low(y), x >> 32 ^ c[3] ^ key1, low(x)]
        key0, key1 = low(key0 + 0x9E3779B9), low(key1 + 0xBB67AE85)
    return c


def threefry(counter: tuple[Any, Any], key: tuple[Any, Any]) -> list[Any]:
    """Two words of a counter of two and a key of two."""
    keys = *key, key[0] ^ key[1] ^ PARITY
    x, y = low(counter[0] + keys[0]), low(counter[1] + keys[1])
    for round_ in range(5):
        for turn in TURNS[round_ % 2]:
            x = low(x + y)
            y = low(y << turn | y >> 32 - turn) ^ x
        x = low(x + keys[(round_ + 1) % 3])
        y = low(low(y + keys[(round_ + 2) % 3]) + (round_ + 1))
    return [x, y]

"""Kernels' Python as machine code does what Python does."""

import ctypes
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.build import build
from fastgraph.kernels.core.record import Record, fields
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.kernels.lang import I64, traced
from fastgraph.objects.link import link

EDGES = (0, 1, -1, 2, -2, 3, -3, 7, -8, 63, 1 << 20, -(1 << 33), (1 << 62) - 1)
SEVEN, FLAG, NOTHING = 7, True, None


def native(function: Callable[..., int]) -> Callable[[int, int, int], int]:
    """The machine code of a function of three numbers, as a function."""
    function.returns = True  # type: ignore[attr-defined]
    obj = build(function, function.__name__, BY_NAME["generic"])
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
    found: Callable[[int, int, int], int] = kind(link({function.__name__: obj})[function.__name__])
    return found


def same(function: Callable[..., int], values: Any = EDGES) -> None:
    """The same as Python computes, for all values of three arguments (modulo 2^64)."""
    compiled = native(function)
    for case in product(values, repeat=3):
        expected = np.array(int(function(*case)) & (1 << 64) - 1, np.uint64).astype(np.int64)
        assert compiled(*case) == expected, case


def arithmetic(x: int, y: int, z: int) -> int:
    return (x + y) * z - (x & y) + (x | z) - (y ^ z) + (x >> 3) - -z


def doubly_denied(x: int, y: int, z: int) -> int:
    """From Python 3.13 on one instruction, which numba takes for nothing."""
    return (not (not x)) * 100 + (not (not (y and z))) * 10 + (3 if not (not z) else 4)


def divided(x: int, y: int, z: int) -> int:
    return x // y * 1000 + x % y if y != 0 else x // 7 + x % -7 + z


def compared(x: int, y: int, z: int) -> int:
    a = x < y
    b = not x <= z
    return (
        a + 2 * b + 4 * (x == y) + 8 * (x != z) + 16 * (y > z) + 32 * (y >= z) + 64 * (x < y < z) + 128 * (x <= 3 < z)
    )


def either(x: int, y: int, z: int) -> int:
    a = x and y
    b = x or y
    c = x > 1 and (y or z > 2)
    d = y < 0 or not (x and z)
    return a + 3 * b + 7 * c + 13 * d


def branches(x: int, y: int, z: int) -> int:
    if x < y and y < z:
        result = 1
    elif x or not z:
        result, y = y, x
        result -= 3 if y > 2 else 5 if z else 9
    else:
        result = SEVEN
    first, (second, third) = (x, (y, z)) if result > 3 else (z, (x, y))
    return result + 3 * first + 5 * second + 7 * third


def loops(x: int, y: int, z: int) -> int:
    total = i = 0
    for i in range(x & 15):
        if i == 3:
            continue
        for k in range(y & 7, 12, (z & 3) + 1):
            if k > 9:
                break
            total += i * k
        total ^= i
    while True:
        total += 1
        if total & 7 == z & 7:
            break
    for k in range(5, y & 3, -2):
        total = 3 * total + k
    return total + i


def known(x: int, y: int, z: int) -> int:
    """What is known is decided: the branch not taken could not be translated."""
    if NOTHING is not None and NOTHING[x]:
        return 1
    if FLAG or x:
        x += (3, SEVEN)[1]
    if not FLAG:
        x = NOTHING + z
    return x if SEVEN == 7 and FLAG else NOTHING


def sign(x: int) -> int:
    if x > 0:
        return 1
    return -1 if x else 0


def swapped(x: int, y: int) -> tuple[int, int]:
    if x < y:
        x, y = y, x
    return x, y


def counted(x: int, step: int = 0) -> int:
    """With loops and returns within them."""
    for i in range(10):
        while x > i:
            if x == 7:
                return i
            x -= 1
    return x


def replaced(x: int, other: int) -> int:
    """What the caller knows, the function may forget."""
    if other > 0:
        x = other
    return x


def calls(x: int, y: int, z: int) -> int:
    high, low = swapped(y=y, x=sign(x))
    again = sign
    return 100 * high + low + again(z) * 10 + counted(x & 15, step=3) + sign(x < y) + replaced(3, z)


@pytest.mark.parametrize("function", [arithmetic, doubly_denied, compared, either, branches, loops, known, calls])
def test_it_computes_as_python_does(function: Callable[..., int]) -> None:
    same(function)


def test_divisions_round_down_and_by_zero_give_nothing() -> None:
    same(divided, (*EDGES, 10, -10, 1000003))

    def by_zero(x: int, y: int, z: int) -> int:
        return x // y + x % y

    assert native(by_zero)(5, 0, 0) == 0


def test_random_expressions() -> None:
    """Python's operators, nested as they fall."""
    draw = random.Random(0)

    def expression(depth: int) -> str:
        if depth == 0:
            return draw.choice(["x", "y", "z", str(draw.randrange(-9, 9))])
        one, two, three = (expression(draw.randrange(depth)) for _ in range(3))
        return draw.choice(
            [
                f"({one} {draw.choice('+-*&|^')} {two})",
                f"({one} {draw.choice(['//', '%'])} {draw.choice(['3', '-5', '(z & 7 | 1)'])})",
                f"({one} {draw.choice(['<', '<=', '==', '!=', '>', '>='])} {two})",
                f"({one} {draw.choice(['and', 'or'])} {two})",
                f"({one} if {two} else {three})",
                f"(-{one})",
                f"(not {one})",
                f"({one} < {two} <= {three})",
            ]
        )

    source = "\n\n".join(
        f"def random{i}(x, y, z):\n    a = {expression(4)}\n    x = {expression(5)}\n    return a + x"
        for i in range(60)
    )
    for function in from_file(source).values():
        same(function, (0, 1, -1, 5, -4))


def from_file(source: str) -> dict[str, Any]:
    """Functions of a file that is written for them: it is read again."""
    import importlib.util
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "written.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: each for name, each in vars(module).items() if callable(each)}


def test_records_tuples_and_what_is_traced() -> None:
    record = Record(a="", b="", c="")

    @traced
    def both(r: Any, x: Any) -> Any:
        return r.a + x, r.b - x

    def pick(r: Any, x: int) -> Any:
        return both(r, x=x)

    def kernel(args: int, thread: int, threads: int) -> int:
        r = fields(args, record)
        low, high = pick(r, thread)
        both(x=1, r=r)
        return low * 100 + high * 10 + r.c + I64[args + 8 * threads] + both(r, thread)[0]

    words = np.array([3, 5, 7], np.int64)
    assert native(kernel)(words.ctypes.data, 2, 1) == 5 * 100 + 3 * 10 + 7 + 5 + 5


def maybe(x: int) -> Any:
    if x:
        return x


REFUSED = {
    "return sum([x, y])": "kernel code has no sum",
    "y = x + 1.5; return y": "kernel code computes with int64s and with values of lang, a number like 1.5 is neither",
    "return x / y": "kernel code has no truediv",
    "a, b = swapped(x, y) if x else (x, y, z); return a": "Cannot unify UniTuple(int64 x 2) and UniTuple(int64 x 3)",
    "return sign(x, y)": "sign(x) is called with 2 values",
    "return x + nothing": "the name 'nothing' is not defined",
    "return wrong(x, y, z) if x else y": "wrong calls itself",
    'return "x"': "No conversion from Literal[str](x) to int64",
    "return x.size": "Unknown attribute 'size' of type int64",
}
"""What kernels cannot be written in, and what is said of it."""


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_refused_has_its_place(code: str) -> None:
    helpers = f"from {__name__} import sign, swapped\n"
    wrong = from_file(f"{helpers}def wrong(x, y, z):\n    {code}\n")["wrong"]
    with pytest.raises(TypeError, match=rf"written.py:\d+: in wrong: {re.escape(REFUSED[code])}") as error:
        native(wrong)
    assert str(error.value).count("written.py:") == 1


def test_what_a_called_function_does_wrong_has_its_place() -> None:
    def sometimes(x: int, y: int, z: int) -> int:
        y = x + maybe(z)
        return y

    said = "it returns a value in one place, and nothing in another"
    with pytest.raises(TypeError, match=rf"test_front.py:\d+: in maybe: {said}"):
        native(sometimes)


def of_itself(x: int, y: int, z: int) -> int:
    return of_itself(x, y, z) if x else y


def test_errors_of_traced_code_have_its_place() -> None:
    @traced
    def wrong(x: Any) -> Any:
        y = x + 1
        return y + 1.5

    def kernel(x: int, y: int, z: int) -> int:
        y += z
        return wrong(x)

    line = wrong.__code__.co_firstlineno + 3
    with pytest.raises(TypeError, match=rf"test_front.py:{line}: in wrong: add of i64 and 1.5"):
        native(kernel)


def test_what_a_record_lacks_is_named() -> None:

    record = Record(a="", b="")

    def kernel(args: int, y: int, z: int) -> int:
        return fields(args, record).c

    with pytest.raises(TypeError, match="the record has no slot 'c'; it has a, b"):
        native(kernel)


def test_the_same_kernel_has_the_same_bytes() -> None:
    """Whatever was compiled before it."""
    first = build(native_of_loops(), "same", BY_NAME["generic"])
    native(calls)
    assert build(native_of_loops(), "same", BY_NAME["generic"]) == first


def native_of_loops() -> Callable[..., int]:
    def kernel(x: int, y: int, z: int) -> int:
        return loops(x, y, z) + calls(z, y, x)

    kernel.returns = True  # type: ignore[attr-defined]
    return kernel


def test_threads_compile_at_once() -> None:
    """And what failed leaves nothing behind."""
    expected = build(native_of_loops(), "same", BY_NAME["generic"])
    with pytest.raises(TypeError):
        native(of_itself)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: build(native_of_loops(), "same", BY_NAME["generic"]), range(12)))
    assert set(found) == {expected}

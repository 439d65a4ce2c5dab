"""Values with operators: what they compute, how they pass through numba, and what their mistakes say."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.build import build
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier, usable
from fastgraph.kernels.lang import (
    F32,
    I32,
    I64,
    U8,
    Mistake,
    along,
    below,
    choose,
    constant,
    divide,
    during,
    fma,
    over,
    register,
    registers,
    share,
    smaller,
    total,
    traced,
    when,
)
from fastgraph.objects.link import link
from tests.kernels.harness import calling


def run(kernel: Callable, tier: Tier, *words: int) -> None:
    """Run a kernel on a record of int64s, in two parts."""
    obj = build(kernel, "kernel", tier)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(link({"kernel": obj})["kernel"])
    record = np.array(words, np.int64)
    for thread in (0, 1):
        call(record.ctypes.data, thread, 2)


@pytest.fixture(params=[tier for tier in TIERS if tier in usable()], ids=lambda tier: tier.name)
def tier(request: Any) -> Tier:
    return request.param


def address(x: np.ndarray) -> int:
    return x.ctypes.data


def test_kernel_code_computes_with_vectors_that_numba_carries_through_loops(tier: Tier) -> None:
    f32 = F32.vector(tier.lanes)

    @traced
    def word(args: Any, index: Any) -> Any:
        return I64.at(args)[index]

    def smooth(args, thread, threads):
        x, y, n, times = word(args, 0), word(args, 1), word(args, 2), word(args, 3)
        first, end = share(divide(n, f32.lanes), thread, threads)
        for block in range(first, end):
            at = 4 * f32.lanes * block
            last = f32[x + at]
            for _t in range(1, times):
                at += 4 * n
                last = 0.25 * last + (1 - 0.25) * f32[x + at]
            f32[y + 4 * f32.lanes * block] = -last

    n, times = 4 * tier.lanes, 5
    x = np.random.default_rng(0).standard_normal((times, n)).astype(np.float32)
    y = np.zeros(n, np.float32)
    run(smooth, tier, address(x), address(y), n, times)
    expected = x[0]
    for row in x[1:]:
        expected = np.float32(0.25) * expected + np.float32(0.75) * row
    np.testing.assert_array_equal(y, -expected)


def test_masks_sums_and_branches(tier: Tier) -> None:
    f32 = F32.vector(tier.lanes)

    @traced
    def norm(args: Any) -> None:
        x, y, n = (I64.at(args)[i] for i in range(3))
        squares = total(f32, n, 0.0, lambda a, b: a + b, lambda v, i, mask: v[x + 4 * i, mask] * v[x + 4 * i, mask])
        scale = register(F32(1))
        with when(squares > 4.0):
            scale.value = 2.0 / squares
        for v, i, mask in along(f32, 0, n):
            v[y + 4 * i, mask] = choose(v[x + 4 * i, mask] < 0, 0.0, v[x + 4 * i, mask] * scale.value)

    def kernel(args, thread, threads):
        if thread == 0:
            norm(args)

    for n in (1, 3, 4 * tier.lanes + 1, 5 * tier.lanes + 3):
        x = np.arange(-1, n - 1).astype(np.float32)
        y = np.full(n + 1, 7, np.float32)
        run(kernel, tier, address(x), address(y), n)
        scale = np.float32(2) / np.float32((x * x).sum()) if (x * x).sum() > 4 else np.float32(1)
        np.testing.assert_allclose(y[:n], np.where(x < 0, 0, x * scale), rtol=1e-6)
        assert y[n] == 7


@pytest.mark.parametrize("number", [U8, I32, F32], ids=str)
def test_stores_of_first_lanes_touch_no_others(tier: Tier, number: Any) -> None:
    """Of any number of lanes, which may be negative, or more than there are."""
    kind = number.vector(32 // number.size)

    @traced
    def store(args: Any) -> None:
        record = I64.at(args)
        kind[record[0], kind.below(record[1])] = kind(range(1, kind.lanes + 1))

    for count in range(-2, kind.lanes + 3):
        found = np.zeros(kind.lanes + 1, {"u8": np.uint8, "i32": np.int32, "f32": np.float32}[number.name])
        run(calling(store), tier, address(found), count)
        stored = min(max(count, 0), kind.lanes)
        assert found.tolist() == [*range(1, stored + 1), *[0] * (len(found) - stored)]


def test_integers_follow_their_signs(tier: Tier) -> None:
    @traced
    def numbers(args: Any) -> None:
        x, y = (I64.at(args)[i] for i in range(2))
        byte = U8[x]
        out = I64.at(y)
        out[0] = byte.to(I64)
        out[1] = byte.signed.to(I64)
        out[2] = (byte >> 1).to(I64)
        out[3] = (byte.signed >> 1).to(I64)
        out[4] = below(byte.signed.to(I64), 256).to(I64)
        out[5] = (byte.signed.to(F32) * 2).to(I64)
        out[6] = (F32(1.5).bits(I32)).to(I64)
        out[7] = smaller(I64(3), -4)

    x, y = np.array([200], np.uint8), np.zeros(8, np.int64)
    run(calling(numbers), tier, address(x), address(y))
    assert y.tolist() == [200, -56, 100, -28, 0, -112, 0x3FC00000, -4]


def test_registers_in_a_loop(tier: Tier) -> None:
    f32 = F32.vector(tier.lanes)

    @traced
    def powers(args: Any) -> None:
        y, n = (I64.at(args)[i] for i in range(2))
        sums = registers([f32(1.0)] * 3)
        for i in over(n):
            for k in range(3):
                sums[k] = fma(sums[k], float(k), f32(i.to(F32)))
        for k in range(3):
            f32[y + 4 * f32.lanes * k] = sums[k]

    y = np.zeros((3, tier.lanes), np.float32)
    run(calling(powers), tier, address(y), 4)
    expected = [math.prod([k] * 4) + sum(k ** (3 - i) * i for i in range(4)) for k in range(3)]
    assert y[:, 0].tolist() == expected
    assert (y == y[:, :1]).all()


def test_loops_as_long_as_a_condition_or_a_lane_holds(tier: Tier) -> None:
    i32 = I32.vector(tier.lanes)

    @traced
    def counted(args: Any) -> None:
        y, n = (I64.at(args)[i] for i in range(2))
        left, turns, lanes = (
            register(n),
            register(I64(0)),
            register(constant(I32.vector(tier.lanes), range(tier.lanes))),
        )
        for _ in during(lambda: left.value > 0):
            left.value = left.value >> 1
            turns.value = turns.value + 1
        for less in during(lambda: lanes.value < n.to(I32)):
            lanes.value = choose(less, lanes.value + 3, lanes.value)
        I64[y] = turns.value
        i32[y + 8] = lanes.value

    def kernel(args, thread, threads):
        if thread == 0:
            counted(args)

    for n in (0, 1, 5, 8):
        y = np.zeros(2 + tier.lanes, np.int32)
        run(kernel, tier, address(y), n)
        assert y[0] == n.bit_length()
        assert y[2:].tolist() == [i if i >= n else i + -(-(n - i) // 3) * 3 for i in range(tier.lanes)]


X = "kernel code, no test"


def mistake(body: Callable) -> str:
    """What is said of a traced function that a kernel calls."""
    with pytest.raises(TypeError) as found:
        build(calling(traced(body)), "kernel", BY_NAME["avx2"])
    return str(found.value)


def test_mistakes_say_what_to_do_and_where() -> None:
    f32, i32 = F32.vector(8), I32.vector(8)

    def unlike(args: Any) -> Any:
        return f32[args] + i32[args]

    def divided(args: Any) -> Any:
        return args // 2

    def branched(args: Any) -> Any:
        return 1 if args > 2 else 0

    def narrow(args: Any) -> Any:
        return f32[args, F32.vector(4).below(args)]

    for body, text in (
        (unlike, "add of f32 x 8 and i32 x 8: convert one of them"),
        (divided, "divide(x, y) and remainder(x, y)"),
        (branched, "write choose(...) or when(...)"),
        (narrow, "f32 x 8 takes a mask of 8 lanes, not u1 x 4"),
    ):
        said = mistake(body)
        line = body.__code__.co_firstlineno + 1
        assert text in said
        assert f"test_lang.py:{line}: in {body.__name__}: " in said, said


def test_a_mistake_outside_of_a_kernel() -> None:
    with pytest.raises(Mistake, match="use Python's if"), when(False):
        pass

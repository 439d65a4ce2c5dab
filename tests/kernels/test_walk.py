"""Walked chains give the bits of the same chain as one expression, and what NumPy says where that is exact."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_bf16 import rounded
from fastgraph.kernels.isa.math import OPS
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, has_pairs
from fastgraph.kernels.lang import F32, I64, Value, along, traced
from fastgraph.kernels.pointwise.chain import emit_chain
from fastgraph.kernels.pointwise.elementwise_shape import broadcast, loops, strides_of
from fastgraph.kernels.pointwise.steps import COMPOSED, NUMBERS, ROUNDED, pattern
from fastgraph.plan.lower.emit import _kernel
from fastgraph.plan.lower.epilogue import ending
from fastgraph.plan.lower.steps import steps_of
from fastgraph.plan.lower.walk import Out, _form, _hashable, f32_bits
from tests.kernels.harness import calling, each_tier, run
from tests.kernels.meanings import eval_chain
from tests.kernels.walking import elementwise

PAIRED = BY_NAME["avx512"]
needs_pairs = pytest.mark.skipif(not has_pairs(PAIRED), reason="no avx512bf16")

EXACT = {"add", "sub", "mul", "div", "min", "max", "abs", "neg", "relu", "clip", "where", "square", "sqrt", "sign",
         "equal", "less", "less_or_equal", "greater", "greater_or_equal", "not_equal", "is_nan", "is_inf", "not", "and",
         "or", "xor", "leaky_relu", "prelu", "floor", "ceil", "round"}  # fmt: skip
"""Operations of which each has one result in f32."""
LIKELY = ("add", "mul", "sub", "div", "relu", "sigmoid", "clip", "max", "min", "pow", "erf")
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 3.0, -2.0, 0.044715, 6.0, float("inf"), -0.5)
SPECIAL = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 3e38, 1e-39, -1e-45, 100, -100])


def whole(tier: Any, chain: tuple, inputs: int) -> Callable:
    """A kernel for a chain with all its numbers, over dense inputs; its record: y, n, the inputs."""

    @traced
    def body(args: Value) -> None:
        y, n, *xs = (I64.at(args)[i] for i in range(2 + inputs))
        for f32, i, mask in along(F32.vector(tier.lanes), 0, n):
            f32[y + 4 * i, mask] = emit_chain(f32, chain, [f32[x + 4 * i, mask] for x in xs])

    return calling(body)


@st.composite
def chains(draw: Any, inputs: int) -> tuple:
    """Up to nine steps; each takes some value, the last one most likely."""
    steps: list[tuple] = []
    for i in range(draw(st.integers(1, 9))):
        name = draw(st.one_of(st.sampled_from(LIKELY), st.sampled_from(sorted(OPS))))
        count, last = OPS[name].arity, inputs + i - 1
        operands: list[Any] = []
        for k in range(count):
            number = k >= count - NUMBERS.get(name, 0) or name == "selu" and k > 0
            if number or (k and draw(st.integers(0, 3)) == 0):
                operands.append(draw(st.sampled_from(FLOATS)))
            else:
                operands.append(last if draw(st.booleans()) else draw(st.integers(0, last)))
        if name in ("add", "mul", "max", "min", "sub", "greater") and draw(st.integers(0, 3)) == 0:
            operands.reverse()
        steps.append((name, *operands))
    return tuple(steps)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """All alike but for which NaN it is."""
    return bool(np.all((one.view(np.int32) == other.view(np.int32)) | (np.isnan(one) & np.isnan(other))))


COLUMNS = st.one_of(st.integers(1, 17), st.integers(1, 300))
"""Rows shorter than a vector are walked in a loop of their own."""
SHAPES = {"full": (1, 1, 1), "channel": (0, 0, 1), "row": (1, 1, 0), "plane": (1, 0, 0), "one": (0, 0, 0)}


@each_tier
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_chains(tier, data):
    draw = data.draw
    dims = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(COLUMNS)
    if draw(st.integers(0, 4)) == 0:
        dims = dims[0], 40, 70  # more than a block
    spread = ["full", *draw(st.lists(st.sampled_from(sorted(SHAPES)), max_size=3))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    xs = []
    for kind in spread:
        shape = tuple(d if keep else 1 for d, keep in zip(dims, SHAPES[kind], strict=True))
        x = np.asarray(rng.standard_normal(shape) * 3, np.float32)
        x.reshape(-1)[: len(SPECIAL)] = SPECIAL[: x.size]
        xs.append(np.ascontiguousarray(rng.permuted(x)))
    chain = draw(chains(len(xs)))
    plan = loops(dims, strides_of(dims), [broadcast(x.shape, strides_of(x.shape), dims) for x in xs])
    assert plan is not None
    y = xs[0] if draw(st.booleans()) else np.full(dims, 7, np.float32)  # in place, or not
    threads, offset = draw(st.integers(1, 3)), draw(st.sampled_from([0, 4, 20]))
    got = elementwise(chain, plan, y, xs, tier, threads, offset).reshape(dims)
    spreads = [np.ascontiguousarray(np.broadcast_to(x, dims)) for x in xs]
    want = run(whole, {"chain": chain, "inputs": len(xs)}, [np.zeros(dims, np.float32), y.size, *spreads], tier)[0]
    assert same_bits(got, want), steps_of(chain, ["f32"] * len(xs))
    if {name for name, *_ in chain} <= EXACT:
        assert np.array_equal(got, np.broadcast_to(eval_chain(chain, xs), dims), equal_nan=True)


@each_tier
@pytest.mark.parametrize("step", ["grid", "mul_grid"])
def test_whole_numbers_times_a_scale(tier, step):
    """One step for results of 16 bits: halves go to even, limits hold, NaN stays."""
    chain, elements = numbered(step)
    numbers = iter([-6.0, 5.0, 0.3] if step == "grid" else [3.7, -6.0, 5.0, 0.3])
    chain = tuple((name, *(next(numbers) if isinstance(o, float) else o for o in rest)) for name, *rest in chain)
    assert [name for name, *_ in steps_of(chain, elements)] == [step]
    for dims in ((2, 3, 1), (1, 2, 5), (2, 1, 16), (1, 3, 37), (2, 40, 70)):
        rng = np.random.default_rng(dims[-1])
        xs = [np.asarray(rng.integers(-40, 40, dims) / 4, np.float32) for _ in elements]
        for x in xs:
            x.reshape(-1)[: len(SPECIAL)] = SPECIAL[: x.size]
        plan = loops(dims, strides_of(dims), [strides_of(dims)] * len(xs))
        assert plan is not None
        with np.errstate(all="ignore"):
            want = eval_chain(chain, xs)
        got = elementwise(chain, plan, np.zeros(dims, np.float32), xs, tier, 2).reshape(dims)
        assert np.array_equal(got, want, equal_nan=True)


@needs_pairs
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_elements_of_bf16(data):
    """They are read as f32, and a result is the nearest to what the chain gives of these."""
    draw = data.draw
    dims = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(COLUMNS)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    xs, wide = [], []
    for kind in ["full", *draw(st.lists(st.sampled_from(sorted(SHAPES)), max_size=2))]:
        shape = tuple(d if keep else 1 for d, keep in zip(dims, SHAPES[kind], strict=True))
        x = np.asarray(rng.standard_normal(shape) * 3, np.float32)
        narrow = draw(st.booleans())
        wide.append(widened(rounded(x)) if narrow else x)
        xs.append(rounded(x).view(BFLOAT16) if narrow else x)
    chain = draw(st.one_of(st.sampled_from([(("mul", 0, len(xs) - 1),), (("add", len(xs) - 1, 0),)]), chains(len(xs))))
    plan = loops(dims, strides_of(dims), [broadcast(x.shape, strides_of(x.shape), dims) for x in xs])
    assert plan is not None
    threads, offset = draw(st.integers(1, 3)), draw(st.sampled_from([0, 4, 20]))
    exact = elementwise(chain, plan, np.zeros(dims, np.float32), wide, PAIRED, threads, offset).reshape(dims)
    if draw(st.booleans()):
        same = elementwise(chain, plan, np.zeros(dims, np.float32), xs, PAIRED, threads, offset).reshape(dims)
        assert same_bits(same, exact)
        return
    y = np.full(dims, 7, np.uint16).view(BFLOAT16)
    got = elementwise(chain, plan, y, xs, PAIRED, threads, offset, Out("bf16")).view(np.uint16).reshape(dims)
    exact[np.abs(exact) < np.finfo(np.float32).tiny] *= 0  # as the CPU rounds
    assert np.array_equal(widened(got), widened(rounded(exact)), equal_nan=True)


def numbered(step: str) -> tuple[tuple, list[str]]:
    """What a composed step is made of, with numbers for those of its operands that are to be numbers; its types."""
    found, kinds = pattern(COMPOSED[step]), [*COMPOSED[step].elements, *["number"] * 3]
    places = {i: i - kinds[:i].count("number") for i, kind in enumerate(kinds) if kind != "number"}
    count, tensors = COMPOSED[step].arity, len([k for k in kinds if k != "number"])
    moved = [(name, *(o if isinstance(o, float) else places[o] if o in places and o < count else o - count + tensors
                      if o >= count else 0.5 + o for o in operands)) for name, *operands in found]  # fmt: skip
    return tuple(moved), [k for k in kinds if k != "number"]


@pytest.mark.parametrize("step", COMPOSED)
def test_steps_that_follow_one_another_become_one(step):
    chain, elements = numbered(step)
    loads = {len(elements) + i: o for i, (name, o, *_) in enumerate(chain) if name.startswith("load_")}
    inner = [s for s in chain if not str(s[0]).startswith(("load_", "store_", "round_"))]
    moved = [(n, *(loads.get(o, o - len(loads) if o >= len(elements) else o) if isinstance(o, int) else o for o in r))
             for n, *r in inner]  # fmt: skip
    out, bounded = COMPOSED[step].out, COMPOSED[step].bounded
    rounding = (1.0, -2.0, 3.0) if out in ROUNDED else ()
    found = steps_of(tuple(moved), elements, out, rounding, bounded)
    assert [name for name, *_ in found] == [step]


def test_numbers_stay_numbers():
    nan = float("nan")
    assert steps_of((("max", 0, 1.0),), ["f32"]) == (("clip", 0, 1.0, float("inf")),)
    assert steps_of((("min", 2.0, 0),), ["f32"]) == (("clip", 0, float("-inf"), 2.0),)
    assert steps_of((("min", 0, nan),), ["f32"])[0][0] == "min"
    assert [s[0] for s in steps_of((("clip", 0, 1, 2.0),), ["f32", "f32"])] == ["max", "clip"]
    assert steps_of((("exp", 0), ("relu", 0)), ["f32"]) == (("relu", 0),), "what nobody needs is left out"
    assert steps_of((), ["u8"]) == (("load_u8", 0),)


@each_tier
def test_blocks_of_a_wide_row(tier):
    """Rows longer than a block, with more temporaries than registers would hold."""
    x = np.asarray(np.random.default_rng(0).standard_normal((2, 5000)), np.float32)
    chain = tuple(("mul", 0, float(i)) for i in range(1, 12)) + tuple(
        ("add", 12 + i - 1 if i else 1, 2 + i) for i in range(10)
    )
    plan = loops(x.shape, strides_of(x.shape), [strides_of(x.shape)])
    got = elementwise(chain, plan, np.zeros_like(x), [x], tier, 2)
    assert np.array_equal(got, eval_chain(chain, [x]))


def test_forms_are_told_apart() -> None:
    """What Python holds equal is not one chain: a number and the value of that number, and the zeros."""
    tier, element = TIERS[0], "f32"
    alike: list[tuple[Any, ...]] = [(("add", 0, 1),), (("add", 0, 1.0),)]
    assert alike[0] == alike[1]
    forms = [_form(_hashable(chain), (element, element), Out(), tier) for chain in alike]
    assert forms[0].numbers == () and forms[1].numbers == (f32_bits(1.0),) and forms[0].steps != forms[1].steps
    signed = [_form(_hashable((("max", 0, zero),)), (element,), Out(), tier).numbers for zero in (0.0, -0.0)]
    assert signed[0] != signed[1]
    outs = Out(), Out("u8", 3, 0, 255), Out("u8", 4, 0, 255)
    kinds = {_form(_hashable((("relu", 0),)), (kind,), out, tier) for kind in (None, element, "u8") for out in outs}
    assert len(kinds) == 9


def test_kernels_are_those_of_the_table() -> None:
    """A parameter that only equals one of the table's is refused, also after that one was taken."""
    tier = TIERS[0]
    found = _kernel(tier, "pack_b", {"nv": 1})
    assert found is _kernel(tier, "pack_b", {"nv": 1}) == row("pack_b").kernel(tier, {"nv": 1})
    for nv in (True, 1.0, 99):
        with pytest.raises(TypeError, match="nv"):
            _kernel(tier, "pack_b", {"nv": nv})


@given(st.floats() | st.sampled_from([3.4028235677973366e38, 1e39, -1e300, 1e-46, 2.0**-149, 1 + 2.0**-24]))
def test_bits_are_those_of_the_nearest_f32(x: float) -> None:
    with np.errstate(all="ignore"):
        assert f32_bits(x) == int(np.float32(x).view(np.int32))


def test_which_chains_need_no_table() -> None:
    inf = np.inf
    assert ending((), 0) == (None, -inf, inf, "clip")
    assert ending((("add", 1, 0), ("relu", 2)), 1) == (1, 0, inf, "clip")
    assert ending((("min", 6.0, 0), ("max", 1, -1.0)), 0) == (None, -1, 6, "clip")
    assert ending((("clip", 0, 5.0, 3.0),), 0) == (None, 3, 3, "clip")
    assert ending((("add", 0, 2.0), ("clip", 1, -1.0, 1.0)), 0) == (2, -1, 1, "clip")
    assert ending((("hard_sigmoid", 0, 0.2, 0.5), ("mul", 1, 0)), 0) == (None, 0.2, 0.5, "hard_sigmoid_mul")
    assert ending((("leaky_relu", 0, 0.1),), 0) == (None, 0.1, 0, "leaky_relu")
    for chain in [
        (("add", 0, 0),), (("clip", 0, float("nan"), 1.0),), (("relu", 0), ("add", 2, 1)), (("max", 0, 1),),
        (("relu", 0), ("relu", 0)), (("add", 0, 1), ("relu", 0)), (("mul", 0, 2.0),),
    ]:  # fmt: skip
        assert ending(chain, 1) is None

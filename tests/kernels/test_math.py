"""Every vector operation against its NumPy meaning in f64, on every tier."""

from collections.abc import Callable

import numpy as np
import pytest

from fastgraph.kernels.isa.math import OPS
from fastgraph.kernels.isa.vector_ops import APPROXIMATE, WRITTEN
from fastgraph.kernels.lang import F32, I64, Value, over, traced
from fastgraph.kernels.pointwise.chain import emit_chain
from tests.kernels.harness import calling, each_tier, run, tier_params
from tests.kernels.meanings import eval_chain
from tests.processes import python

TINY = float(np.finfo(np.float32).tiny)
SPECIAL = np.float32(
    [0, -0.0, 1, -1, 0.5, -0.5, 2.5, -2.5, 3e38, -3e38, 1e30, 88.8, -87.5, 200, -200, np.inf, -np.inf, np.nan]
)

# Largest error for any f32: so many ulps of the result, or else absolute. All others are exact, or rounded once.
SPAN = np.float32(np.linspace(-20, 20, 40001))
ERRORS = {
    "exp": (1.5, 1e-37), "log": (1, 0), "tanh": (2.5, 0), "erf": (3, 0), "sigmoid": (2.5, 1e-37),
    "sin": (2, 1.3e-7), "cos": (2, 1.3e-7), "rsqrt": (1.5, 0), "swish": (3, 1e-36), "gelu": (4, 4e-7),
    "gelu_tanh": (4, 1e-6), "mish": (4, 1.5e-36), "softplus": (4, 1e-37), "elu": (2.5, 0), "selu": (4, 0),
    "celu": (3, 0), "softsign": (2, 0), "hard_sigmoid": (1.5, 1e-7), "hard_swish": (2, 5e-7),
    "leaky_relu": (1.5, 0), "prelu": (1.5, 0), "pow": (2.5, 1e-37), "fma": (1, 1e-6),
}  # fmt: skip
PARAMETERS = {
    "clip": (-1.5, 6.0), "leaky_relu": (0.01,), "prelu": (0.25,), "elu": (1.5,),
    "selu": (1.6732632, 1.050701), "celu": (0.7,), "swish": (1.0,), "thresholded_relu": (0.5,),
    "hard_sigmoid": (0.2, 0.5), "where": (2.0, 3.0), "fma": (0.75, -0.5),
}  # fmt: skip


def make(tier: object, chains: tuple, inputs: int) -> Callable:
    """A kernel that applies chains to the same vectors; its record: y [chains, n], n, then the inputs."""

    f32 = F32.vector(tier.lanes)

    @traced
    def chains_at(args: Value) -> None:
        y, n, *xs = (I64.at(args)[slot] for slot in range(2 + inputs))
        for i in over(0, n, f32.lanes):
            values = [f32[x + 4 * i] for x in xs]
            for k, chain in enumerate(chains):
                f32[y + 4 * (i + n * k)] = emit_chain(f32, chain, values)

    return calling(chains_at)


def apply(chains: tuple, xs: list[np.ndarray], tier: object) -> np.ndarray:
    """The results of all chains: [chains, n]."""
    n = len(xs[0])
    padded = [np.resize(x, -(-n // 16) * 16) for x in xs]
    y = np.zeros((len(chains), len(padded[0])), np.float32)
    params = {"chains": chains, "inputs": len(xs)}
    return run(make, params, [y, len(padded[0]), *padded], tier, offset=0)[0][:, :n]


def agree(got: np.ndarray, want: np.ndarray, ulps: float = 0.501, absolute: float = 0.0) -> np.ndarray:
    """Which results are right: NaN for NaN, else within so many ulps, or so near in absolute terms."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        ulp = np.spacing(np.maximum(np.abs(rounded), np.float32(TINY))).astype(float)
        error = np.abs(got.astype(float) - want)
        same = (got == rounded) | (np.isnan(got) & np.isnan(want))
        return same | (error <= ulps * ulp) | (error <= absolute)


def chain_of(name: str) -> tuple:
    return ((name, 0, *PARAMETERS.get(name, (1.5,) * (OPS[name].arity - 1))),)


def check(chains: tuple, xs: list[np.ndarray], tier: object, looser: float = 0, least: float = 0) -> None:
    """All chains (of one step each) give what they mean, within the error of their operation."""
    wrong = {}
    for chain, got in zip(chains, apply(chains, xs, tier), strict=True):
        want = eval_chain(chain, [x.astype(float) for x in xs])
        ulps, absolute = ERRORS.get(chain[0][0], (0.501, 0))
        right = agree(got, want, ulps + looser, max(absolute, least))
        if not right.all():
            wrong[chain] = [(*(x[k] for x in xs), got[k], want[k]) for k in np.flatnonzero(~right)[:3]]
    assert not wrong


@each_tier
def test_means_what_numpy_says(tier):
    small = np.geomspace(1e-20, 1, 2000).astype(np.float32)
    check(tuple(chain_of(name) for name in OPS), [np.concatenate([SPAN, small, -small])], tier)


@each_tier
def test_special_values(tier):
    check(tuple(map(chain_of, OPS)), [SPECIAL], tier, 2, 1e-37)
    pairs = tuple(((name, 0, 1),) for name, op in OPS.items() if op.arity == 2 and name not in PARAMETERS)
    check(pairs, [SPECIAL.repeat(len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))], tier, 0, 1e-37)


@each_tier
def test_a_zero_of_either_sign_has_none(tier):
    assert not np.signbit(apply((chain_of("sign"),), [np.float32([0.0, -0.0])], tier)).any()


def of_every_exponent(count: int, seed: int = 0) -> np.ndarray:
    """`count` normal f32 of each exponent and sign, then zeros, ends, infinities and NaN."""
    exponents = np.repeat(np.arange(1, 255, dtype=np.uint32), count)
    mantissas = np.random.default_rng(seed).integers(0, 1 << 23, len(exponents), np.uint32)
    x = (exponents << 23 | mantissas).view(np.float32)
    most = np.finfo(np.float32).max
    return np.concatenate([x, -x, np.float32([0, -0.0, TINY, -TINY, most, -most, np.inf, -np.inf, np.nan])])


@each_tier
def test_over_the_whole_range(tier):
    unary = [name for name, op in OPS.items() if op.arity == 1 or name in PARAMETERS]
    check(tuple(map(chain_of, unary)), [of_every_exponent(40)], tier, least=TINY)


def make_approximate(tier: object, name: str) -> Callable:
    """A kernel that computes y = OPS[name].emit_approximate(x, PARAMETERS of it); its record: y, n, x."""
    f32 = F32.vector(tier.lanes)

    @traced
    def at(args: Value) -> None:
        y, n, x = (I64.at(args)[slot] for slot in range(3))
        for i in over(0, n, f32.lanes):
            operands = [f32[x + 4 * i], *map(f32, PARAMETERS.get(name, ()))]
            f32[y + 4 * i] = OPS[name].emit_approximate(*operands)

    return calling(at)


@pytest.mark.parametrize("tier", tier_params(("avx512", "amx")))
@pytest.mark.parametrize("name", APPROXIMATE)
def test_what_is_rounded_to_bf16(tier, name):
    """Within 2**-11 of the result, or 2**-14 where that is more; special numbers and zeros as ever."""
    x = np.concatenate([of_every_exponent(40), SPAN, SPECIAL])
    x = np.resize(x, len(x) & -16)
    got = run(make_approximate, {"name": name}, [np.zeros_like(x), len(x), x], tier, offset=0)[0]
    exactly = apply((chain_of(name),), [x], tier)[0]
    with np.errstate(all="ignore"):
        want = eval_chain(chain_of(name), [x.astype(float)])
        near = np.abs(got - want) <= np.maximum(2.0**-11 * np.abs(want), 2.0**-14)
    same = (np.isnan(got) & np.isnan(want)) | (got == want.astype(np.float32))
    assert not [(x[i], got[i], want[i]) for i in np.flatnonzero(~(near | same))[:9]]
    zero = (x == 0) | ~np.isfinite(x)
    np.testing.assert_array_equal(got[zero], exactly[zero])
    assert (np.signbit(got) == np.signbit(exactly))[zero & ~np.isnan(got)].all()


@each_tier
def test_powers_over_the_whole_range(tier):
    x = of_every_exponent(40)
    some = np.random.default_rng(1)
    for y in (some.permutation(x), np.rint(some.uniform(-30, 30, len(x))), some.uniform(-150, 150, len(x)) / np.log2(
            np.abs(x) + 2)):  # fmt: skip
        check(((("pow", 0, 1),),), [x, y.astype(np.float32)], tier)


@each_tier
def test_sines_beyond_any_multiple_of_pi(tier):
    """Both ways to fold, and where they meet: 16367173 * 2**72 is nearer to a multiple of pi / 2 than other f32."""
    turns = np.arange(1, 3000) * np.pi
    x = np.concatenate([turns, turns / 2, np.linspace(8000, 8400, 2001), np.geomspace(1e4, 3.4e38, 5001),
                        [16367173 * 2.0**72, 2.0**31, 2.0**63, 3.4e38]]).astype(np.float32)  # fmt: skip
    both = (chain_of("sin"), chain_of("cos"))
    check(both, [np.concatenate([x, -x])], tier)
    far = x[x > 8192]
    for got, wave in zip(apply(both, [far], tier), (np.sin, np.cos), strict=True):
        assert agree(got, wave(far.astype(float)), 2.5).all()
    assert np.isnan(apply(both, [np.float32([np.inf, -np.inf, np.nan])], tier)).all()


@each_tier
def test_powers_by_a_constant(tier):
    exponents = (0.5, -0.5, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 7.0, -3.25)
    x = np.geomspace(1e-8, 1e8, 1001).astype(np.float32)
    check(tuple((("pow", 0, e),) for e in exponents), [x], tier, 2)


@each_tier
def test_results_stay_in_their_range(tier):
    x = np.linspace(-100, 100, 100001, dtype=np.float32)
    tanh, erf, sigmoid = apply((chain_of("tanh"), chain_of("erf"), chain_of("sigmoid")), [x], tier)
    for y, low in ((tanh, -1), (erf, -1), (sigmoid, 0)):
        assert y[0] == low and y.min() == low and y[-1] == 1 and y.max() == 1


def test_reading_the_table_loads_no_compiler():
    code = (
        "import sys, fastgraph.kernels.pointwise.chain, fastgraph.kernels.pointwise.elementwise_shape\n"
        "import fastgraph.kernels.pointwise.rows\n"
        "sys.exit(any(m in sys.modules for m in ('llvmlite',)))"
    )
    python("-c", code)


def test_what_kernels_compute_their_own_way_are_operations() -> None:
    assert WRITTEN.keys() == OPS.keys()

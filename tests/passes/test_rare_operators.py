"""Operators that few networks have are steps that kernels run, and give what onnxruntime and the references give."""

from typing import Any

import numpy as np
import pytest

from fastgraph.errors import InputError, ModelError
from fastgraph.kernels.isa.tiers import choose
from fastgraph.ops.evaluate import evaluate
from fastgraph.runtime.model import Model
from tests.element_types import agrees, one
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime, numpy_steps

SEEDS = range(8)


def agrees_with_onnxruntime(net: Net, feeds: dict[str, np.ndarray], rtol: float = 1e-5) -> None:
    """And NumPy computes nothing."""
    model = net.load()
    with np.errstate(all="ignore"):
        assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds), rtol)
    assert not numpy_steps(model)


def fed(net: Net, feeds: dict[str, np.ndarray], name: str, array: np.ndarray) -> str:
    feeds[name] = array
    return net.input(name, array.shape, array.dtype)


EQUATIONS = (
    "ij,jk->ik", "bij,bjk->bik", "bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "i,i->", "i,j->ij", "ij->",
    "ii->i", "ii", "bii->bi", "...ij->...ji", "...ij,...jk->...ik", "b...i,...ij->b...j", "ij,ij->ij", "ij,ij->",
    "ijk,jil->kl", "ij,jk,kl->il", "bsd,dhk->bshk", "bi,bj,bk->bijk", "ab,cd->dacb", "iij,jk->ik", "ij,kj", "ijk->kij",
    "ij,kl->ik",
)  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_of_products(equation: str) -> None:
    rng = np.random.default_rng(len(equation))
    sizes = {letter: int(rng.integers(1, 6)) for letter in sorted(set(equation)) if letter.isalpha()}
    for stack in ((), (3,), (2, 3)) if "..." in equation else ((),):
        net, feeds = Net(), {}
        for i, term in enumerate(equation.partition("->")[0].split(",")):
            head, _, tail = term.partition("...")
            dims = (*(sizes[c] for c in head), *(stack if "..." in term else ()), *(sizes[c] for c in tail))
            fed(net, feeds, f"x{i}", rng.standard_normal(dims).astype(F32))
        net.output(net("Einsum", *feeds, equation=equation))
        agrees_with_onnxruntime(net, feeds)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float16", "float64"])
@pytest.mark.parametrize("equation", ["bij,bkj->bik", "ii->i", "ij->j", "ij,jk,k->i", "bij,ij->bji"])
def test_sums_of_products_of_every_element_type(equation: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 5, [4] * len(term)).astype(dtype) for term in equation.partition("->")[0].split(",")]
    agrees(one("einsum", arrays, attrs={"equation": equation}), arrays, choose(), 1e-3 if dtype == "float16" else 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, c, places = 3, 5, [(), (4,), (2, 3)][seed % 3]
    for reduction in ("none", "sum", "mean"):
        net, feeds = Net(), {}
        target = rng.integers(0, c, (n, *places)).astype(np.int32 if seed % 2 else np.int64)
        attrs: dict[str, Any] = {"reduction": reduction}
        if seed % 4 > 1:
            attrs["ignore_index"] = -1 if seed % 2 else 2
            target[rng.random(target.shape) < 0.3] = attrs["ignore_index"]
        inputs = [fed(net, feeds, "x", rng.standard_normal((n, c, *places)).astype(F32)), fed(net, feeds, "t", target)]
        if seed > 3:
            inputs.append(fed(net, feeds, "w", rng.random(c).astype(F32)))
        if op[0] == "S" and seed % 2:
            net.output(*net(op, *inputs, outputs=2, **attrs))
        else:
            net.output(net(op, *inputs, **attrs))
        agrees_with_onnxruntime(net, feeds)


def test_what_is_ignored_counts_nothing() -> None:
    """Not even where the probability is 0."""
    rows, target = np.float32([[-np.inf, -1], [-2, -3]]), np.array([0, 1])
    for dtype in (np.float32, np.float64):
        arrays = [rows.astype(dtype), target]
        graph = one("negative_log_likelihood_loss", arrays, attrs={"ignore_index": 0, "reduction": "sum"})
        agrees(graph, arrays, choose())
        assert Model(graph, choose(), 1).run({"x0": arrays[0], "x1": target})["y"] == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_changes_of_quantization_by_computed_scales(dtype: str, seed: int) -> None:
    rng, dims, net, feeds = np.random.default_rng(seed), (4, 6, 5), Net(21), {}
    axis, block = seed % 3, 2 if seed % 2 else 0
    parts = -(-dims[axis] // block) if block else dims[axis]
    several = tuple(parts if a == axis else n for a, n in enumerate(dims)) if block else (dims[axis],)
    shape, attrs = ((), {}) if seed > 5 else (several, {"axis": axis, "block_size": block})
    if block and dims[axis] % block:
        return  # onnxruntime wants whole blocks
    scale = fed(net, feeds, "s", rng.uniform(0.01, 0.1, shape).astype(F32))
    ends = np.iinfo(dtype)
    zero = fed(net, feeds, "z", rng.integers(ends.min, ends.max, shape, dtype, endpoint=True))
    x = rng.standard_normal(dims).astype(F32) * 10.0 ** rng.integers(-2, 5, dims)
    y = net("QuantizeLinear", fed(net, feeds, "x", x.astype(F32)), scale, zero, **attrs)
    net.output(y, dtype=dtype)
    net.output(net("DequantizeLinear", y, scale, zero, **attrs))
    agrees_with_onnxruntime(net, feeds)


KINDS = (
    "float8e4m3fn",
    "float8e5m2",
    "float8e4m3fnuz",
    "float8e5m2fnuz",
    "float4e2m1",
    "int4",
    "uint4",
    "int2",
    "uint2",
)


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_quantization_to_few_bits(kind: str) -> None:
    """What is not a number becomes the least one."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.standard_normal(50), [np.nan, np.inf, -np.inf, 0, 1e9, -1e9]]).astype(F32)
    scale = np.array(0.07, F32)
    dtype = F32 if kind[0] == "f" else np.dtype(np.int8 if kind[0] == "i" else np.uint8)
    arrays, attrs = [x, scale, np.array(0, dtype)], {"format": kind}
    if kind[0] != "f":
        arrays[2] = np.array(1, dtype)
    for saturate in (1, 0):
        agrees(one("quantize_linear", arrays, attrs={**attrs, "saturate": saturate}), arrays, choose())


@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_bytes_with_computed_parameters(seed: int) -> None:
    rng, feeds, net = np.random.default_rng(seed), {}, Net()
    depth = [3, 64, 300, 700][seed % 4]
    kinds = [np.dtype(np.int8 if seed % 2 else np.uint8), np.dtype(np.int8 if seed // 2 % 2 else np.uint8)]
    # onnxruntime sums u8 x s8 in 16 bits, two at a time, where the CPU lacks VNNI: weights of 7 bits are exact there.
    ranges = {np.dtype(np.int8): (-64, 64), np.dtype(np.uint8): (0, 256)}
    a, b = (rng.integers(*ranges[k], s).astype(k) for k, s in zip(kinds, ((2, 5, depth), (2, depth, 4)), strict=True))
    names = [fed(net, feeds, "a", a), fed(net, feeds, "b", b)]
    zeros = [fed(net, feeds, f"{n}z", np.array(3, k)) for n, k in zip("ab", kinds, strict=True)]
    net.output(net("MatMulInteger", *names, *zeros), dtype=np.int32)
    if kinds[0] == kinds[1] or kinds[0] == np.uint8:
        scales = [fed(net, feeds, f"{n}s", np.array(s, F32)) for n, s in (("a", 0.02), ("b", 0.013), ("y", 0.07))]
        y_zero = fed(net, feeds, "yz", np.array(5, kinds[0]))
        y = net("QLinearMatMul", names[0], scales[0], zeros[0], names[1], scales[1], zeros[1], scales[2], y_zero)
        net.output(y, dtype=kinds[0])
    agrees_with_onnxruntime(net, feeds)


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_bytes_with_computed_parameters(seed: int) -> None:
    rng, feeds, net, groups = np.random.default_rng(seed), {}, Net(), 1 + seed % 2
    x, w = rng.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8), rng.integers(0, 256, (6, 4 // groups, 3, 2))
    names = [fed(net, feeds, "x", x), fed(net, feeds, "w", w.astype(np.uint8))]
    zeros = [fed(net, feeds, f"{n}z", np.array(z, np.uint8)) for n, z in (("x", 100), ("w", 7))]
    attrs = {"group": groups, "pads": [1, 0, 1, 1], "strides": [1 + seed % 3, 1]}
    net.output(net("ConvInteger", *names, *zeros, **attrs), dtype=np.int32)
    scales = [fed(net, feeds, f"{n}s", np.array(s, F32)) for n, s in (("x", 0.02), ("w", 0.013), ("y", 1.317))]
    y_zero, bias = fed(net, feeds, "yz", np.array(9, np.uint8)), net.const(rng.integers(-999, 999, 6), np.int32)
    y = net(
        "QLinearConv", names[0], scales[0], zeros[0], names[1], scales[1], zeros[1], scales[2], y_zero, bias, **attrs
    )
    net.output(net("Cast", y, to=1))
    agrees_with_onnxruntime(net, feeds)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_small_functions(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = ((rng.standard_normal((3, 70)) * 2).astype(dtype) for _ in range(2))
    rtol = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    agrees(one("shrink", [x], attrs={"lambd": 0.7, "bias": 0.2}), [x], choose(), rtol)
    agrees(one("swiglu", [x, y], attrs={"alpha": 1.3}), [x, y], choose(), rtol)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(
    ("images", "times", "heads", "share"), [(1, 1, 1, 1), (2, 1, 2, 3), (2, 6, 2, 1), (3, 4, 1, 2)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_recurrent_attention(rule: str, images: int, times: int, heads: int, share: int, dtype: str) -> None:
    rng, size, wide = np.random.default_rng(times), 5, 3
    arrays = [rng.standard_normal((images, times, n)).astype(dtype) * 0.5
              for n in (heads * share * size, heads * size, heads * wide)]  # fmt: skip
    decay = -rng.random((images, times, heads * (size if times > 4 else 1)))
    beta = rng.random((images, times, heads if times > 4 else 1))
    arrays += [rng.standard_normal((images, heads, size, wide)).astype(dtype), decay.astype(dtype), beta.astype(dtype)]
    attrs = {"update_rule": rule, "q_num_heads": heads * share, "kv_num_heads": heads}
    agrees(
        one("linear_attention", arrays, attrs=attrs, outputs=2),
        arrays,
        choose(),
        {"float16": 1e-2, "float32": 1e-4, "float64": 1e-11}[dtype],
    )


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize(("taps", "times"), [(1, 4), (3, 7), (4, 2), (4, 1)])
@pytest.mark.parametrize("begun", [False, True])
def test_convolutions_that_remember(activation: str, taps: int, times: int, begun: bool) -> None:
    rng, channels = np.random.default_rng(taps), 6
    arrays = [rng.standard_normal(s).astype(F32) for s in ((2, channels, times), (channels, 1, taps), (channels,))]
    if begun:
        arrays.append(rng.standard_normal((2, channels, taps - 1)).astype(F32))
    agrees(one("causal_conv_with_state", arrays, attrs={"activation": activation}, outputs=2), arrays, choose(), 1e-5)


def test_greatest_of_what_is_no_number() -> None:
    x = np.float32([np.nan, np.nan, 1, np.nan, -np.inf, -np.inf, 0, 3]).reshape(1, 2, 4, 1)
    attrs = {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    agrees(one("max_pool", [x], attrs=attrs, outputs=2), [x], choose())


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_whole_numbers_to_whole_powers_that_are_floats(exponent: float) -> None:
    for dtype in ("int32", "int64", "uint8"):
        x = np.arange(20).astype(dtype) - (7 if dtype[0] == "i" else 0)
        x = np.minimum(x, 6).astype(dtype)
        agrees(one("pow", [x], [F32.type(exponent)]), [x], choose())


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_powers_of_two(mode: str, saturate: int, dtype: str) -> None:
    """To the bit, subnormal ones too."""
    edges = np.uint32([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x5FFFFF, 0x600000, 0x7FFFFF, 0x800000, 0x800001, 0xBFFFFF,
                       0xC00000, 0x7F000000, 0x7F000001, 0x7F400000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000])  # fmt: skip
    bits = np.random.default_rng(0).integers(0, 1 << 32, 500, np.uint32)
    with np.errstate(all="ignore"):
        x = np.concatenate([edges, edges | 1 << 31, bits]).view(F32).astype(dtype)
    graph = one("cast", [x], attrs={"to": "float32", "format": "float8e8m0", "saturate": saturate, "round_mode": mode})
    model = Model(graph, choose(), 1)
    assert not numpy_steps(model)
    np.testing.assert_array_equal(model.run({"x0": x})["y"], evaluate(graph, {"x0": x})[0])


@pytest.mark.parametrize(("op", "constants"), [("trilu", []), ("hardmax", []), ("cum_sum", [np.array(1)])])
def test_nothing_takes_no_steps(op: str, constants: list[np.ndarray]) -> None:
    x = np.zeros((3, 0, 5), F32)
    graph = one(op, [x], constants)
    agrees(graph, [x], choose())
    assert not Model(graph, choose(), 1).plan.program.steps


@pytest.mark.parametrize("seed", range(12))
def test_counts_of_words(seed: int) -> None:
    rng, net, feeds = np.random.default_rng(seed), Net(), {}
    pool = [rng.permutation(5)[:3].tolist(), rng.integers(0, 5, (4, 2)), rng.integers(0, 5, (2, 3))]
    pool = [sorted({tuple(np.ravel(gram).tolist()) for gram in grams}) for grams in pool]
    flat = [word for grams in pool for gram in grams for word in gram]
    starts = [0, len(pool[0]), len(pool[0]) + 2 * len(pool[1])]
    count = sum(map(len, pool))
    attrs = {"ngram_counts": starts, "pool_int64s": flat, "ngram_indexes": rng.permutation(count + 2)[:count].tolist()}
    if seed % 4:
        attrs["weights"] = rng.random(count).astype(F32).tolist()
    least = 1 + seed % 2
    x = rng.integers(0, 5, (11,) if seed % 3 == 0 else (2, 9 if seed % 3 == 1 else 2)).astype(
        np.int32 if seed % 2 else I64
    )
    net.output(net("TfIdfVectorizer", fed(net, feeds, "x", x), mode=("TF", "IDF", "TFIDF")[seed % 3],
                   min_gram_length=least, max_gram_length=3 - seed // 6, max_skip_count=seed % 4, **attrs))  # fmt: skip
    agrees_with_onnxruntime(net, feeds)


def test_indices_of_nothing_are_looked_at() -> None:
    x, at = np.zeros((3, 0), F32), np.array([7])
    with pytest.raises(InputError):
        Model(one("gather", [x, at], attrs={"axis": 0}), choose(), 1).run({"x0": x, "x1": at})


def test_a_cache_that_goes_round() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 2, 5, 4)), rng.standard_normal((3, 2, 3, 4)), np.array([0, 4, 3], I64)]
    arrays[:2] = [a.astype(F32) for a in arrays[:2]]
    agrees(one("tensor_scatter", arrays, attrs={"axis": -2, "mode": "circular"}), arrays, choose())
    without = one("tensor_scatter", arrays[:2], attrs={"axis": -2, "mode": "circular"})  # it begins at 0
    feeds = {"x0": arrays[0], "x1": arrays[1]}
    np.testing.assert_array_equal(Model(without, choose(), 1).run(feeds)["y"], evaluate(without, feeds)[0])


def test_rounding_of_no_known_kind_is_refused() -> None:
    attrs = {"to": "float32", "format": "float8e8m0", "round_mode": "sum"}
    with pytest.raises(ModelError, match="cast.*round_mode must be one of up, nearest, down, found 'sum'"):
        Model(one("cast", [np.ones(3, F32)], attrs=attrs), choose(), 1)

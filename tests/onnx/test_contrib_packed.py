"""Weights in a few bits against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from fastgraph.freedoms import without
from fastgraph.ir import is_open
from fastgraph.kernels.isa.tiers import multiplies_tiles
from fastgraph.ops.block_dense import block_weights
from tests.kernels.harness import each_integer_tier, each_tier
from tests.nets import F32, I64, Net, by_onnxruntime, session
from tests.onnx.contrib import MS, U8, Operand, absent, agree, compare, const, fed, hosts, known, net_of, numbers


@pytest.mark.parametrize("bits, block", [(4, 16), (4, 32), (4, 128), (8, 32), (2, 64)])
@pytest.mark.parametrize("k", [64, 72, 128])
@pytest.mark.parametrize("zeros", ["", "packed", "float"])
@pytest.mark.parametrize("bias", [False, True])
def test_matmul_nbits(bits: int, block: int, k: int, zeros: str, bias: bool) -> None:
    if bits == 8 and zeros == "float":
        pytest.skip("onnxruntime has no such kernel")
    n, blocks, rng = 10, -(-k // block), np.random.default_rng(0)
    points = {
        "": absent,
        "packed": const(n * -(-blocks * bits // 8), dtype=U8),
        "float": known(rng.uniform(0, 1 << bits, (n, blocks))),
    }
    operands = [fed(2, 3, k), const(n, blocks, block * bits // 8, dtype=U8), known(rng.uniform(0.01, 0.1, n * blocks))]
    operands += [points[zeros], absent, const(n) if bias else absent]
    net, feeds = net_of("MatMulNBits", operands, K=k, N=n, bits=bits, block_size=block)
    agree(net, feeds, rtol=1e-4)
    names = {kernel.name for kernel in net.load().plan.kernels()}
    assert ("dot_blocks" in names) == (k % (32 // bits) == 0), "weights stay in their codes"


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("k", [64, 56])
def test_columns_of_blocks_in_any_order(zeros: bool, bits: int, k: int) -> None:
    """As the same columns side by side: with g_idx, onnxruntime takes no 8 bits, and no notice of zero points."""
    net, n, block = Net(), 6, 16
    codes, scales = numbers(net.rng, (n, 4 * block), U8) >> (8 - bits), net.rng.uniform(0.01, 0.1, n * 4).astype(F32)
    points = numbers(net.rng, (n * 4 * bits // 8,), U8)
    order = net.rng.permutation(k)
    groups, x = np.empty(k, np.int32), numbers(net.rng, (3, k), F32)
    groups[np.concatenate([np.sort(order[i : i + block]) for i in range(0, k, block)])] = np.arange(k) // block

    def built(codes: np.ndarray, groups: np.ndarray | None) -> Net:
        net = Net()
        packed = codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4
        inputs = [net.input("a", (3, k)), net.const(packed.reshape(n, 4, -1)), net.const(scales)]
        inputs += [net.const(points) if zeros else "", "" if groups is None else net.const(groups)]
        net.output(net("MatMulNBits", *inputs, domain=MS, K=k, N=n, bits=bits, block_size=block))
        return net

    side_by_side = codes.copy()
    side_by_side[:, :k] = codes[:, np.argsort(groups, kind="stable")]
    (expected,) = by_onnxruntime(
        built(side_by_side, None).bytes(), {"a": np.ascontiguousarray(x[:, np.argsort(groups, kind="stable")])}
    )
    model = built(codes, groups).load()
    compare(model(x), expected, 0, 1e-4)
    assert "dot_blocks" in {kernel.name for kernel in model.plan.kernels()} and not hosts(model)


SIXTEEN = [const(16, 2, 16, dtype=U8), known(np.linspace(0.01, 0.1, 32, dtype=F32))]


@pytest.mark.parametrize(("k", "named"), [(64, 64), (56, 56), (56, 64), (50, 64)])
def test_columns_may_name_their_blocks(k: int, named: int) -> None:
    """All of them, those behind K too."""
    order = known(np.random.default_rng(0).integers(0, 4, named), np.int32)
    operands = [fed(3, k), const(6, 4, 8, dtype=U8), known(np.full(24, 0.1, F32)), absent, order]
    agree(*net_of("MatMulNBits", operands, K=k, N=6, bits=4, block_size=16), rtol=1e-4)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_less_accuracy_than_f32_has_is_not_taken(level: int) -> None:
    net, feeds = net_of("MatMulNBits", [fed(3, 64), *SIXTEEN], K=64, N=16, bits=4, block_size=32, accuracy_level=level)
    agree(net, feeds, rtol=1e-5)
    assert [step.node.op for step in net.load().plan.program.steps] == ["block_dense"]


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of codes in bytes, the first in the low bits."""
    full = np.pad(codes.astype(np.uint8), [(0, 0), (0, -codes.shape[1] % (8 // bits))])
    parts = full.reshape(len(codes), -1, 8 // bits)
    return np.bitwise_or.reduce(parts << np.arange(0, 8, bits, dtype=np.uint8), axis=-1, dtype=np.uint8)


@each_integer_tier
@pytest.mark.parametrize("bits, block, k", [(4, 32, 1024), (4, 128, 264), (4, 16, 64), (8, 32, 100), (2, 64, 128)])
@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("zeros", [True, False])
def test_rows_are_rounded_where_level_4_lets_them_be(
    tier: Any, bits: int, block: int, k: int, rows: int, zeros: bool
) -> None:
    """To the bytes that onnxruntime rounds them to: only the order of f32 sums differs. Where bytes have no products,
    rows stay f32: no number is further from that of rounded rows than half a step for each weight.
    """
    n, blocks, rng = 70, -(-k // block), np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, blocks)).astype(F32)
    points = rng.integers(0, 1 << bits, (n, blocks)).astype(F32)
    given = [fed(rows, k), known(codes, U8), known(scales.reshape(-1))]
    given += [known(_packed(points, bits), U8)] if zeros else []
    net, feeds = net_of("MatMulNBits", given, K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
    (wanted,) = by_onnxruntime(net.bytes(), feeds)
    found = {threads: net.load(isa=tier.name, threads=threads)(*feeds.values()) for threads in (1, 3)}
    np.testing.assert_array_equal(found[1], found[3])
    w = block_weights(codes, scales, points if zeros else None, bits, k)
    (x,) = feeds.values()
    sums = np.abs(x) @ np.abs(w).T
    if tier.byte_dot:
        assert (np.abs(found[1] - wanted) <= 2e-6 * sums).all()
    else:
        most = np.abs(np.pad(x, [(0, 0), (0, -k % block)])).reshape(rows, blocks, block).max(-1)
        steps = np.repeat(most / 127, block, axis=1)[:, :k]
        assert (np.abs(found[1] - wanted) <= 0.51 * (steps @ np.abs(w).T)).all()
        np.testing.assert_allclose(found[1], x @ w.T, rtol=0, atol=2e-6 * sums.max())


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_blocks_of_what_is_not_finite(odd: float) -> None:
    net, feeds = net_of("MatMulNBits", [fed(3, 64), *SIXTEEN], K=64, N=16, bits=4, block_size=32, accuracy_level=4)
    ((name, x),) = feeds.items()
    x[1, 40], x[2] = odd, 0
    model = net.load()
    y = model(x)
    # Kernels that don't round x multiply infinity by weights.
    spoiled = np.isnan(y[1]) | (np.isinf(y[1]) & np.isinf(odd) & (not model.tier.byte_dot))
    assert np.isfinite(y[0]).all() and spoiled.all() and (y[2] == 0).all()


@pytest.mark.parametrize("level", [0, 4])
def test_a_plan_for_many_numbers_of_rows(level: int) -> None:
    net = Net()
    y, scales = net.input("x", (1, "rows", 64)), net.const(np.full(128, 0.01, F32))
    for _ in range(3):
        codes = net.const(numbers(net.rng, (64, 2, 16), U8))
        attrs = {"K": 64, "N": 64, "bits": 4, "block_size": 32, "accuracy_level": level}
        y = net("Tanh", net("MatMulNBits", y, codes, scales, domain=MS, **attrs))
    net.output(y)
    model, ort = net.load(), session(net.bytes())
    for rows in (*range(33, 48), 62, 40):
        x = numbers(net.rng, (1, rows, 64), F32)
        compare(model(x), ort.run(None, {"x": x})[0], 0, 0.02 if level == 4 else 1e-5)
    assert any(is_open(key.shapes) for key in model._plans.keys())
    assert not hosts(model)


@pytest.mark.parametrize("precision", ["float32", "float32-fma", "bfloat16"])
@each_tier
def test_many_rows_of_f32(tier: Any, precision: str) -> None:
    """On tiles, whose products hold all bits of f32, where they are not taken away: as exact as onnxruntime."""
    k, n, rng = 160, 70, np.random.default_rng(0)
    operands = [fed(2, 50, k), const(n, 5, 16, dtype=U8), known(rng.uniform(0.01, 0.1, n * 5)), const(n * 3, dtype=U8)]
    net, feeds = net_of("MatMulNBits", operands, K=k, N=n, bits=4, block_size=32)
    (wanted,), (x,) = by_onnxruntime(net.bytes(), feeds), feeds.values()
    tiled = multiplies_tiles(tier) and precision != "float32-fma"
    for freedom, kernel in (("", "amx_blocks" if tiled else "dot_blocks"), ("amx_blocks", "dot_blocks")):
        with without(freedom):
            one, three = (net.load(isa=tier.name, threads=threads, precision=precision) for threads in (1, 3))
        assert [each.name for each in one.plan.kernels()] == [kernel]
        np.testing.assert_array_equal(one(x), three(x))
        np.testing.assert_allclose(one(x), wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_halves_are_multiplied_as_f32() -> None:
    scales = known(np.linspace(0.01, 0.1, 32, dtype=np.float16))
    operands = [fed(3, 64, dtype=np.float16), SIXTEEN[0], scales]
    net, feeds = net_of("MatMulNBits", operands, K=64, N=16, bits=4, block_size=32)
    agree(net, feeds, rtol=2e-3)
    assert "dot_blocks" in {kernel.name for kernel in net.load().plan.kernels()}


def narrow(net: Net, kind: int, array: np.ndarray) -> str:
    """A constant of an element type of 4 bits."""
    name = f"c{len(net.constants)}"
    net.constants.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist()))
    return name


GATHERED = [((9, 64), 0, 1, 16), ((9, 40), 0, 1, 16), ((5, 3, 32), 0, 2, 32), ((6, 32, 5), 0, 1, 16)]
GATHERED += [((48, 6), 0, 0, 16), ((6, 32), -1, 1, 16), ((6, 48, 4), 2, 1, 16)]


@pytest.mark.parametrize("kind", [onnx.TensorProto.UINT4, onnx.TensorProto.INT4, onnx.TensorProto.UINT8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("shape, gather, blocked, block", GATHERED)
@pytest.mark.parametrize("indices", [(3,), (2, 2)])
def test_gather_block_quantized(
    kind: int, zeros: bool, shape: tuple[int, ...], gather: int, blocked: int, block: int, indices: tuple[int, ...]
) -> None:
    if kind == onnx.TensorProto.UINT8 and (gather != 0 or blocked != len(shape) - 1):
        pytest.skip("bytes pack two codes of the last axis, and rows are gathered")
    count = tuple(-(-d // block) if i == blocked else d for i, d in enumerate(shape))
    low = -8 if kind == onnx.TensorProto.INT4 else 0

    def codes(dims: tuple[int, ...]) -> Operand:
        if kind == onnx.TensorProto.UINT8:
            return const(*dims[:-1], -(-dims[-1] // 2), dtype=U8)
        return lambda net, _: narrow(net, kind, net.rng.integers(low, low + 16, dims))

    scales = known(np.random.default_rng(0).uniform(0.1, 1, count))
    operands = [codes(shape), fed(*indices, dtype=I64, most=shape[gather]), scales, *([codes(count)] if zeros else [])]
    attrs = {"gather_axis": gather, "quantize_axis": blocked, "block_size": block}
    agree(*net_of("GatherBlockQuantized", operands, **attrs))


def test_rows_by_indices_of_any_rank() -> None:
    """The axis of blocks is counted from the end."""
    net = Net(opset=21)
    table = narrow(net, onnx.TensorProto.INT4, net.rng.integers(-8, 8, (9, 64)))
    at = net("Reshape", net.input("at", (4,), I64), net.input("shape", ("rank",), I64))
    scales = net.const(net.rng.uniform(0.1, 1, (9, 4)).astype(F32))
    attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    net.output(net("GatherBlockQuantized", table, at, scales, domain="com.microsoft", **attrs))
    for shape in ([4], [2, 2], [1, 2, 1, 2]):
        agree(net, {"at": np.array([3, 0, 8, 3]), "shape": np.array(shape)})


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4, onnx.TensorProto.INT8, U8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("block", [0, 8, 16])
@pytest.mark.parametrize("zeros", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ["matmul", "transposed", "gemm", "gemm of transposed"])
def test_products_by_reals_of_blocks(kind: Any, axis: int, block: int, zeros: bool, form: str) -> None:
    """Blocks along k make a layer of codes; all else is folded, or one scale for each column."""
    net, shape = Net(opset=21), (24, 16) if form in ("matmul", "gemm") else (16, 24)
    kind = onnx.TensorProto.UINT8 if kind is U8 else kind
    limits = {onnx.TensorProto.INT4: (-8, 8), onnx.TensorProto.UINT4: (0, 16), onnx.TensorProto.INT8: (-128, 128)}
    low, high = limits.get(kind, (0, 256))
    count = tuple(-(-d // block) if i == axis else d for i, d in enumerate(shape)) if block else (shape[axis],)
    w = narrow(net, kind, net.rng.integers(low, high, shape))
    scale = net.const(net.rng.uniform(0.01, 0.1, count).astype(F32))
    points = [narrow(net, kind, net.rng.integers(0, 8, count))] if zeros else []
    real = net("DequantizeLinear", w, scale, *points, axis=axis, **({"block_size": block} if block else {}))
    x = net.input("x", (5, 24))
    real = net("Transpose", real, perm=[1, 0]) if form in ("transposed", "gemm of transposed") else real
    net.output(net("MatMul", x, real) if form in ("matmul", "transposed") else net("Gemm", x, real, net.weight(16)))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-5)
    along = axis == (0 if form in ("matmul", "gemm") else 1)
    assert ("dot_blocks" in {kernel.name for kernel in net.load().plan.kernels()}) == bool(block and along)


def test_codes_of_as_few_bits_as_they_take() -> None:
    net = Net(opset=21)
    w = narrow(net, onnx.TensorProto.INT4, net.rng.integers(-2, 2, (32, 9)))
    real = net("DequantizeLinear", w, net.rng.uniform(0.1, 1, (2, 9)).astype(F32), axis=0, block_size=16)
    net.output(net("MatMul", net.input("x", (5, 32)), real))
    agree(net, {"x": numbers(net.rng, (5, 32), F32)})
    assert {dict(kernel.params)["bits"] for kernel in net.load().plan.kernels()} == {2}


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_weights_of_float8_are_folded(kind: str) -> None:
    net, number = Net(opset=21), getattr(onnx.TensorProto, kind)
    numbers_ = net.rng.standard_normal((24, 16)).astype(F32)
    w = narrow(net, number, numbers_)
    real = net("DequantizeLinear", w, 0.3, narrow(net, number, np.zeros(())))
    net.output(net("MatMul", net.input("x", (5, 24)), real))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-5)

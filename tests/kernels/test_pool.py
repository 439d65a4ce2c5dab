"""Pooling kernels against NumPy in f64, and against onnxruntime's rules for averages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from fastgraph.kernels.window.pick import Window, plan_pool, window_args
from tests.kernels.harness import each_tier, run
from tests.kernels.windows import Case, cases, counted, draws, endings, outputs, padded_taps, pixels

OPS = ("max", "average", "lp1", "lp2")


def expected(case: Case, op: str, include_pad: bool, x: Any) -> Any:
    g = case.window
    found = np.full((g.images, *g.out, g.channels), -np.inf if op == "max" else 0.0)
    count = np.zeros((1, *g.out, 1))
    for index, part, inside in padded_taps(case, x):
        if op == "max":
            found = np.where(inside, np.maximum(found, part), found)
            continue
        term = {"average": part, "lp1": abs(part), "lp2": part * part}[op]
        found += np.where(inside, term, 0)
        count += counted(g, index) if include_pad else inside
    with np.errstate(invalid="ignore"):
        return {"average": found / np.where(count, count, np.nan), "lp2": np.sqrt(abs(found))}.get(op, found)


def compute(
    tier: Any, case: Case, op: str, include_pad: bool, x: Any, ending: Any = NO_EPILOGUE, threads: int = 1
) -> Any:
    g = case.window
    name, params = ("pool_any", {"op": op}) if case.general else plan_pool(tier, g, op)
    y, ldx = outputs(g, case.gap), g.channels + case.gap
    memory = {"x": pixels(x, case.gap), "y": y, "ldx": ldx, "ldy": y.shape[-1], "include_pad": int(include_pad)}
    record = row(name).args.filled(**window_args(tier, name, params, g, threads), **memory, **ending)
    written = run(row(name), params, record, tier, threads)[1]
    assert (written[..., g.channels :] == 7).all()
    return written[..., : g.channels]


def check(tier: Any, case: Case, op: str, include_pad: bool = False) -> None:
    _, x = draws(case, case.window.channels)
    want = expected(case, op, include_pad, x)
    results = [compute(tier, case, op, include_pad, x, threads=n) for n in (1, 3)]
    np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=1e-6)
    assert results[0].tobytes() == results[1].tobytes()


@each_tier
@pytest.mark.parametrize("window", [(3, 2), (3, 1), (2, 2), (5, 1)], ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_bodies(tier: Any, window: Any, data: Any) -> None:
    size, stride = window
    case = data.draw(cases(tier.lanes, (1, size, size), (1, stride, stride), ceil=True))
    op, include_pad = data.draw(st.sampled_from([("max", False), ("average", False), ("average", True)]))
    check(tier, case, op, include_pad)


FLAT = [
    (3, 1, 2, 2, 1), (4, 2, 1, 1, 3), (2, 3, 3, 3, 1), (1, 3, 1, 3, 2), (2, 5, 2, 4, 2), (7, 7, 1, 1, 1),
    (2, 2, 1, 3, 1), (5, 5, 2, 2, 3), (1, 2, 2, 2, 2),
]  # fmt: skip
"""k_h, k_w, stride_y, stride_x, dilation: in tiles, their outputs neighbors or apart, and not."""


@each_tier
@pytest.mark.parametrize("window", FLAT, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_other_flat_windows(tier: Any, window: Any, data: Any) -> None:
    k_h, k_w, stride_y, stride_x, dilation = window
    case = data.draw(cases(tier.lanes, (1, k_h, k_w), (1, stride_y, stride_x), dilation, ceil=True))
    op, include_pad = data.draw(st.sampled_from([("max", False), ("average", False), ("average", True)]))
    check(tier, case, op, include_pad)


DEEP = [((1, 2, 2), (1, 2, 2), 1), ((2, 2, 2), (2, 2, 2), 1), ((3, 3, 3), (2, 2, 2), 1), ((3, 1, 1), (1, 1, 1), 1),
        ((2, 3, 3), (1, 1, 1), 2), ((5, 2, 2), (3, 1, 1), 1)]  # fmt: skip
"""Kernel, strides and dilation of windows in tiles that have several planes."""


@each_tier
@pytest.mark.parametrize("window", DEEP, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_deep_windows(tier: Any, window: Any, data: Any) -> None:
    case = data.draw(cases(tier.lanes, *window, ceil=True))
    op, include_pad = data.draw(st.sampled_from([("max", False), ("average", False), ("average", True)]))
    check(tier, case, op, include_pad)


@each_tier
@pytest.mark.parametrize("width", [1, 3, 5, 40, 64, 65, 200])
def test_wide_windows(tier: Any, width: int) -> None:
    """Windows whose columns fill the buffer, and more than that; stride and dilation leave gaps in some."""
    for stride, dilation, pad in ((1, 1, 0), (3, 1, 1), (70, 1, 0), (1, 3, 0), (2, 70, 0)):
        reach = (width - 1) * dilation + 1
        size = max(reach + 2 * stride - 2 * pad, 1)
        out = (size + 2 * pad - reach) // stride + 1
        g = Window(
            1, 5, (1, 2, size), (1, 2, width), (1, 1, out), (1, 1, stride), (1, 1, dilation), (0, 0, pad), (0, 0, pad)
        )
        for op in OPS:
            check(tier, Case(g, general=True), op, op == "average" and pad > 0)


@each_tier
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_window(tier: Any, data: Any) -> None:
    op = data.draw(st.sampled_from(OPS))
    check(tier, data.draw(cases(tier.lanes, ceil=True)), op, op == "average" and data.draw(st.booleans()))


@each_tier
@pytest.mark.parametrize("ending", ["bounds", "addend", "chain"])
def test_epilogue(tier: Any, ending: str) -> None:
    for op, dilation in (("average", 1), ("lp2", 1), ("max", 2)):
        size = 7 + dilation
        out = (1, 9 - dilation, 9 - dilation)
        g = Window(2, 33, (1, size, size), (1, 3, 3), out, dilations=(1, dilation, dilation), pads=(0, 1, 1))
        rng, x = draws(Case(g, 1, 4), 33)
        chain, operands, slots = endings(tier, g, rng)[ending]
        want = eval_chain(chain, [expected(Case(g, 1, 4), op, False, x), *(a.astype(float) for a in operands)])
        np.testing.assert_allclose(compute(tier, Case(g, 1, 4), op, False, x, slots), want, rtol=1e-5, atol=1e-6)


@each_tier
@pytest.mark.parametrize("dilation", [1, 2])
def test_nan_and_infinity(tier: Any, dilation: int) -> None:
    """A window of only NaN gives -inf, NaN never hides a neighbor window's maximum, and -inf is a number."""
    out = 8 - 2 * dilation
    g = Window(1, 2, (1, 8, 8), (1, 3, 3), (1, out, out), dilations=(1, dilation, dilation))
    x = np.arange(128, dtype=np.float32).reshape(1, 1, 8, 8, 2)
    x[..., 1] = -np.inf
    x[:, :, :6, :6, 0] = np.nan
    y = compute(tier, Case(g), "max", False, x)
    assert (y[..., 1] == -np.inf).all()
    assert y[0, 0, 0, 0, 0] == -np.inf and y[0, 0, -1, -1, 0] == 126


@each_tier
@pytest.mark.parametrize("size, stride", [(2, 2), (3, 1), (3, 2), (5, 1), (7, 2)])
def test_max_passes_over_nan_wherever_it_is(tier: Any, size: int, stride: int) -> None:
    out = (11 - size) // stride + 1
    case = Case(Window(1, 17, (1, 11, 11), (1, size, size), (1, out, out), strides=(1, stride, stride)))
    _, x = draws(case, 17)
    numbers = np.where(np.random.default_rng(6).random(x.shape) < 0.3, np.nan, x).astype(np.float32)
    want = expected(case, "max", False, np.where(np.isnan(numbers), -np.inf, numbers))
    np.testing.assert_array_equal(compute(tier, case, "max", False, numbers), want)
    assert not np.isnan(want).any() and (want != expected(case, "max", False, x)).any()


def test_average_like_onnxruntime() -> None:
    """ceil_mode with and without count_include_pad: what lies beyond the padded image never counts."""
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    tier = tiers.choose()
    for size, k, s, pad, include in (
        (7, 3, 2, 1, 1),
        (8, 3, 2, 1, 1),
        (8, 3, 2, 1, 0),
        (6, 2, 3, 0, 1),
        (10, 4, 3, 2, 1),
    ):
        x = np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32)
        node = onnx.helper.make_node(
            "AveragePool",
            ["x"],
            ["y"],
            kernel_shape=[k, k],
            strides=[s, s],
            pads=[pad] * 4,
            ceil_mode=1,
            count_include_pad=include,
        )
        f32 = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            [node],
            "g",
            [onnx.helper.make_tensor_value_info("x", f32, x.shape)],
            [onnx.helper.make_tensor_value_info("y", f32, None)],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        want = session.run(None, {"x": x})[0].transpose(0, 2, 3, 1)
        g = Window(
            1,
            3,
            (1, size, size),
            (1, k, k),
            (1, *want.shape[1:3]),
            (1, s, s),
            pads=(0, pad, pad),
            ends=(0, pad, pad),
        )
        got = compute(tier, Case(g), "average", bool(include), x.transpose(0, 2, 3, 1)[:, None])
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-5, atol=1e-6, err_msg=str((size, k, s, pad, include)))

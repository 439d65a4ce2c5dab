"""Operators of users: where they run, and all that a node may have."""

import numba
import numpy as np
import pytest

import fastgraph as fg
from fastgraph.ops.registry import USERS
from tests.custom_ops import (
    DOMAIN,
    F32,
    I64,
    between,
    forgotten,  # noqa: F401
    is_native,
    numbers,
    register,
    single,
    squash,
    squashed,
    with_domain,
)
from tests.nets import Net


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", [None, "generic", "numpy"])
def test_it_runs_between_other_steps(isa: str | None, threads: int) -> None:
    register()
    model = between().load(isa=isa, threads=threads)
    assert is_native(model.plan) == (isa != "numpy") and len(model.plan.segments) == (isa != "numpy")
    for seed in range(3):
        x = numbers(2, 5, 3, seed=seed)
        np.testing.assert_allclose(model(x), np.maximum(squashed(-x), 0), rtol=1e-6)


def test_what_shows_plans_calls_it_by_its_name() -> None:
    from fastgraph.tools.asm import step_text
    from fastgraph.tools.profile import profile

    register()
    model = between().load()
    assert "my.domain.Squash(x=float32[?,?,?],y=float32[?,?,?])" in str(model.plan)
    assert "my.domain.Squash" in {row["op"] for row in profile(model.plan, 2)}
    report = fg.verify(model)
    assert (
        report.ok
        and report.steps[1].op == "my.domain.Squash"
        and report.steps[1].kernel.startswith("my.domain.Squash(")
    )
    assert "my.domain.Squash" in str(report) and "my.domain.Squash(%v0)" in str(model.graph)
    text = step_text(model.plan, 1)
    assert "x.1" in text and "my.domain.Squash" in text and "ret" in text


def test_a_new_shape_or_a_second_node_compiles_nothing() -> None:
    register()
    model = between(("n", 5, "m")).load()
    for n, m in ((1, 2), (3, 4), (0, 2)):
        x = numbers(n, 5, m)
        np.testing.assert_allclose(model(x), np.maximum(squashed(-x), 0), rtol=1e-6)
        assert is_native(model.plan) or not n
    between((4, 4, 4)).load()
    assert len(USERS[DOMAIN, "Squash"].kernels) == 1


@pytest.mark.slow
def test_a_function_that_numba_has_compiled_already() -> None:
    register(kernel=numba.njit(fastmath=True)(squash))
    model = between().load()
    assert is_native(model.plan)
    x = numbers(2, 5, 3)
    np.testing.assert_allclose(model(x), np.maximum(squashed(-x), 0), rtol=1e-6)


def test_a_numpy_function_runs_between_native_calls() -> None:
    def by_sorting(x, y):
        y[...] = np.array(sorted(x.ravel().tolist())).reshape(x.shape)

    register(kernel=by_sorting, native=False)
    model = between().load()
    assert not is_native(model.plan) and len(model.plan.segments) == 2
    x = numbers(2, 5, 3)
    np.testing.assert_array_equal(model(x), np.maximum(np.sort(-x.ravel()).reshape(x.shape), 0))
    assert fg.verify(model).ok


# -- what a node may have


def test_attributes_of_all_kinds() -> None:
    def mixed(x, y, *, scale, shift, mode, places, weights, names, table, missing=2.5):
        for i in range(x.size):
            y[i] = x[i] * scale + shift + places[1] + weights[0] * table[0, i % 2] + missing
        if mode == "double" and names[1] == "b":
            for i in range(x.size):
                y[i] *= 2

    seen = []

    def infer(types, attrs):
        seen.append(attrs)
        return [fg.TensorType(np.float32, types[0].shape)]

    register("Mixed", mixed, infer)
    table = np.float32([[3, 4]])
    net = Net()
    from onnx import numpy_helper

    net.output(net("Mixed", net.input("x", (4,)), domain=DOMAIN, scale=2.0, shift=3, mode="double", places=[5, 6],
                   weights=[0.5, 1.5], names=["a", "b"], table=numpy_helper.from_array(table)))  # fmt: skip
    x = numbers(4)
    right = 2 * (2 * x + 3 + 6 + 0.5 * table[0, [0, 1, 0, 1]] + 2.5)
    for isa in (None, "numpy"):
        model = net.load(isa=isa)
        np.testing.assert_allclose(model(x), right, rtol=1e-6)
    assert fg.verify(net.load()).ok
    assert seen[-1]["places"] == (5, 6) and seen[-1]["names"] == ("a", "b") and seen[-1]["scale"] == 2.0
    np.testing.assert_array_equal(seen[-1]["table"], table)


@pytest.mark.slow
def test_long_lists_are_arrays() -> None:
    def summed(x, y, *, weights, places):
        for i in range(x.size):
            for k in range(len(weights)):
                y[i] += x[i] * weights[k] + places[k]

    register("Summed", summed)
    x = numbers(3)
    for count in (16, 17):
        weights, places = [0.5] * count, [2] * count
        model = single("Summed", (3,), weights=weights, places=places).load()
        assert is_native(model.plan)
        np.testing.assert_allclose(model(x), count * (x * 0.5 + 2), rtol=1e-3)
    register("Named", lambda x, y, *, names: None)
    with pytest.raises(fg.ModelError, match="'names' is a list of 17 items that are not all numbers"):
        single("Named", (3,), names=["a"] * 17).load()


@pytest.mark.slow
def test_attributes_are_read_at_run_time_but_for_text() -> None:
    def scaled(x, y, factor=1.0, mode="up"):
        for i in range(x.size):
            y[i] = x[i] * factor if mode == "up" else x[i] / factor

    register("Scaled", scaled)
    net = Net()
    y = net("Scaled", net.input("x", (4,)), domain=DOMAIN, factor=3.0)
    y = net("Scaled", y, domain=DOMAIN, factor=5.0)
    net.output(net("Scaled", net("Scaled", y, domain=DOMAIN), domain=DOMAIN, factor=2.0, mode="down"))
    x = numbers(4)
    np.testing.assert_allclose(net.load()(x), x * 15 / 2, rtol=1e-6)
    assert len(USERS[DOMAIN, "Scaled"].kernels) == 2


@pytest.mark.slow
def test_an_operand_may_be_absent_or_constant() -> None:
    def biased(x, bias, scale, y):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j]
                if bias is not None:
                    y[i, j] += bias[j]
                if scale is not None:
                    y[i, j] *= scale[j]

    register("Biased", biased)
    x, b, s = numbers(2, 3), np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for constants, right in (([], x), ([b], x + b), ([b, s], (x + b) * s)):
        model = single("Biased", (2, 3), constants=constants).load()
        assert is_native(model.plan)
        np.testing.assert_allclose(model(x), right, rtol=1e-6)
        assert fg.verify(model).ok
    net = Net()
    net.output(net("Biased", net.input("x", (2, 3)), "", s, domain=DOMAIN))
    np.testing.assert_allclose(net.load()(x), x * s, rtol=1e-6)


@pytest.mark.slow
def test_several_results_a_scalar_among_them() -> None:
    def extremes(x, low, high, count):
        for i in range(x.shape[0]):
            low[i], high[i] = x[i].min(), x[i].max()
            count[()] += x.shape[1]

    def infer(types, attrs):
        rows = fg.TensorType(np.float32, types[0].shape[:1])
        return [rows, rows, fg.TensorType(np.int64, ())]

    register("Extremes", extremes, infer)
    net = Net()
    low, high, count = net("Extremes", net.input("x", (4, 6)), domain=DOMAIN, outputs=3)
    net.output(net("Sub", high, low))
    net.output(count, dtype=I64)
    model, x = net.load(), numbers(4, 6)
    assert is_native(model.plan)
    for _ in range(2):  # results are zeros each time
        made, found = model(x)
        np.testing.assert_allclose(made, x.max(1) - x.min(1), rtol=1e-6)
        assert found.shape == () and found == 24
    assert fg.verify(model).ok


MORE_TYPES = ["float64", "uint8", "int16", "int32", "int64", "uint32", "complex64"]


@pytest.mark.parametrize("dtype", ["int8", "bool", *(pytest.param(t, marks=pytest.mark.slow) for t in MORE_TYPES)])
def test_element_types(dtype: str) -> None:
    def turned(x, y):
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i]

    register("Turned", turned)
    x = np.arange(5).astype(dtype)
    model = single("Turned", (5,), kinds=[np.dtype(dtype)], dtype=np.dtype(dtype)).load()
    assert is_native(model.plan)
    np.testing.assert_array_equal(model(x), x[::-1])


def test_infer_sees_constants() -> None:
    def head(x, count, y):
        for i in range(y.shape[0]):
            y[i] = x[i]

    def infer(types, attrs):
        return [types[0].with_shape((int(types[1].data[0]),))]

    register("Head", head, infer)
    model, x = single("Head", (5,), constants=[np.int64([3])]).load(), numbers(5)
    assert is_native(model.plan) and fg.verify(model).ok
    np.testing.assert_array_equal(model(x), x[:3])
    with pytest.raises(fg.ModelError, match="'NoneType' object is not subscriptable"):
        single("Head", (5,), (1,), kinds=[F32, I64]).load()


@pytest.mark.slow
def test_layers_around_it_keep_their_own_order_of_axes() -> None:
    def corner(x, y):
        for n in range(x.shape[0]):
            for c in range(x.shape[1]):
                y[n, c] = x[n, c] - x[n, c, 0, 0] * c

    register("Corner", corner)
    net, plain = Net(), Net()
    for each in (net, plain):
        y = each("Conv", each.input("x", (1, 3, 8, 8)), each.weight(4, 3, 3, 3))
        if each is net:
            y = each("Corner", y, domain=DOMAIN)
        else:
            first = each("Slice", y, [0, 0], [1, 1], [2, 3])
            y = each("Sub", y, each("Mul", first, np.arange(4, dtype=F32).reshape(4, 1, 1)))
        each.output(each("Relu", each("Conv", y, each.weight(5, 4, 3, 3))))
    x = numbers(1, 3, 8, 8)
    np.testing.assert_allclose(net.load()(x), plain.load()(x), rtol=1e-4, atol=1e-5)
    assert fg.verify(net.load(threads=2)).ok


@pytest.mark.slow
def test_between_quantized_layers_it_computes_reals() -> None:
    register()
    net = Net()
    scale, zero = net.const(np.float32(0.02)), net.const(np.uint8(128))

    def rounded(x: str) -> str:
        return net("DequantizeLinear", net("QuantizeLinear", x, scale, zero), scale, zero)

    net.output(rounded(net("Squash", rounded(net.input("x", (3, 4))), domain=DOMAIN)))
    x = numbers(3, 4)
    steps = np.rint(squashed(np.float32(0.02) * np.rint(x / np.float32(0.02))) / np.float32(0.02))
    np.testing.assert_allclose(net.load()(x), np.float32(0.02) * steps, atol=1e-6)
    assert fg.verify(net.load()).ok


def test_views_are_made_dense() -> None:
    """What another kernel would read in steps, a user's function gets as one block."""
    register()
    net = Net()
    parts = net("Split", net("Relu", net.input("x", (4, 6))), axis=1, outputs=2)
    made = [net("Squash", part, domain=DOMAIN) for part in parts]
    net.output(net("Concat", *made, axis=1))
    x = numbers(4, 6)
    np.testing.assert_allclose(net.load()(x), squashed(np.maximum(x, 0)), rtol=1e-6)


def test_shapes_that_hang_on_data_are_left_to_python() -> None:
    register()
    net = Net()
    places = net("NonZero", net.input("x", (8,)))
    net.output(net("Squash", net("Cast", places, to=1), domain=DOMAIN))
    x = np.float32([0, 1, 0, 2, 3, 0, 0, 4])
    np.testing.assert_allclose(net.load()(x), squashed(np.float32([[1, 3, 4, 7]])), rtol=1e-6)


@pytest.mark.parametrize("native", [True, False])
def test_only_python_folds_constants_and_the_dead_are_dropped(native: bool) -> None:
    register(native=native)
    net = Net()
    x = net.input("x", (4,))
    c = np.float32([1, -2, 3, 4])
    net("Squash", x, domain=DOMAIN)
    net.output(net("Add", x, net("Squash", c, domain=DOMAIN)))
    model = net.load()
    assert sum("Squash" in step.node.op for step in model.plan.program.steps) == native
    np.testing.assert_allclose(model(c), c + squashed(c), rtol=1e-6)


def test_within_a_loop() -> None:
    register()
    body = Net(prefix="b")
    body.input("i", (), I64)
    body.input("on", (), bool)
    carried = body("Squash", body.input("v", (4,)), domain=DOMAIN)
    body.output(body("Identity", "on"), dtype=bool)
    body.output(carried)
    net = Net()
    x = net.input("x", (4,))
    net.output(net("Loop", 3, True, x, body=body.graph()))
    model = fg.load(with_domain(net), threads=1)
    assert is_native(model.plan)
    x = numbers(4)
    np.testing.assert_allclose(model(x), squashed(squashed(squashed(x))), rtol=1e-6)


def test_a_function_of_the_file_gives_way() -> None:
    from onnx import helper

    register()
    model = between().model()
    body = [helper.make_node("Tanh", ["a"], ["b"])]
    function = helper.make_function(DOMAIN, "Squash", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    model.functions.append(function)
    x = numbers(2, 5, 3)
    np.testing.assert_allclose(fg.load(model.SerializeToString())(x), np.maximum(squashed(-x), 0), rtol=1e-6)

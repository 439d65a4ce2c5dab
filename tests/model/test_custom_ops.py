"""Operators that users add: in each format, with all that a file may say of them, and what goes wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest
from flatbuffers.flexbuffers import Dumps

import fastgraph as fg
from fastgraph.ops.registry import OPS, USERS
from fastgraph.plan.program import HostStep, Step, UserKernel
from fastgraph.runtime.executable import Executable
from tests.circle.write import Model
from tests.mil.mil_write import Program
from tests.nets import Net

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
DOMAIN = "my.domain"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test sees the operators of another."""
    before = dict(USERS)
    USERS.clear()
    yield
    USERS.clear()
    USERS.update(before)


def same(types: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [types[0]]


def squash(x, y):
    for i in range(x.size):
        y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))


def register(name: str = "Squash", kernel: Any = squash, infer: Any = same, **more: Any) -> None:
    fg.register_custom_op(DOMAIN, name, infer=infer, kernel=kernel, **more)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def squashed(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.abs(x))


def between(shape: Any = (2, 5, 3)) -> Net:
    """Squash between steps that have kernels."""
    net = Net()
    y = net("Squash", net("Neg", net.input("x", shape)), domain=DOMAIN)
    net.output(net("Relu", y))
    return net


def single(
    name: str, *shapes: Any, outputs: int = 1, dtype: Any = F32, constants: Any = (), kinds: Any = (), **attrs: Any
) -> Net:
    net = Net()
    kinds = kinds or [F32] * len(shapes)
    inputs = [
        net.input(f"x{i}", s, k) if s is not None else "" for i, (s, k) in enumerate(zip(shapes, kinds, strict=True))
    ]
    made = net(name, *inputs, *map(net.const, constants), domain=DOMAIN, outputs=outputs, **attrs)
    net.output(*([made] if outputs == 1 else made), dtype=dtype)
    return net


def is_native(plan: Executable) -> bool:
    steps = plan.program.steps
    return any(isinstance(s, Step) and isinstance(s.kernel, UserKernel) for s in steps) and not any(
        isinstance(s, HostStep) for s in steps
    )


# -- where they run


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
    assert "my.domain.Squash(x=float32[?,?,?],y=float32[?,?,?])" in str(model)
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


def test_long_lists_are_arrays() -> None:
    def summed(x, y, *, weights, places):
        for i in range(x.size):
            for k in range(len(weights)):
                y[i] += x[i] * weights[k] + places[k]

    register("Summed", summed)
    x = numbers(3)
    for count in (2, 16, 17, 2000):
        weights, places = [0.5] * count, [2] * count
        model = single("Summed", (3,), weights=weights, places=places).load()
        assert is_native(model.plan)
        np.testing.assert_allclose(model(x), count * (x * 0.5 + 2), rtol=1e-3)
    register("Named", lambda x, y, *, names: None)
    with pytest.raises(fg.ModelError, match="'names' is a list of 17 items that are not all numbers"):
        single("Named", (3,), names=["a"] * 17).load()


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
    net.output(net("Biased", net.input("x", (2, 3)), "", net.const(s), domain=DOMAIN))
    np.testing.assert_allclose(net.load()(x), x * s, rtol=1e-6)


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


@pytest.mark.parametrize(
    "dtype", ["float64", "int8", "uint8", "int16", "int32", "int64", "uint32", "bool", "complex64"]
)
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
            first = each("Slice", y, each.const([0, 0]), each.const([1, 1]), each.const([2, 3]))
            y = each("Sub", y, each("Mul", first, each.const(np.arange(4, dtype=F32).reshape(4, 1, 1))))
        each.output(each("Relu", each("Conv", y, each.weight(5, 4, 3, 3))))
    x = numbers(1, 3, 8, 8)
    np.testing.assert_allclose(net.load()(x), plain.load()(x), rtol=1e-4, atol=1e-5)
    assert fg.verify(net.load(threads=2)).ok


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


def test_constants_are_folded_and_the_dead_dropped() -> None:
    register()
    net = Net()
    x = net.input("x", (4,))
    c = np.float32([1, -2, 3, 4])
    net("Squash", x, domain=DOMAIN)
    net.output(net("Add", x, net("Squash", net.const(c), domain=DOMAIN)))
    model = net.load()
    assert not any("Squash" in step.node.op for step in model.plan.program.steps)
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
    net.output(net("Loop", net.const(np.int64(3)), net.const(np.array(True)), x, body=body.graph()))
    model = fg.load(_with_domain(net), threads=1)
    assert is_native(model.plan)
    x = numbers(4)
    np.testing.assert_allclose(model(x), squashed(squashed(squashed(x))), rtol=1e-6)


def _with_domain(net: Net) -> bytes:
    from onnx import helper

    model = net.model()
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model.SerializeToString()


def test_a_function_of_the_file_gives_way() -> None:
    from onnx import helper

    register()
    model = between().model()
    body = [helper.make_node("Tanh", ["a"], ["b"])]
    function = helper.make_function(DOMAIN, "Squash", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    model.functions.append(function)
    x = numbers(2, 5, 3)
    np.testing.assert_allclose(fg.load(model.SerializeToString())(x), np.maximum(squashed(-x), 0), rtol=1e-6)


# -- other formats


@pytest.mark.parametrize("schema", ["tflite", "circle"])
def test_a_custom_operator_of_tflite(schema: str) -> None:
    def scaled(x, y, factor, steps):
        for i in range(x.size):
            y.flat[i] = x.flat[i] * factor + steps[1]

    register("Scaled", scaled)
    m = Model(schema)
    options = bytes(Dumps({"factor": 2.5, "steps": [1, 7]}))
    data = m.bytes(m.op("Scaled", [m.input((2, 3))], [(2, 3)], custom=options))
    model, x = fg.load(data, threads=1), numbers(2, 3)
    assert is_native(model.plan)
    np.testing.assert_allclose(model(x), x * 2.5 + 7, rtol=1e-6)
    assert fg.verify(model).ok


def test_options_that_are_no_map_are_bytes() -> None:
    def shifted(x, y, custom_options):
        for i in range(x.size):
            y[i] = x[i] + custom_options[1]

    register("Shifted", shifted)
    m = Model()
    data = m.bytes(m.op("Shifted", [m.input((4,))], [(4,)], custom=b"\x01\x09\x00\x80"))
    x = numbers(4)
    for isa in (None, "numpy"):
        np.testing.assert_allclose(fg.load(data, isa=isa)(x), x + 9, rtol=1e-6)


def test_quantized_operands_are_the_stored_integers() -> None:
    def negated(x, y):
        for i in range(x.size):
            y[i] = -x[i]

    register("Negated", negated)
    m = Model()
    x = m.input((4,), np.int8, (0.5, 0))
    data = m.bytes(m.op("Negated", [x], [((4,), np.int8, (0.5, 0))], custom=b""))
    stored = np.int8([1, -2, 3, 100])
    model = fg.load(data)
    assert is_native(model.plan)
    np.testing.assert_array_equal(model(stored), -stored)
    assert fg.verify(model).ok


def test_a_custom_layer_of_core_ml() -> None:
    def mixed(b, a, y, alpha, mode):
        for i in range(a.size):
            y.flat[i] = a.flat[i] - b.flat[i] * alpha if mode == "minus" else 0

    register("MyLayer", mixed)
    x, w = numbers(1, 4), numbers(1, 4, seed=1)
    for order in ([np.array("b", object), np.array("a", object)], []):
        p = Program()
        p.input("x", (1, 4))
        more = {"input_order": _text_list(order)} if order else {}
        p.output(p.op("custom_layer", "y", types=("FLOAT32", (1, 4)), a="x", b=w, alpha=np.float32(2),
                      mode=np.array("minus", object), class_name=np.array("MyLayer", object),
                      description=np.array("says", object), direct=(*more,), **more))  # fmt: skip
        model = fg.load(p.zip(), threads=1)
        assert is_native(model.plan)
        np.testing.assert_allclose(model(x), x - 2 * w, rtol=1e-5)


def _text_list(items: list[Any]) -> Any:
    from tests.mil.mil_write import list_value

    return list_value(items)


def test_an_operator_of_core_ml_that_is_unknown() -> None:
    def squash(x, y):
        for i in range(x.size):
            y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))

    register("squash", squash)
    p = Program()
    p.output(p.op("squash", "y", x=p.input("x", (1, 4))))
    x = numbers(1, 4)
    np.testing.assert_allclose(fg.load(p.zip(), threads=1)(x), squashed(x), rtol=1e-6)


def test_float16_of_core_ml_is_float32() -> None:
    register("squash")
    p = Program()
    half = p.op("cast", "h", x=p.input("x", (2, 3)), dtype=np.array("fp16", object), types=("FLOAT16", (2, 3)))
    p.output(
        p.op("cast", "y", x=p.op("squash", "s", x=half), dtype=np.array("fp32", object), types=("FLOAT32", (2, 3)))
    )
    x = numbers(2, 3)
    model = fg.load(p.zip(), threads=1)
    assert is_native(model.plan)
    np.testing.assert_allclose(model(x), squashed(x), rtol=2e-3)


def test_files_without_domains_want_one_of_the_name() -> None:
    m = Model()
    data = m.bytes(m.op("Squash", [m.input((4,))], [(4,)], custom=b""))
    register()
    fg.register_custom_op("other", "Squash", infer=same, kernel=squash)
    with pytest.raises(fg.ModelError, match="domains 'my.domain', 'other'.*domain None"):
        fg.load(data)
    fg.register_custom_op(None, "Squash", infer=same, kernel=squash)
    x = numbers(4)
    np.testing.assert_allclose(fg.load(data)(x), squashed(x), rtol=1e-6)


def test_the_standard_domain_keeps_its_operators() -> None:
    def wrong(x, y):
        y[0] = 1

    fg.register_custom_op(None, "Relu", infer=same, kernel=wrong)
    fg.register_custom_op("ai.onnx", "Squash", infer=same, kernel=squash)
    net = Net()
    net.output(net("Squash", net("Relu", net.input("x", (4,)))))
    x = numbers(4)
    np.testing.assert_allclose(net.load()(x), squashed(np.maximum(x, 0)), rtol=1e-6)


# -- threads, locks, time


def slow(x, y, rounds=1):
    total = 0.0
    for k in range(rounds):
        total += np.sin(float(k)) * x.flat[0]
    y.flat[0] = total


def slow_net(rounds: int, after: bool = True) -> Net:
    net = Net()
    y = net("Slow", net.input("x", (4,)), domain=DOMAIN, rounds=rounds)
    net.output(net("Relu", y) if after else y)
    return net


def rounds_of(seconds: float) -> int:
    model, rounds = slow_net(1_000_000).load(), 1_000_000
    model(numbers(4))
    began = time.perf_counter()
    model(numbers(4))
    return int(rounds * seconds / (time.perf_counter() - began))


def test_the_interpreter_goes_on_meanwhile() -> None:
    register("Slow", slow)
    model = slow_net(rounds_of(0.5)).load()
    done, turns = [], 0

    def run() -> None:
        model(numbers(4))
        done.append(True)

    runner = threading.Thread(target=run)
    runner.start()
    while not done:
        turns += 1
        time.sleep(0.001)
    runner.join()
    assert turns > 10


@pytest.mark.parametrize("after", [True, False], ids=["not the last", "the last"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_timeout_is_noticed_after_the_step(threads: int, after: bool) -> None:
    register("Slow", slow)
    model = slow_net(rounds_of(0.3), after).load(threads=threads)
    with pytest.raises(fg.RunTimeout):
        model.run({"x": numbers(4)}, timeout=0.05)
    model.run({"x": numbers(4)}, timeout=60)


def test_threads_compile_at_once() -> None:
    """As do kernels of the plan's own: a tier's are compiled by parts of numba's of which there is one."""
    register()
    found: list[float] = []

    def run(axes: int) -> None:
        found.append(float(between((2,) * axes).load()(np.full((2,) * axes, -1, F32)).flat[0]))

    threads = [threading.Thread(target=run, args=(1 + i % 3,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [0.5] * 6 and len(USERS[DOMAIN, "Squash"].kernels) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_runs_and_compiles() -> None:
    register()
    model = between((4,)).load(threads=2)
    x = np.full(4, -1, F32)
    assert model(x).tolist() == [0.5] * 4
    child = os.fork()
    if not child:
        try:
            fine = model(x).tolist() == [0.5] * 4 and between((4, 1)).load()(x[:, None]).tolist() == [[0.5]] * 4
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_two_models_at_once() -> None:
    register()
    models = [between((8, 50, 7)).load(threads=threads) for threads in (1, 2)]
    wrong: list[Any] = []

    def run(model: Any, seed: int) -> None:
        for turn in range(50):
            x = numbers(8, 50, 7, seed=seed + turn)
            if not np.allclose(model(x), np.maximum(squashed(-x), 0), rtol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(model, i)) for i, model in enumerate(models)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


# -- what goes wrong


def test_an_exception_of_a_kernel_is_the_run_s() -> None:
    def checked(x, y):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("no roots below 0")
            y[i] = np.sqrt(x[i])

    register("Roots", checked)
    net = Net()
    y = net("Roots", net("Neg", net.input("x", (4,))), domain=DOMAIN)
    net.output(net("Neg", net("Relu", y)))
    for threads in (1, 2):
        model = net.load(threads=threads)
        fine = np.float32([-1, -4, -9, -16])
        for _ in range(2):
            np.testing.assert_allclose(model(fine), [-1, -2, -3, -4])
            with pytest.raises(
                fg.InputError, match=r"node Roots_1: my.domain.Roots: .*ValueError: no roots below 0.*line \d+"
            ):
                model(-fine)
        with pytest.raises(fg.InputError, match="no roots below 0"):
            model.run({"x": -fine}, timeout=9)
        with pytest.raises(fg.FastgraphError, match="no roots below 0"):
            fg.verify(model, {"x": -fine})
    with pytest.raises(fg.InputError, match="no roots below 0"):
        net.load(isa="numpy")(-fine)


def test_a_failed_run_leaves_variables_alone() -> None:
    def checked(x, y, rounds=1):
        if x[0] < 0:
            raise ValueError("below 0")
        total = 0.0
        for k in range(rounds):
            total += np.sin(float(k))
        y[0] = x[0] + 0 * total

    register("Checked", checked)
    m = Model()
    v, x = m.variable((1,)), m.input((1,), name="x")
    (y,) = m.op("Checked", [m.op("ADD", [x, v], [(1,)])[0]], [(1,)], custom=bytes(Dumps({"rounds": 20_000_000})))
    m.op("ADD", [m.const(np.float32([1])), v], [v])
    model = fg.load(m.bytes([y]), threads=1)
    assert model(np.float32([5])) == 5
    for _ in range(2):
        with pytest.raises(fg.InputError, match="below 0"):
            model(np.float32([-9]))
    with pytest.raises(fg.RunTimeout):
        model.run({"x": np.float32([5])}, timeout=0.01)
    assert model(np.float32([5])) == 6


def test_what_failed_first_is_what_is_said() -> None:
    """An index out of range before a kernel that raises on what came of it; and one behind a kernel that is fine."""

    def checked(x, y):
        for i in range(x.size):
            if not abs(x[i]) < 100:
                raise ValueError("too much")
            y[i] = x[i]

    register("Checked", checked)
    net = Net()
    rows = net("Gather", net.const(np.float32([1, 2, 3])), net.input("i", (2,), I64))
    net.output(net("Checked", net("Mul", rows, net.input("x", (2,))), domain=DOMAIN))
    for threads in (1, 2):
        model = net.load(threads=threads)
        assert model(np.int64([0, 1]), np.float32([1, 2])).tolist() == [1, 4]
        with pytest.raises(fg.InputError, match="gather takes -3 to 2") as error:
            model(np.int64([0, 7]), np.float32([1, 1]))
        assert "raised" not in str(error.value)
        with pytest.raises(fg.InputError, match="too much"):
            model(np.int64([0, 1]), np.float32([1, np.nan]))


def test_shapes_that_hang_on_data_where_infer_wants_numbers() -> None:
    def longer(x, y):
        for i in range(x.size):
            y[i] = x.flat[i]

    register("Longer", longer, lambda types, attrs: [fg.TensorType(np.float32, (types[0].shape[1] + 1,))])
    net = Net()
    places = net("NonZero", net.input("x", (8,)))
    net.output(net("Relu", net("Longer", net("Cast", places, to=1), domain=DOMAIN)))
    x = np.float32([0, 1, 0, 2, 3, 0, 0, 4])
    for isa in (None, "numpy"):
        assert net.load(isa=isa)(x).tolist() == [1, 3, 4, 7, 0]


def test_indices_out_of_range_are_found_where_checks_are_on() -> None:
    def beyond(x, y):
        y[0] = x[x.shape[0]]

    register("Beyond", beyond)
    with pytest.raises(fg.InputError, match="IndexError"):
        single("Beyond", (4,)).load()(numbers(4))
    with pytest.raises(fg.FastgraphError, match="IndexError"):
        fg.verify(single("Beyond", (4,)).load(), {"x0": numbers(4)})


def test_what_numba_refuses_is_said_in_its_words() -> None:
    def refused(x, y):
        z = x
        y[0] = z.no_such_thing

    register("Refused", refused)
    line = refused.__code__.co_firstlineno
    with pytest.raises(fg.CompilerError) as error:
        single("Refused", (4,)).load()
    text = str(error.value)
    assert "node Refused_0: my.domain.Refused: numba can't compile its kernel refused" in text
    assert f"test_custom_ops.py, line {line + 2}" in text and "native=False" in text
    assert "Unknown attribute 'no_such_thing'" in text


def test_operands_can_not_be_written() -> None:
    def greedy(x, y):
        x[0] = 1
        y[0] = 1

    register("Greedy", greedy)
    with pytest.raises(fg.CompilerError, match="Cannot modify readonly array"):
        single("Greedy", (4,)).load()
    with pytest.raises(fg.InputError, match="read-only"):
        single("Greedy", (4,)).load(isa="numpy")(numbers(4))


def test_results_are_written_not_returned() -> None:
    register("Given", lambda x, y: x + 1)
    with pytest.raises(fg.CompilerError, match="numba says"):
        single("Given", (4,)).load()
    with pytest.raises(fg.InputError, match="returned a ndarray: it is to write"):
        single("Given", (4,)).load(isa="numpy")(numbers(4))


def test_text_is_not_native() -> None:
    def upper(x, y):
        for i in range(x.size):
            y.flat[i] = x.flat[i].upper()

    register("Upper", upper)
    net = single("Upper", (2,), kinds=[np.dtype(object)], dtype=None)
    with pytest.raises(fg.UnsupportedError, match="native=False"):
        net.load()
    register("Upper", upper, native=False, replace=True)
    assert net.load()(np.array(["a", "b"], object)).tolist() == ["A", "B"]


@pytest.mark.parametrize(
    ("infer", "says"),
    [
        (lambda types, attrs: [], "gives 0 types: expected 1"),
        (lambda types, attrs: [types[0]] * 2, "gives 2 types: expected 1"),
        (lambda types, attrs: types[0], "expected a list of fastgraph.TensorType"),
        (lambda types, attrs: [types[0].shape], "expected a list of fastgraph.TensorType"),
        (lambda types, attrs: [fg.TensorType("nonsense", (4,))], "is no type"),
        (lambda types, attrs: [fg.TensorType(np.float32, (4.5,))], "is no type"),
        (lambda types, attrs: [fg.TensorType(np.float32, (-4,))], "negative extent"),
        (lambda types, attrs: [fg.TensorType(np.float32, (None,))], "hang on data.*the most"),
        (lambda types, attrs: [fg.TensorType(None, (4,))], "hang on data.*the most"),
        (lambda types, attrs: 1 / 0, r"its infer raised ZeroDivisionError.*test_custom_ops.py, line"),
        (lambda types: types, "its infer raised TypeError"),
    ],
)  # fmt: skip
def test_what_infer_gives_is_checked(infer: Any, says: str) -> None:
    register(infer=infer)
    with pytest.raises(fg.ModelError, match=f"<bytes>: node Squash_0: my.domain.Squash: .*{says}"):
        single("Squash", (4,)).load()


@pytest.mark.parametrize(
    ("kernel", "found"), [
        (lambda x: None, r"1 \+ 1 arrays and alpha, found \(x\)"),
        (lambda x, b, c, y: None, r"1 \+ 1 arrays"),
        (lambda x, y: None, r"unexpected keyword argument 'alpha'"),
        (lambda x, alpha: None, r"1 \+ 1 arrays"),
        (lambda x, y, alpha, *, beta: None, r"missing a required argument: 'beta'|missing a required keyword-only"),
        (lambda x, y=None, alpha=0: None, r"1 \+ 1 arrays"),
    ],
)  # fmt: skip
def test_a_kernel_of_other_parameters(kernel: Any, found: str) -> None:
    register(kernel=kernel)
    with pytest.raises(fg.FastgraphError, match=f"(?s)Squash.*{found}"):
        single("Squash", (4,), alpha=1.0).load()


def test_defaults_are_what_attributes_may_be() -> None:
    def scaled(x, y, factor=np.float32(2)):  # noqa: B008
        for i in range(x.size):
            y[i] = x[i] * factor

    register("Scaled", scaled)
    np.testing.assert_array_equal(single("Scaled", (2,)).load()(np.float32([1, 2])), [2, 4])

    def worse(x, y, factor=np.ones(2)):  # noqa: B008
        y[0] = factor[0]

    register("Worse", worse)
    with pytest.raises(fg.ModelError, match="attribute 'factor' is a ndarray"):
        single("Worse", (2,)).load()


def test_an_exception_within_a_loop_names_the_node() -> None:
    def checked(x, y):
        for i in range(x.size):
            if x[i] > 2:
                raise ValueError("too much")
            y[i] = x[i] + 1

    register("Checked", checked)
    body = Net(prefix="b")
    body.input("i", (), I64)
    body.input("on", (), bool)
    body.output(body("Identity", "on"), dtype=bool)
    body.output(body("Checked", body.input("v", (4,)), domain=DOMAIN))
    net = Net()
    net.output(net("Loop", net.const(np.int64(5)), net.const(np.array(True)), net.input("x", (4,)), body=body.graph()))
    model = fg.load(_with_domain(net), threads=1)
    for _ in range(2):
        with pytest.raises(
            fg.InputError, match="node Checked_1: .*its kernel raised an exception: load with isa='numpy'"
        ):
            model(np.zeros(4, F32))
        assert model(np.full(4, -9, F32)).tolist() == [-4] * 4


def test_bad_registrations() -> None:
    register()
    with pytest.raises(
        fg.InputError, match=r"'Squash' of domain 'my.domain' is registered already, as squash .*replace=True"
    ):
        register()
    register(replace=True)
    for domain, name, infer, kernel, says in (
        (3, "A", same, squash, "expected a domain"),
        (DOMAIN, "", same, squash, "expected a domain"),
        (DOMAIN, None, same, squash, "expected a domain"),
        (DOMAIN, "A", None, squash, "expected infer to be a function"),
        (DOMAIN, "A", same, "squash", "expected kernel to be a function"),
        (DOMAIN, "A", same, np.sin, "expected its kernel to be a Python function"),
    ):
        with pytest.raises(fg.InputError, match=says):
            fg.register_custom_op(domain, name, infer=infer, kernel=kernel)  # type: ignore[arg-type]
    with pytest.raises(fg.InputError, match="can't be known"):
        fg.register_custom_op(DOMAIN, "A", infer=same, kernel=min, native=False)


def test_a_model_keeps_the_function_it_was_loaded_with() -> None:
    register()
    old = between(("n", 2, 2)).load()
    register(kernel=lambda x, y: None, replace=True)
    x = numbers(3, 2, 2)
    np.testing.assert_allclose(old(x), np.maximum(squashed(-x), 0), rtol=1e-6)
    assert not between((3, 2, 2)).load()(x).any()


def test_files_that_need_one_say_so() -> None:
    m, p = Model(), Program()
    p.output(p.op("custom_layer", "c", x=p.input("x", (1, 4)), class_name=np.array("Mine", object)))
    for data, name in (
        (between().bytes(), "my.domain.Squash"),
        (m.bytes(m.op("Squash", [m.input((4,))], [(4,)], custom=b"")), "custom operator 'Squash'"),
        (p.zip(), "custom layer Mine"),
    ):
        with pytest.raises(fg.UnsupportedError, match=f"(?s){name}.*fastgraph.register_custom_op"):
            fg.load(data)


def test_without_numba_it_is_named(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(between().bytes())
    script = f"""
import sys
sys.modules.update(numba=None)
import fastgraph as fg
def squash(x, y):
    y[...] = x / (1 + abs(x))
register = lambda **more: fg.register_custom_op("my.domain", "Squash", infer=lambda t, a: [t[0]], kernel=squash, **more)
register()
try:
    fg.load({str(path)!r}, threads=1)
except fg.CompilerError as error:
    assert "numba, which can't be imported" in str(error) and "Squash" in str(error), error
else:
    raise AssertionError
register(native=False, replace=True)
fg.load({str(path)!r}, threads=1, isa="numpy").run({{"x": [[[1.0] * 3] * 5] * 2}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_numba_is_imported_for_what_is_compiled_alone(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(between().bytes())
    script = f"""
import sys
import fastgraph as fg
from fastgraph.demo import MODEL
fg.load(MODEL, threads=1)
fg.register_custom_op("my.domain", "Squash", infer=lambda t, a: [t[0]], kernel=lambda x, y: None)
modules = [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")]
fg.load(MODEL, threads=1)
fg.load({str(path)!r}, threads=1, isa="numpy")
assert modules == [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")]
fg.load({str(path)!r}, threads=1)
assert "numba" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_of_users_are_no_operators_of_the_graph() -> None:
    fg.register_custom_op(None, "relu", infer=same, kernel=squash)
    assert OPS["relu"].name == "relu" and USERS["", "relu"].text == "custom.relu"


OPS_FILE = """
import fastgraph as fg


def squash(x, y):
    for i in range(x.size):
        y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))


fg.register_custom_op("my.domain", "Squash", infer=lambda types, attrs: [types[0]], kernel=squash)
"""


def test_the_command_line_takes_a_file_of_them(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from fastgraph.tools.cli import main

    net, ops, wrong = tmp_path / "net.onnx", tmp_path / "ops.py", tmp_path / "wrong.py"
    net.write_bytes(between().bytes())
    ops.write_text(OPS_FILE, encoding="utf-8")
    wrong.write_text("import nothing_such", encoding="utf-8")
    assert main(["verify", str(net), "--custom-ops", str(ops)]) == 0
    assert "my.domain.Squash" in capsys.readouterr().out
    assert main(["inspect", str(net)]) == 0
    assert "my.domain.Squash" in capsys.readouterr().out
    for path, says in ((ops, "registered already"), (wrong, "nothing_such"), (net, "Python"), ("no.py", "no.py")):
        assert main(["inspect", str(net), "--custom-ops", str(path)]) == 2
        assert says in capsys.readouterr().err

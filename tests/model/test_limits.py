"""What a file may cost while it is loaded: small files that ask for much load within the limits, or are refused."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.demo import MODEL, held_out
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime

MB = 1 << 20


def planes(count: int, elements: int) -> Net:
    """The sum over k of x + k, each k as a constant of its own that the file only describes."""
    net = Net(opset=18)
    x, shape = net.input("x", (1,)), net.const(np.array([elements]))
    parts = []
    for k in range(count):
        value = helper.make_tensor("v", TensorProto.FLOAT, [1], [float(k)])
        parts.append(net("ReduceMax", net("Add", x, net("ConstantOfShape", shape, value=value)), keepdims=1))
    net.output(net("Sum", *parts))
    return net


def constants(model: fg.Model) -> int:
    return sum(v.data.nbytes for v in model.plan.graph.constants() if v.data is not None)


def test_constants_of_a_small_file_are_made_up_to_the_limit() -> None:
    source = planes(40, MB // 4).bytes()
    for limit, least, most in ((16 * MB, 1, 8), (4 * MB, 0, 2), (0, 0, 1)):
        model = fg.load(source, threads=1, limits=fg.Limits(constants=limit))
        assert least * MB <= constants(model) <= most * MB + MB // 2
        assert model(np.ones(1, F32)).tolist() == [40 + 39 * 40 / 2]


@pytest.mark.slow
def test_a_bomb_stays_within_the_usual_limits() -> None:
    source = planes(60, 1 << 24).bytes()
    tracemalloc.start()
    try:
        fg.load(source, threads=1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 30
    finally:
        tracemalloc.stop()


def test_what_is_computed_and_let_go_does_not_count() -> None:
    net = Net()
    x, shape = net.input("x", (1,)), net.const(np.array([MB // 4]))
    total = net("ConstantOfShape", shape)
    for k in range(60):
        total = net("Add", total, float(k))
    first = net("Slice", total, [0], [1])
    net.output(net("Add", x, first))
    model = fg.load(net.bytes(), threads=1, limits=fg.Limits(constants=24 * MB))
    assert len(model.plan.graph.nodes) == 1 and constants(model) < MB // 4
    assert model(np.ones(1, F32)).tolist() == [1 + 59 * 60 / 2]


def test_small_parts_do_not_keep_large_constants() -> None:
    net = Net()
    x, shape = net.input("x", (1,)), net.const(np.array([MB // 4]))
    for k in range(60):
        whole = net("Add", net("ConstantOfShape", shape), float(k))
        x = net("Add", x, net("Slice", whole, [k], [k + 1]))
    net.output(x)
    source = net.bytes()
    tracemalloc.start()
    try:
        model = fg.load(source, threads=1)
        assert tracemalloc.get_traced_memory()[0] < 8 * MB
    finally:
        tracemalloc.stop()
    assert model(np.ones(1, F32)).tolist() == [1 + 59 * 60 / 2]


@pytest.mark.parametrize("known", [True, False])
def test_values_that_are_read_no_more_are_let_go(known: bool) -> None:
    """Computed at load, or at run by references as shapes depend on what is fed."""
    net, count, elements = Net(opset=18), 80, MB
    x = net.input("x", (1,))
    shape = net.const(np.array([elements])) if known else net.input("s", (1,), I64)
    for k in range(count):
        value = helper.make_tensor("v", TensorProto.FLOAT, [1], [float(k)])
        x = net("Add", x, net("ReduceMax", net("ConstantOfShape", shape, value=value), keepdims=0))
    net.output(x)
    feeds = {"x": np.zeros(1, F32)} | ({} if known else {"s": np.array([elements])})
    assert peak(net.bytes(), **feeds) < 3 * 4 * elements + 60 * MB  # the compiler and kernels are among it


def test_work_is_limited() -> None:
    net = Net()
    k, shape = net.const(np.array(1, F32)), net.const(np.array([64, 64]))
    m = net("Expand", k, shape)
    for _ in range(20):
        m = net("Clip", net("MatMul", m, m), k, k)
    net.output(net("Add", net.input("x", (1,)), net("ReduceMax", m, keepdims=0)))
    source = net.bytes()
    all_folded, some = fg.load(source, threads=1), fg.load(source, threads=1, limits=fg.Limits(work=1_000_000))
    assert len(all_folded.plan.graph.nodes) == 1 < len(some.plan.graph.nodes) < 45
    assert all_folded(np.ones(1, F32)).tolist() == some(np.ones(1, F32)).tolist() == [2]


def test_huge_products_of_constants_are_left_to_the_run() -> None:
    net = Net()
    k, shape = net.const(np.array(1, F32)), net.const(np.array([4096, 4096]))
    m = net("Expand", k, shape)
    for _ in range(10):
        m = net("MatMul", m, m)
    net.output(net("Add", net.input("x", (1,)), net("ReduceMax", m, keepdims=0)))
    model = net.load()
    assert sum("matmul" in node.op or node.op == "dense" for node in model.plan.graph.nodes) == 10


def test_what_a_file_stores_is_not_limited() -> None:
    images, labels = held_out()
    model = fg.load(MODEL, limits=fg.Limits(constants=0, work=0))
    assert model.run({"image": images[0]})["probabilities"].argmax() == labels[0]
    net = Net()
    x = net.input("x", (1, 64))
    for _ in range(4):
        w = net.const(net.rng.standard_normal((64, 64)).astype(np.float16))
        x = net("MatMul", x, net("Transpose", net("Cast", w, to=TensorProto.FLOAT)))
    net.output(x)
    model = fg.load(net.bytes(), threads=1, limits=fg.Limits(constants=0, work=0))
    assert {node.op for node in model.plan.graph.nodes} == {"dense"}


def test_shared_weights_are_packed_once() -> None:
    net = Net()
    x, w = net.input("x", (1, 256)), net.weight(256, 256)
    for _ in range(100):
        x = net("Tanh", net("MatMul", x, w))
    net.output(x)
    model = net.load()
    assert sum(array.nbytes for array in model.plan.program.constants) < 3 * 256 * 256 * 4
    feeds = {"x": np.ones((1, 256), F32)}
    assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds))


def test_each_plan_of_a_dynamic_model_has_the_same_budget() -> None:
    net = Net()
    x = net.input("x", ("n",))
    net.output(net("Add", x, net("Add", net("Cast", net("ConstantOfShape", net("Shape", x)), to=1), 3.0)))
    model = fg.load(net.bytes(), threads=1, limits=fg.Limits(constants=MB))
    for n in (3, MB, 4, MB + 1, 5):
        assert model(np.ones(n, F32)).tolist() == [4] * n
        assert constants(model) < MB


def test_weights_that_passes_would_multiply_are_refused() -> None:
    net = Net()
    x, shape = net.input("x", (1, 512)), net.const(np.array([512, 512]))
    w = net("ConstantOfShape", shape, value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]))
    for k in range(60):
        x = net("Gemm", x, w, alpha=1.0 + k)
    net.output(x)
    with pytest.raises(fg.ModelError, match=r"^<bytes>: .* stores \d+, the limit is .*fastgraph.Limits\(constants="):
        fg.load(net.bytes(), threads=1, limits=fg.Limits(constants=8 * MB))
    fg.load(net.bytes(), threads=1)


def test_loops_whose_types_settle_slowly_do_not_multiply() -> None:
    """In each of 12 nested loops, types take 8 rounds to settle: not for each round of the one around it."""

    def body(depth: int) -> Any:
        nodes = [helper.make_node("Transpose", [f"x{depth}"], [f"t{depth}"], perm=[7, 0, 1, 2, 3, 4, 5, 6])]
        if depth:
            nodes.append(helper.make_node("Loop", ["most", "", f"t{depth}"], [f"y{depth}"], body=body(depth - 1)))
        nodes.append(helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"]))
        info = [helper.make_tensor_value_info(n, k, []) for n, k in ((f"i{depth}", 7), (f"c{depth}", 9))]
        carried = [helper.make_tensor_value_info(n, 1, None) for n in (f"x{depth}", f"t{depth}")]
        flag = helper.make_tensor_value_info(f"d{depth}", 9, [])
        return helper.make_graph(nodes, "body", [*info, carried[0]], [flag, carried[1]])

    net = Net()
    net.input("x", (1, *[2] * 7))
    net.constants.append(helper.make_tensor("most", TensorProto.INT64, [], [1]))
    net.output(net("Loop", "most", "", "x", body=body(12)))
    fg.load(net.bytes(), limits=fg.Limits(nodes=20_000))


# strings


def texts(net: Net, *items: str) -> str:
    name = f"s{len(net.constants)}"
    net.constants.append(helper.make_tensor(name, TensorProto.STRING, [len(items)], [s.encode() for s in items]))
    return name


def peak(source: bytes, **feeds: Any) -> int:
    tracemalloc.start()
    try:
        model = fg.load(source, threads=1)
        model.run(feeds)
        return tracemalloc.get_traced_memory()[1]
    except fg.FastgraphError:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("op", ["Expand", "Tile"])
def test_strings_are_not_multiplied_at_load(op: str) -> None:
    net = Net(opset=20)
    many = net(op, texts(net, "abc"), [1 << 24])
    net.output(net("Add", net.input("x", (1,), I64), net("Size", net("StringConcat", many, many))), dtype=I64)
    source = net.bytes()
    tracemalloc.start()
    try:
        fg.load(source, threads=1)
        assert tracemalloc.get_traced_memory()[1] < 600 * MB
    finally:
        tracemalloc.stop()


def test_strings_that_double_are_refused() -> None:
    net = Net(opset=20)
    s = texts(net, "abcdefgh")
    for _ in range(60):
        s = net("StringConcat", s, s)
    net.output(net("Add", net.input("x", (1,), I64), net("Size", s)), dtype=I64)
    assert peak(net.bytes(), x=np.ones(1, I64)) < 1024 * MB


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgraph.room.free_memory", lambda: 100 * MB)


def test_strings_that_double_at_run_are_refused(little_memory: None) -> None:
    net = Net(opset=20)
    s = net.input("s", (1,), object)
    for _ in range(60):
        s = net("StringConcat", s, s)
    net.output(s, dtype=object)
    with pytest.raises(fg.InputError, match="string_concat: not enough memory: .* bytes are needed"):
        net.load()(np.array(["abcdefgh"], object))


def test_parts_of_strings_are_not_multiplied_at_run(little_memory: None) -> None:
    net = Net(opset=20)
    x = net.input("s", ("n",), object)
    net.output(net("StringSplit", x, delimiter="a", outputs=2)[0], dtype=object)
    with pytest.raises(fg.InputError, match="string_split: not enough memory"):
        net.load()(np.array(["a" * 100_000] + [""] * 1000, object))


def test_a_pattern_is_not_matched_with_a_long_constant_at_load() -> None:
    net = Net(opset=20)
    match = net("RegexFullMatch", texts(net, "a" * 50_000 + "b"), pattern="(a?){900}(a?){900}a")
    net.output(net("And", net.input("x", (1,), bool), match), dtype=bool)
    model = fg.load(net.bytes(), limits=fg.Limits(work=1 << 28))
    assert [node.op for node in model.plan.graph.nodes][0] == "regex_full_match"


# memory of the run


def test_an_arena_that_no_memory_holds_is_refused(little_memory: None) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ("n",))))
    model = net.load()
    assert model(np.ones(4, F32)).tolist() == [1] * 4
    with pytest.raises(fg.InputError, match=r"not enough memory for input shapes \{'x': \(67108864,\)\}"):
        model.resize({"x": (1 << 26,)})
    with pytest.raises(fg.InputError, match="not enough memory"):
        fg.load(net.bytes(), shapes={"x": (1 << 26,)})
    with pytest.raises(fg.InputError, match="not enough memory"):
        model.resize({"x": (10 * MB,)})  # 40 MB in, 40 MB out, and another 40 MB for the caller
    assert model(np.ones(4, F32)).tolist() == [1] * 4


def grown(op: str, planned: bool) -> tuple[Net, np.ndarray]:
    """A network whose result's size depends on what is fed, and a feed that makes it 400 MB. `planned`: plans are made
    for what is fed; else its rank makes it data.
    """
    net = Net(opset=18)
    n = net.input("n", (1,), I64) if planned else net("Reshape", net.input("n", (1, 1, 1), I64), [1])
    scalar = net("Squeeze", n)
    one, zero = net.const(np.array([1.0], F32)), net.const(np.array(0))
    size = 100 * MB
    match op:
        case "Expand" | "Tile":
            net.output(net(op, one, n))
        case "ConstantOfShape":
            net.output(net(op, n))
        case "Range":
            net.output(net(op, zero, scalar, 1), dtype=I64)
        case "OneHot":
            net.output(net(op, [0], scalar, [0.0, 1.0]))
        case "Pad":
            net.output(net(op, one, net("Concat", [0], n, axis=0)))
        case "Resize":
            net.output(net(op, one, "", "", n, mode="nearest"))
        case "EyeLike":
            net.output(net(op, net("Expand", one, net("Concat", n, n, axis=0))))
            size = 10_000
        case "Add":
            row = net("Range", zero, scalar, 1)
            net.output(net(op, row, net("Unsqueeze", row, [1])), dtype=I64)
            size = 7_000
    return net, np.array([size])


@pytest.mark.parametrize(
    "op", ["Expand", "Tile", "ConstantOfShape", "Range", "OneHot", "Pad", "Resize", "EyeLike", "Add"]
)
@pytest.mark.parametrize("planned", [True, False])
def test_results_that_no_memory_holds_are_refused(op: str, planned: bool, little_memory: None) -> None:
    net, n = grown(op, planned)
    model, shape = net.load(), (1,) if planned else (1, 1, 1)
    assert np.size(model(np.reshape(3, shape))) in (3, 4, 9)
    values = f" for input shapes .* with the values .*'n': .{n[0]}.*" if planned else ""
    with pytest.raises(fg.InputError, match=f"not enough memory{values}: .* bytes are needed, .* are free"):
        model(n.reshape(shape))


def test_what_a_loop_gathers_is_looked_at(little_memory: None) -> None:
    flag, number = helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("i", 7, [])
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["x"], ["part"])]
    outs = [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("part", 1, None)]
    body = helper.make_graph(nodes, "body", [number, flag], outs)
    net = Net()
    net.input("x", (MB,))
    net.output(net("Loop", net.input("most", (), I64), "", body=body))
    with pytest.raises(fg.InputError, match="not enough memory for .* with the values {'most': 1000}"):
        net.load()(np.ones(MB, F32), np.array(1000))


# the limits themselves


def test_limits_are_numbers_from_0_on() -> None:
    for wrong in (-1, 1.5, None, "many"):
        with pytest.raises(ValueError, match=r"Limits\(work="):
            fg.Limits(work=wrong)  # type: ignore[arg-type]

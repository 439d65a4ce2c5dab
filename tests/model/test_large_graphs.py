"""Loads are linear in the number of nodes, whatever their form, and graphs of twenty thousand nodes run right."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

import fastgraph as fg
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime, feeds_for
from tests.scaling import check_linear

SHAPE = (4, 8)
NETS: dict[str, Callable[[int], bytes]] = {}


def net_of(build: Callable[[Net, str, int], object]) -> Callable[[Net, str, int], object]:
    """Register a network of about n nodes on one input; what the function gives is an output."""

    def make(n: int) -> bytes:
        net = Net()
        out = build(net, net.input("x", SHAPE), n)
        net.output(*(out if isinstance(out, list) else [out]))
        return net.bytes()

    NETS[build.__name__] = make
    return build


def softmax(net: Net, x: str) -> str:
    """A node that no chain takes in."""
    return net("Softmax", x, axis=-1)


@net_of
def elementwise_chain(net: Net, x: str, n: int) -> str:
    for i in range(n):
        x = net("Tanh" if i % 2 else "Neg", x)
    return x


@net_of
def chain_written_backwards(net: Net, x: str, n: int) -> str:
    for _ in range(n):
        x = softmax(net, x)
    net.nodes.reverse()
    return x


@net_of
def residual_chain(net: Net, x: str, n: int) -> str:
    w = net.weight(8, 8, scale=0.1)
    for i in range(n // 2):
        x = net("Add", net("MatMul", x, w) if i % 2 else softmax(net, x), x)
    return x


@net_of
def sums_with_functions_of_a_turned_input(net: Net, x: str, n: int) -> str:
    """Whether transposes sink below each sum is decided by all that its operand is made of."""
    x, y = net("Transpose", x, perm=[1, 0]), net.input("y", SHAPE[::-1])
    for _ in range(n):
        x = net("Sigmoid", x)
        y = net("Add", x, y)
    return y


@net_of
def sum_of_products(net: Net, x: str, n: int) -> str:
    w = net.weight(8, 8)
    return net("Sum", *(net("MatMul", x, w) for _ in range(n)))


@net_of
def sum_tree(net: Net, x: str, n: int) -> str:
    values = [softmax(net, x) for _ in range(n // 2)]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [net("Add", a, b) for a, b in pairs] + ([values[-1]] if len(values) % 2 else [])
    return values[0]


@net_of
def concat_of_branches(net: Net, x: str, n: int) -> str:
    return net("Concat", *(softmax(net, x) for _ in range(n)), axis=1)


@net_of
def split_and_concat(net: Net, x: str, n: int) -> str:
    parts = net("Split", net("Expand", net("ReduceMax", x), np.array([2, n], I64)),
                np.ones(n, I64), outputs=n, axis=1)  # fmt: skip
    return net("Concat", *(net("Relu", part) for part in parts), axis=1)


@net_of
def value_with_many_readers(net: Net, x: str, n: int) -> str:
    y = softmax(net, x)
    return net("Max", *(net("Softmax", y, axis=0) for _ in range(n)))


@net_of
def concats_that_share_an_operand(net: Net, x: str, n: int) -> str:
    y = softmax(net, x)
    return net("Sum", *(net("Concat", y, net("Softmax", x, axis=0), axis=1) for _ in range(n // 2)))


@net_of
def many_outputs(net: Net, x: str, n: int) -> list[str]:
    return [net("Softmax" if i % 2 else "Relu", x) for i in range(n)]


@net_of
def moves_that_cancel(net: Net, x: str, n: int) -> str:
    shapes = [net.const(np.array(dims, I64)) for dims in (SHAPE, SHAPE[::-1])]
    for i in range(n // 4):
        x = net("Reshape", net("Transpose", net("Identity", x), perm=[1, 0]), shapes[i % 2])
        x = net("Reshape", x, shapes[0])
    return x


@net_of
def views_of_views(net: Net, x: str, n: int) -> str:
    halves = net.const(np.array([4, 4], I64))
    for _ in range(n // 3):
        left, right = net("Split", x, halves, outputs=2, axis=1)
        x = net("Relu", net("Concat", right, left, axis=1))
    return x


@net_of
def computed_shapes(net: Net, x: str, n: int) -> str:
    zero, one, rest = (net.const(np.array([i], I64)) for i in (0, 1, -1))
    for _ in range(n // 5):
        first = net("Slice", net("Shape", x), zero, one)
        x = softmax(net, net("Reshape", x, net("Concat", first, rest, axis=0)))
    return x


@net_of
def quantized_chain(net: Net, x: str, n: int) -> str:
    """Changes of quantization one after the other, some of which a function of one byte looks through."""
    zero = net.const(np.array(128, np.uint8))
    for i in range(n // 2):
        scale = net.const(np.array(0.02 + 0.0001 * (i % 7), F32))
        x = net("DequantizeLinear", net("QuantizeLinear", x, scale, zero), scale, zero)
        x = net("Sigmoid", x) if i % 16 == 15 else x
    return x


@net_of
def clamps_of_a_quantized_layer(net: Net, x: str, n: int) -> str:
    scale, zero = net.const(np.array(0.05, F32)), net.const(np.array(128, np.uint8))
    w = net("DequantizeLinear", net.rng.integers(-127, 128, (8, 8)).astype(np.int8),
            0.01, np.array(0, np.int8))  # fmt: skip

    def stored(y: str) -> str:
        return net("DequantizeLinear", net("QuantizeLinear", y, scale, zero), scale, zero)

    x = stored(net("MatMul", stored(x), w))
    for _ in range(n // 3):
        x = stored(net("Relu", x))
    return x


@net_of
def host_steps(net: Net, x: str, n: int) -> str:
    axis = net.const(np.array(0, I64))
    for _ in range(n // 2):
        x = softmax(net, net("CumSum", x, axis))
    return x


@net_of
def transformer(net: Net, x: str, n: int) -> str:
    """Blocks of attention and a layer with GELU, each behind a norm and around it a residual."""
    width = SHAPE[1]
    two, small, one, half, root = (net.const(np.array(v, F32)) for v in (2, 1e-5, 1, 0.5, 2**0.5))

    def norm(y: str) -> str:
        centered = net("Sub", y, net("ReduceMean", y, axes=[-1]))
        variance = net("ReduceMean", net("Pow", centered, two), axes=[-1])
        scaled = net("Mul", net("Div", centered, net("Sqrt", net("Add", variance, small))), net.weight(width))
        return net("Add", scaled, net.weight(width))

    def dense(y: str, k: int, o: int) -> str:
        return net("Add", net("MatMul", y, net.weight(k, o, scale=0.1)), net.weight(o))

    for _ in range(max(n // 40, 1)):
        y = norm(x)
        q, k, v = (dense(y, width, width) for _ in range(3))
        a = net("Softmax", net("Mul", net("MatMul", q, net("Transpose", k, perm=[1, 0])), half), axis=-1)
        x = net("Add", x, dense(net("MatMul", a, v), width, width))
        y = dense(norm(x), width, 32)
        y = net("Mul", net("Mul", y, net("Add", net("Erf", net("Div", y, root)), one)), half)
        x = net("Add", x, dense(y, 32, width))
    return norm(x)


# -- sub-graphs

info = helper.make_tensor_value_info


def model_of(nodes: list, out: str, constants: list | None = None) -> bytes:
    inputs = [info("x", TensorProto.FLOAT, SHAPE), info("p", TensorProto.BOOL, ())]
    graph = helper.make_graph(nodes, "g", inputs, [info(out, TensorProto.FLOAT, None)], constants or [])
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def branch(nodes: list, out: str) -> GraphProto:
    return helper.make_graph(nodes, "branch", [], [info(out, TensorProto.FLOAT, None)])


def chain_of(count: int, first: str, tag: str) -> tuple[list, str]:
    names = [first, *(f"{tag}_{i}" for i in range(count))]
    return [helper.make_node("Neg", [a], [b]) for a, b in zip(names, names[1:], strict=False)], names[-1]


def branches_in_branches(n: int, depth: int = 25) -> bytes:
    """Each reads the results of all around it."""

    def within(level: int, x: str) -> tuple[list, str]:
        nodes, end = chain_of(n // depth, x, f"v{level}")
        nodes.append(helper.make_node("Sum", [end, "x", *(f"s{i}" for i in range(level))], [f"s{level}"]))
        if level == depth:
            return nodes, f"s{level}"
        other = branch([helper.make_node("Neg", [f"s{level}"], [f"e{level}"])], f"e{level}")
        then = branch(*within(level + 1, f"s{level}"))
        nodes.append(helper.make_node("If", ["p"], [f"o{level}"], then_branch=then, else_branch=other))
        return nodes, f"o{level}"

    return model_of(*within(0, "x"))


def many_branches(n: int) -> bytes:
    nodes, x = [], "x"
    for i in range(n // 3):
        then, other = (branch([helper.make_node(op, [x], [f"{op}{i}"])], f"{op}{i}") for op in ("Relu", "Neg"))
        nodes.append(helper.make_node("If", ["p"], [f"o{i}"], then_branch=then, else_branch=other))
        x = f"o{i}"
    return model_of(nodes, x)


def branch_that_reads_what_passes_rename(n: int) -> bytes:
    nodes, read = [], []
    for i in range(n // 2):
        nodes.append(helper.make_node("Softmax", ["x"], [f"v{i}"]))
        nodes.append(helper.make_node("Transpose", [f"v{i}"], [f"w{i}"], perm=[0, 1]))
        read.append(f"w{i}")
    then = branch([helper.make_node("Sum", read, ["t"])], "t")
    other = branch([helper.make_node("Neg", ["x"], ["e"])], "e")
    return model_of([*nodes, helper.make_node("If", ["p"], ["o"], then_branch=then, else_branch=other)], "o")


def loops_in_loops(depth: int, length: int) -> bytes:
    """What each carries grows, from a constant on, and depends on what all around it carry."""

    def body(level: int) -> GraphProto:
        nodes, end = chain_of(length, f"c{level}", f"v{level}")
        joined = [end, *(f"c{i}" for i in range(1, level))]
        if level < depth:
            nodes.append(helper.make_node("Loop", ["one", "", "x"], [f"o{level}"], body=body(level + 1)))
            joined.append(f"o{level}")
        nodes.append(helper.make_node("Concat", joined, [f"k{level}"], axis=0))
        nodes.append(helper.make_node("Identity", [f"go{level}"], [f"on{level}"]))
        carried = [info(f"{name}{level}", TensorProto.FLOAT, None) for name in "ck"]
        go = [info(f"{name}{level}", TensorProto.BOOL, ()) for name in ("go", "on")]
        turn = info(f"i{level}", TensorProto.INT64, ())
        return helper.make_graph(nodes, "body", [turn, go[0], carried[0]], [go[1], carried[1]])

    outer = helper.make_node("Loop", ["one", "", "x"], ["o"], body=body(1))
    return model_of([outer], "o", [numpy_helper.from_array(np.array(1, I64), "one")])


NETS |= {
    "branches_in_branches": branches_in_branches, "many_branches": many_branches,
    "branch_that_reads_what_passes_rename": branch_that_reads_what_passes_rename,
    "a_long_body": lambda n: loops_in_loops(1, n), "bodies_in_bodies": lambda n: loops_in_loops(5, n // 5),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
@pytest.mark.slow
def test_calls_are_linear_and_kernels_few(name: str) -> None:
    """Also that the smaller network runs right."""
    assert len(check_linear(NETS[name], 200).plan.kernels()) <= 16
    run_right(NETS[name](200))


def run_right(source: bytes) -> None:
    model = fg.load(source, threads=1)
    feeds = {spec.name: np.array(True) if spec.dtype == bool else a
             for spec, a in zip(model.inputs, feeds_for(model).values(), strict=True)}  # fmt: skip
    assert_close(list(model.run(feeds).values()), by_onnxruntime(source, feeds))


def test_loops_in_loops_settle_in_as_many_rounds_as_they_are_deep() -> None:
    """Each growing state would begin anew in every round of the one around it: 2 ** 14 rounds of the innermost."""
    check_linear(lambda depth: loops_in_loops(depth, 1), 7, most=6)
    run_right(loops_in_loops(7, 1))


LARGE = ("elementwise_chain", "residual_chain", "sum_tree", "concat_of_branches", "value_with_many_readers")


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_twenty_thousand_nodes(name: str) -> None:
    run_right(NETS[name](20_000))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NETS.keys() - set(LARGE)))
def test_five_thousand_nodes(name: str) -> None:
    run_right(NETS[name](5_000))

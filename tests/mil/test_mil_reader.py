"""Programs to graphs: names, scopes, types, constants of every kind, functions, states; and what is wrong with them."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import GraphError, InputError, ModelError, UnsupportedError
from fastgraph.frontends import read
from fastgraph.frontends.mil.call import Call
from fastgraph.frontends.mil.signatures import RULES
from fastgraph.frontends.mil.wire import message
from fastgraph.limits import Limits, spending
from tests.mil.mil_write import BITS, Program, list_value, tensor_type, value
from tests.tables import entries, rows

X = np.float32([[-1, 2, -3, 4]])


def run(p: Program, **feeds):
    return fg.load(p.zip(), threads=1).run(feeds or {"x": X})


def refused(p: Program, match: str, kind=ModelError) -> None:
    with pytest.raises(kind, match=match):
        read(p.zip())


# -- constants

CONSTANTS = """
FLOAT32 | np.float32([1.5, -2])
FLOAT64 | np.float64([1.5, -2])
FLOAT16 | np.float16([1.5, -65504, 6e-8])
INT8 | np.int8([-128, 127, 3])
UINT8 | np.uint8([0, 255])
INT16 | np.int16([-32768, 5])
UINT16 | np.uint16([65535, 1])
INT32 | np.int32([-5, 7])
UINT32 | np.uint32([5, 4])
BOOL | np.bool_([True, False, True])
INT4 | np.int8([-8, 7, -1, 0, 3])
UINT4 | np.uint8([15, 0, 7])
UINT6 | np.uint8([63, 0, 33, 1, 2])
UINT3 | np.uint8([7, 0, 5, 2, 1, 6, 3, 4, 7, 1, 0])
UINT2 | np.uint8([3, 0, 2, 1, 3])
UINT1 | np.uint8([1, 0, 0, 1, 1, 1, 0, 1, 1])
"""


@pytest.mark.parametrize("where", ["immediate", "blob"])
@pytest.mark.parametrize("element, array", rows(CONSTANTS, globals(), 2))
def test_constants_of_every_type(array, element, where):
    if where == "blob" and element in ("FLOAT64", "BOOL"):
        pytest.skip("no type of blob storage")
    p = Program()
    p.weights += bytes(64)  # a record need not follow the header
    p.const(p.blob(array, element) if where == "blob" else value(array, element), "c")
    p.input("x", (1, 4))
    p.main.block_specializations[p.opset].outputs.append("c")
    (out,) = read(p.zip()).outputs
    made = out.data if out.data is not None else fg.load(p.zip()).run({"x": X})["c"]
    assert made.dtype == array.dtype
    np.testing.assert_array_equal(made, array)


def test_small_floats_are_widened_exactly():
    for element, codes, want in (
        ("BFLOAT16", np.uint16([0x3F80, 0xC000, 0x7F80]), [1, -2, np.inf]),
        ("FLOAT8E4M3FN", np.uint8([0x38, 0xC0, 0x7E, 0x01]), [1, -2, 448, 2**-9]),
        ("FLOAT8E5M2", np.uint8([0x3C, 0xC0, 0x7B, 0x7C]), [1, -2, 57344, np.inf]),
    ):
        for blob in (False, True):
            p = Program()
            proto = p.blob(codes, element) if blob else value(codes, element)
            p.const(proto, "c")
            p.output("c")
            p.model.description.output[0].type.multiArrayType.dataType = 0
            np.testing.assert_array_equal(fg.load(p.zip()).run({})["c"], np.float32(want))


def test_wide_integers_and_text():
    p = Program()
    p.const(np.int64([-(1 << 62), 5]), "a")
    proto = value(np.int64([-1]), "UINT64")
    p.const(proto, "b")
    p.const(np.array(["ä", "b"], object), "s")
    p.output("a", "b", "s")
    for feature in p.model.description.output:
        feature.type.Clear()
    out = fg.load(p.zip()).run({})
    assert out["a"].tolist() == [-(1 << 62), 5] and out["b"].tolist() == [(1 << 64) - 1]
    assert out["s"].tolist() == ["ä", "b"]


def test_empty_constants():
    p = Program()
    p.const(np.zeros((0, 3), np.float32), "c")
    proto = value(np.zeros((2, 0), np.int8), "INT8")
    p.const(proto, "d")
    p.output("c", "d")
    out = fg.load(p.zip()).run({})
    assert out["c"].shape == (0, 3) and out["d"].shape == (2, 0)


def test_one_blob_is_read_once():
    p = Program()
    proto = p.blob(np.ones((4, 4), np.float16))
    p.const(proto, "a")
    p.const(proto, "b")
    p.output(p.op("add", "y", x="a", y="b"))
    graph = read(p.zip())
    first, second = [v.data for v in graph.constants()] if len(graph.constants()) == 2 else (1, 1)
    assert first is second


BLOBS = r"""
p.weights[4:8] = b"\1\0\0\0" | found version 1
del p.weights[30:] | cut short
p.weights[64:68] = b"abcd" | record of a blob at 64
p.weights[68] = 1 | a blob of FLOAT32, found FLOAT16
p.weights[68] = 99 | found type 99
p.weights[72] = 12 | a blob of 16 bytes.*found 12
p.weights[80:88] = b"\xf8" + b"\xff" * 7 | found a file of
p.weights[80:88] = bytes([130, 0, 0, 0, 0, 0, 0, 0]) | expected 16 bytes at 130
del p.weights[-40:] | expected 16 bytes at 128|record
blob.offset = 0 | a record of 64 bytes at 0
blob.offset = 70 | record of a blob at 70
blob.offset = (1 << 64) - 1 | a record of 64 bytes at 184467
"""


@pytest.mark.parametrize("damage, match", entries(BLOBS))
def test_damaged_blobs(damage, match):
    p = Program()
    p.const(p.blob(np.float32([1, 2, 3, 4])), "c")
    p.output("c")
    del p.weights[144:]
    exec(damage, {"p": p, "blob": p.now.operations[0].attributes["val"].blobFileValue})
    refused(p, match)


def test_blobs_are_little_endian_at_any_place():
    p = Program()
    p.weights += b"xyz"
    array = np.float32([1, 2, 3, 4])
    p.const(p.blob(array), "c")
    p.output("c")
    np.testing.assert_array_equal(fg.load(p.zip()).run({})["c"], array)


DAMAGED = r"""
held.tensor.floats.values.append(1) | expected 2 elements of FLOAT32, found 3
held.tensor.ints.values.extend([1, 2]) | expected elements of FLOAT32, found ints
held.Clear() | holds nothing
held.list.SetInParent() | expected a constant float32.*found a list
v.ClearField("type") | it has no type
v.ClearField("immediateValue") | expected a constant, found none
kind.dimensions[0].unknown.SetInParent() | of known shape, found float32
kind.rank = -1 | of known shape
kind.rank = 2 | expected 2 extents, its rank
kind.dataType = 0 | one of MIL's element types, found number 0
kind.dataType = 99 | found number 99
kind.dataType = 10 | as its output is declared, found float16
kind.dimensions[0].constant.size = 1 << 62 | an extent from 0 to 2147483647
kind.dimensions[0].constant.size = 3 | as its output is declared|3 elements
"""


@pytest.mark.parametrize("edit, match", entries(DAMAGED))
def test_damaged_constants(edit, match):
    p = Program()
    p.const(np.float32([1, 2]), "c")
    p.output("c")
    v = p.now.operations[0].attributes["val"]
    exec(edit, {"v": v, "held": v.immediateValue, "kind": v.type.tensorType})
    refused(p, match)


def test_integers_must_fit_their_type():
    for array, element in ((np.int32([70000]), "INT16"), (np.int32([-1]), "UINT32"), (np.int32([16]), "UINT4")):
        p = Program()
        proto = message("MILSpec.Value")()
        tensor_type(element, array.shape, proto.type)
        proto.immediateValue.tensor.ints.values.extend(array.tolist())
        p.const(proto, "c")
        p.output("c")
        refused(p, f"expected numbers of {element}")
    assert set(BITS) == {"INT4", "UINT1", "UINT2", "UINT3", "UINT4", "UINT6"}


def test_huge_sizes_cost_nothing():
    for dims in ((1 << 30, 1 << 30), (1 << 20, 1 << 20, 1 << 20)):
        p = Program()
        p.input("x", (1, 4))
        p.op("relu", "y", x="x", types=("FLOAT32", dims))
        refused(p, "that some memory can hold")
    p = Program()
    proto = message("MILSpec.Value")()
    tensor_type("UINT1", (1 << 30,), proto.type)
    proto.immediateValue.tensor.bytes.values = b"\1"
    p.const(proto, "c")
    refused(p, "expected 134217728 bytes")


def test_what_follows_from_constants_is_known_to_later_rules():
    p = Program()
    p.op("add", "shape", x=np.int32([1, 3]), y=np.int32([1, -1]), types=("INT32", (2,)))
    p.output(p.op("reshape", "y", x=p.input("x", (1, 4)), shape="shape", types=("FLOAT32", (2, 2))))
    assert [n.op for n in read(p.zip()).nodes] == ["reshape"]


def test_stored_numbers_of_weights_stay_stored():
    p = Program()
    w = p.op("dequantize", "w", input=np.int8([[1, 2, 3, 4]]), scale=np.float32(0.5), types=("FLOAT32", (1, 4)))
    p.output(p.op("add", "y", x=p.input("x", (1, 4)), y=w))
    assert [n.op for n in read(p.zip()).nodes] == ["dequantize_linear", "add"]
    np.testing.assert_array_equal(run(p)["y"], X + np.float32([0.5, 1, 1.5, 2]))


# -- names and scopes


def test_values_are_called_as_in_the_program():
    p = Program()
    p.input("x", (1, 4))
    p.op("relu", "a", x="x")
    p.output(p.op("tanh", "b", x="a"))
    graph = read(p.zip())
    assert [n.outputs[0].name for n in graph.nodes] == ["a", "b"] and graph.name == "main"


def test_inputs_may_be_outputs_and_one_value_several():
    p = Program()
    p.input("x", (1, 4))
    p.op("relu", "a", x="x")
    p.op("identity", "a2", x="a")
    p.output("x", "a", "a2")
    out = run(p)
    np.testing.assert_array_equal(out["x"], X)
    np.testing.assert_array_equal(out["a"], np.maximum(X, 0))
    np.testing.assert_array_equal(out["a2"], out["a"])


def test_the_functions_own_operator_set_counts():
    p = Program("CoreML7")
    p.output(p.op("relu", "y", x=p.input("x", (1, 4))))
    other = p.main.block_specializations["CoreML8"]
    other.outputs.append("nothing")
    np.testing.assert_array_equal(run(p)["y"], np.maximum(X, 0))
    p.main.opset = "CoreML6"
    refused(p, "a block for its operator set 'CoreML6', found CoreML7, CoreML8")


PROGRAMS = r"""
p.op("tanh", "z", x="y2", types=("FLOAT32", (1, 4))) | bound to 'y2', which nothing before defines
p.op("tanh", "y", x="x") | defines 'y' a second time
p.op("tanh", "x", x="x") | defines 'x' a second time
p.op("tanh", "", x="x") | without a name
p.now.outputs.append("none") | nothing defines its output 'none'
p.op("tanh", "z", y="x") | expected its parameter 'x', found y
p.op("tanh", "z", x=["x", "x"]) | expected one value for 'x', found 2
p.op("tanh", "z", x="x", types=("FLOAT32", (2, 4))) | expected its output %z to be declared
p.op("tanh", "z", x="x", types=("INT32", (1, 4))) | expected its output %z to be declared
p.op("tanh", [], x="x") | tanh
p.op("const", "z", types=("FLOAT32", ())) | expected an attribute 'val'
p.now.inputs.add(name="q") | without inputs of its own
p.main.inputs.add(name="x", type=p.types["x"]) | defines 'x' a second time
p.main.inputs.add(name="q") | input 'q': it has no type
"""


@pytest.mark.parametrize("edit, match", entries(PROGRAMS))
def test_damaged_programs(edit, match):
    p = Program()
    p.input("x", (1, 4))
    p.output(p.op("relu", "y", x="x"))
    exec(edit, {"p": p})
    refused(p, match, (ModelError, GraphError))


def test_outputs_that_an_operation_lacks():
    """A fuzzer's."""
    p = Program()
    p.op("relu", ["y", "z"], x=p.input("x", (2,)), types=[("FLOAT32", (2,)), ("FLOAT32", (2,))])
    p.output("y")
    with pytest.raises(ModelError, match="'y' .relu.: expected 1 outputs or fewer, found 2"):
        read(p.spec())


def test_unknown_ranks_and_extents():
    p = Program()
    p.input("x", (1, None), default=(1, 4))
    p.op("relu", "a", x="x", types=("FLOAT32", None))
    p.output(p.op("tanh", "y", x="a", types=("FLOAT32", (None, None))))
    sizes = p.model.description.input[0].type.multiArrayType.shapeRange.sizeRanges
    for low, high in ((1, 1), (2, 6)):
        sizes.add(lowerBound=low, upperBound=high)
    model = fg.load(p.zip(), threads=1)
    for n in (4, 2, 6):
        np.testing.assert_allclose(model.run({"x": np.ones((1, n), np.float32)})["y"], np.tanh(np.ones((1, n))), 1e-5)


def test_variadic_dimensions_are_of_any_rank():
    p = Program()
    p.input("x", (1, 4))
    p.output(p.op("relu", "y", x="x", types=("FLOAT32", (None,))))
    p.now.operations[0].outputs[0].type.tensorType.dimensions[0].unknown.variadic = True
    np.testing.assert_array_equal(run(p)["y"], np.maximum(X, 0))


def test_parameters_may_be_held_by_attributes_and_bindings():
    p = Program("CoreML6")
    p.input("x", (1, 4))
    p.op("softmax", "y", x="x", axis=np.int32(-1), direct=("axis",))
    p.output("y")
    np.testing.assert_allclose(run(p)["y"].sum(), 1, 1e-6)


def test_all_that_is_unsupported_is_said_at_once():
    p = Program()
    p.input("x", (1, 4))
    p.op("warp", "a", x="x")
    p.op("warp", "b", x="a")
    p.op("custom_layer", "c", x="b", class_name=np.array("Mine", object))
    p.output(p.op("", "y", x="c"))
    with pytest.raises(UnsupportedError) as error:
        read(p.zip())
    for part in (
        "function 'main'",
        "warp (2 times, first at operation 'a')",
        "custom layer Mine (at operation 'c')",
        "an operator without a name",
        "Core ML",
    ):
        assert part in str(error.value)


def test_rules_that_make_no_output_are_our_defect(monkeypatch):
    monkeypatch.setitem(RULES, "lazy", lambda c: None)
    p = Program()
    p.output(p.op("lazy", "y", x=p.input("x", (1, 4))))
    refused(p, "its rule does not make output 0", GraphError)


# -- what rules are given


def called(monkeypatch, build, opset="CoreML7") -> Call:
    """The Call of an operation `probe` that `build` writes."""
    seen: list[Call] = []

    def probe(c: Call):
        seen.append(c)
        return c.x("x")

    monkeypatch.setitem(RULES, "probe", probe)
    p = Program(opset)
    p.input("x", (1, 4))
    build(p)
    p.output("y")
    read(p.zip())
    return seen[0]


def test_calls_know_their_parameters(monkeypatch):
    def build(p):
        labels = list_value(["a", "b"])
        told = {"n": np.int32(3), "v": np.int32([1, 2]), "f": np.float32(0.5), "b": np.bool_([True, False])}
        told |= {"s": np.array("Same", object), "labels": labels, "many": ["x", "x"]}
        p.op("probe", "y", x="x", direct=("n", "labels"), **told)

    c = called(monkeypatch, build)
    assert (c.op, c.version, c.name, len(c.blocks)) == ("probe", 7, "y", 0)
    assert len(c.values("many")) == 2 and c.values("none") == [] and c.value("none") is None
    assert c.known("n") == 3 and type(c.known("n")) is int and c.known("f") == 0.5 and c.known("none", 7) == 7
    assert c.ints("v") == (1, 2) and c.ints("n") == (3,) and c.ints("b") == (1, 0) and c.ints("none", None) is None
    assert c.text("s", "same", "valid") == "same" and c.text("none", default="x") == "x"
    assert c.known("labels").tolist() == ["a", "b"]
    assert c.rank(c.x()) == 2 and c.outputs[0].type.shape == (1, 4)
    wrong = ["known('x')", "x('none')", "text('s', 'valid')", "ints('f')", "known('none')", "text('n')", "state('x')"]
    for call in wrong:
        with pytest.raises(ModelError, match=r"function 'main': operation \d+ 'y' \(probe\)"):
            eval(f"c.{call}", {"c": c})


def test_attributes_are_parameters(monkeypatch):
    def build(p):
        p.op("probe", "y", x="x")
        attributes = p.now.operations[-1].attributes
        value("probe_1", into=attributes["name"])
        value(np.int32(4), into=attributes["axis"])

    c = called(monkeypatch, build, "CoreML5")
    assert c.known("axis") == 4 and c.value("name") is None


def test_half_precision_is_float32_inside_and_float16_outside():
    p = Program()
    p.input("x", (1, 4), "FLOAT16")
    p.op("mul", "a", x="x", y=np.float16(1 / 3))
    p.output(p.op("mul", "y", x="a", y=np.float16(3)))
    graph = read(p.zip())
    assert graph.inputs[0].type.dtype == graph.outputs[0].type.dtype == np.float16
    inside = [v.type.dtype for n in graph.nodes if n.op == "mul" for v in n.outputs]
    assert inside == [np.float32, np.float32]
    out = run(p, x=X.astype(np.float16))["y"]
    want = X * np.float32(np.float16(1 / 3)) * 3
    np.testing.assert_array_equal(out, want.astype(np.float16))


# -- functions, states, blocks


def two_functions() -> Program:
    p = Program()
    p.describe_functions("second")
    p.output(p.op("relu", "y", x=p.input("x", (1, 4))))
    p.function("second")
    p.output(p.op("abs", "z", x=p.input("x", (1, 4))))
    return p


def test_functions():
    p = two_functions()
    np.testing.assert_array_equal(fg.load(p.zip()).run({"x": X})["z"], np.abs(X))
    np.testing.assert_array_equal(fg.load(p.zip(), function="main").run({"x": X})["y"], np.maximum(X, 0))
    with pytest.raises(InputError, match="no function is called 'third', the functions are main, second"):
        fg.load(p.zip(), function="third")
    assert fg.load(p.zip()).graph.interface.about["function"] == "second, one of main, second"
    p.model.description.defaultFunctionName = ""
    assert fg.load(p.zip()).graph.name == "main"
    p.model.description.defaultFunctionName = "gone"
    refused(p, "expected its function 'gone', found main, second; name one")
    assert fg.load(p.zip(), function="main").graph.name == "main"


def test_a_program_without_functions():
    p = Program()
    p.model.mlProgram.functions.clear()
    refused(p, "a program with a function")


def counter(steps: int = 1) -> Program:
    p = Program("CoreML8", 9)
    x, s = p.input("x", (4,), "FLOAT16"), p.state("s", (4,))
    for i in range(steps):
        p.op("read_state", f"r{i}", input=s)
        p.op("add", f"a{i}", x=f"r{i}", y=x)
        p.op("write_state", [], input=s, data=f"a{i}")
    p.op("read_state", "last", input=s)
    p.output("last")
    return p


@pytest.mark.parametrize("steps", [1, 2])
def test_states_live_from_run_to_run(steps):
    model = fg.load(counter(steps).zip(), threads=1)
    assert [spec.name for spec in model.inputs] == ["x"]
    one = np.ones(4, np.float16)
    for turn in (1, 2, 3):
        np.testing.assert_array_equal(model.run({"x": one})["last"], one * turn * steps)
    model.reset_states()
    np.testing.assert_array_equal(model.run({"x": one})["last"], one * steps)


def test_states_that_are_never_written_stay_zero():
    p = Program("CoreML8", 9)
    x, s = p.input("x", (4,), "FLOAT16"), p.state("s", (4,))
    p.op("read_state", "r", input=s)
    p.output(p.op("add", "y", x="r", y=x))
    model = fg.load(p.zip())
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"x": np.float16([1, 2, 3, 4])})["y"], [1, 2, 3, 4])


def test_states_are_no_tensors():
    p = Program("CoreML8", 9)
    p.state("s", (4,))
    p.output(p.op("relu", "y", x="s", types=("FLOAT16", (4,))))
    refused(p, "expected tensors, found a state|expected its output")
    p = Program("CoreML8", 9)
    p.state("s", (4,))
    p.now.outputs.append("s")
    refused(p, "expected a tensor as output 's', found a state")
    p = Program("CoreML8", 9)
    p.state("s", (4,))
    p.op("cond", ["y"], pred=np.bool_(True), types=[("FLOAT16", (4,))], blocks=[p.block(lambda: "s")] * 2)
    p.output("y")
    refused(p, "expected a tensor as output 's', found a state")
    p = Program("CoreML8", 9)
    s, x = p.state("s", (4,)), p.input("x", (5,), "FLOAT16")
    p.op("write_state", [], input=s, data=x)
    refused(p, r"expected float32\[4\] for state 's', found float32\[5\]")


def branch_with_state() -> Program:
    p = Program("CoreML8", 9)
    x, s = p.input("x", (4,), "FLOAT16"), p.state("s", (4,))
    p.op("reduce_sum", "total", x=x, axes=np.int32([0]), keep_dims=np.bool_(False), types=("FLOAT16", ()))
    p.op("greater", "big", x="total", y=np.float16(0), types=("BOOL", ()))
    p.op("mul", "doubled", x=x, y=np.float16(2))

    def add():
        p.op("read_state", "r", input=s)
        p.op("add", "a", x="r", y="doubled")
        p.op("write_state", [], input=s, data="a")
        return "a"

    def keep():
        return p.op("mul", "n", x=x, y=np.float16(-1))

    p.op("cond", ["y"], pred="big", types=[("FLOAT16", (4,))], blocks=[p.block(add), p.block(keep)])
    p.op("read_state", "after", input=s)
    p.output("y", "after")
    return p


def test_blocks_see_what_is_around_them_and_states_leave_them():
    model = fg.load(branch_with_state().zip(), threads=1)
    one = np.ones(4, np.float16)
    for sign, y, after in ((1, 2, 2), (-1, 1, 2), (1, 4, 4)):
        out = model.run({"x": sign * one})
        np.testing.assert_array_equal(out["y"], one * y)
        np.testing.assert_array_equal(out["after"], one * after)


def loops(levels: int) -> Program:
    """while loops in one another, each adding 1 until 3."""
    p = Program()
    p.input("x", (1, 4))

    def level(n, start):
        def test():
            return p.op("less", f"t{n}", x=f"v{n}", y=np.float32(3), types=("BOOL", (1,)))

        def body():
            inner = level(n + 1, f"v{n}") if n + 1 < levels else f"v{n}"
            return p.op("add", f"n{n}", x=inner, y=np.float32([1]), types=("FLOAT32", (1,)))

        blocks = [p.block(build, [(f"v{n}", ("FLOAT32", (1,)))]) for build in (test, body)]
        p.op("while_loop", [f"w{n}"], types=[("FLOAT32", (1,))], loop_vars=[start], blocks=blocks)
        return f"w{n}"

    last = level(0, p.const(np.float32([0]), "zero"))
    p.output(p.op("add", "y", x="x", y=last))
    return p


def test_recursion_is_bounded():
    refused(loops(60), "cut short|too deep|more operators")  # protobuf's limit of nested messages
    deep = message("MILSpec.Value")()
    at = deep
    for _ in range(40):
        at.type.listType.type.tensorType.dataType = 1
        at = at.immediateValue.list.values.add()
    value(np.float32(1), into=at)
    p = Program()
    p.now.operations.add(type="const").attributes["val"].CopyFrom(deep)
    p.now.operations[0].outputs.add(name="c", type=deep.type)
    refused(p, "lists too deep|cut short|holds nothing|it has no type")


def test_a_program_may_not_repeat_itself_without_end():
    p = Program()
    p.input("x", (1, 4))
    for i in range(30):
        p.op("concat", f"c{i}", values=["x"] * 400, axis=0, interleave=False, types=("FLOAT32", (400, 4)))
    with spending(Limits(nodes=9000)):
        refused(p, "more operators and operands than any model has")

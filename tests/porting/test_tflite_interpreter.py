"""`fastgraph.tflite` beside LiteRT's own interpreter: what each call gives, and what it raises."""

import warnings
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

from fastgraph import tflite
from tests.circle.test_control import begin, end, variable
from tests.circle.test_recipes import OFF_BY_ONE
from tests.circle.write import Model
from tests.model.test_metadata import signed, two_signatures, written

litert = pytest.importorskip("ai_edge_litert.interpreter")
F32 = np.float32
SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
NAMED = [
    "mlperf_tiny/ad01_fp32", "mlperf_tiny/ic_resnet8_int8", "mlperf_tiny/kws_dscnn_int8",
    "mlperf_tiny/vww_mobilenetv1_025_96_int8", "tflite/hello_world_int8", "tflite/micro_speech_quantized",
    "tflite/mobilenet_v1_0.25_128_quant", "onnx/version-slim-320_without_postprocessing",
]  # fmt: skip
KINDS = [litert.Interpreter, tflite.Interpreter]


def both(data: bytes | str, **options: Any) -> list[Any]:
    """LiteRT's interpreter and ours."""
    given = {"model_content": data} if isinstance(data, bytes) else {"model_path": data}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [kind(**given, **options) for kind in KINDS]


def outcome(call: Any, *arguments: Any, **named: Any) -> Any:
    """What a call gives, or the type of the exception that it raises."""
    try:
        return call(*arguments, **named)
    except Exception as error:
        return type(error)


def alike(found: Any, wanted: Any) -> None:
    """The same types and values, in dicts, lists and tuples, too."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            alike(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            alike(a, b)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found == wanted


def filled(details: list[dict], seed: int = 0) -> list[np.ndarray]:
    """A value for each input."""
    rng = np.random.default_rng(seed)
    values = []
    for each in details:
        dtype = np.dtype(each["dtype"])
        shape = tuple(each["shape"])
        values.append(rng.random(shape, F32) if dtype.kind == "f" else rng.integers(0, 2, shape).astype(dtype))
    return values


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    """One step of quantized results, or what float32 sums in another order differ by."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype.kind in "iu":
        assert np.abs(found.astype(np.int64) - wanted).max(initial=0) <= 2
    elif wanted.dtype.kind in "fc":
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * max(1, np.abs(wanted).max(initial=0)))
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(not SHARED.exists(), reason="no shared/models beside it")
@pytest.mark.parametrize("name", NAMED)
def test_real_networks(name: str) -> None:
    theirs, ours = both(str(SHARED / f"{name}.tflite"))
    for when in ("made", "allocated"):
        alike(ours.get_input_details(), theirs.get_input_details())
        if when == "made":
            alike(ours.get_output_details(), theirs.get_output_details())
            own = ours.get_tensor_details()
            # later LiteRT's kernels change them; its delegate has added tensors behind those of the file
            alike(own, theirs.get_tensor_details()[: len(own)])
            theirs.allocate_tensors(), ours.allocate_tensors()
    alike(ours.get_signature_list(), theirs.get_signature_list())
    assert ours.num_subgraphs() == theirs.num_subgraphs()
    for mine, other in zip(ours._get_ops_details(), theirs._get_ops_details(), strict=False):
        alike(mine, other)
    for detail, value in zip(ours.get_input_details(), filled(ours.get_input_details()), strict=True):
        theirs.set_tensor(detail["index"], value), ours.set_tensor(detail["index"], value)
        alike(ours.get_tensor(detail["index"]), theirs.get_tensor(detail["index"]))
    theirs.invoke(), ours.invoke()
    alike(ours.get_output_details(), theirs.get_output_details())
    for detail in ours.get_output_details():
        near(ours.get_tensor(detail["index"]), theirs.get_tensor(detail["index"]))
    constants = [i for i in range(len(own)) if ours._file.constant(0, i) is not None]
    assert constants
    for i in constants:
        alike(ours.get_tensor(i), theirs.get_tensor(i))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no shared/models beside it")
def test_recipes() -> None:
    """249 files of one to a few operators, of all kinds."""
    compared = 0
    for path in sorted((SHARED / "recipes").glob("*.tflite")):
        stored = path.with_suffix(".npz")
        if not stored.exists() or path.stem in OFF_BY_ONE:
            continue
        arrays = np.load(stored)
        theirs, ours = both(str(path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
        if isinstance(outcome(theirs.allocate_tensors), type):
            continue
        ours.allocate_tensors()
        alike(ours.get_input_details(), theirs.get_input_details())
        alike(
            [{**each, "shape": 0} for each in ours.get_output_details()],
            [{**each, "shape": 0} for each in theirs.get_output_details()],
        )
        for i, detail in enumerate(ours.get_input_details()):
            ours.set_tensor(detail["index"], arrays[f"in{i}"])
        ours.invoke()
        for i, detail in enumerate(ours.get_output_details()):
            near(ours.get_tensor(detail["index"]), arrays[f"out{i}"])
            assert tuple(detail["shape"]) == arrays[f"out{i}"].shape
        compared += 1
    assert compared > 200


def dense() -> bytes:
    """x [1, 4] (its first extent may be any) -> x @ w, then RELU."""
    m = Model()
    x = m.input((1, 4), name="x")
    m.now["tensors"][x]["shape_signature"] = [-1, 4]
    w = m.const(np.arange(8, dtype=F32).reshape(2, 4))
    (y,) = m.op("FULLY_CONNECTED", [x, w, None], [(1, 2)], keep_num_dims=False)
    return m.bytes(m.op("RELU", [y], [(1, 2)]))


WRONG = [
    np.zeros((1, 4)), np.zeros((2, 4), F32), np.zeros(4, F32), np.zeros((1, 4), np.int32), [[1.0, 2, 3, 4]], F32(3),
    "x",
]  # fmt: skip


def test_what_is_refused() -> None:
    theirs, ours = both(dense())
    one = np.ones((1, 4), F32)
    for interpreter in (theirs, ours):  # nothing is there before memory is planned
        assert outcome(interpreter.invoke) is RuntimeError
        assert outcome(interpreter.get_tensor, 0) is outcome(interpreter.tensor(0)) is ValueError
        assert outcome(interpreter.set_tensor, 0, one) is ValueError
        interpreter.allocate_tensors()
    for value in WRONG:
        assert outcome(ours.set_tensor, 0, value) is outcome(theirs.set_tensor, 0, value) is ValueError
    for index in (99, -1):
        assert outcome(ours.set_tensor, index, one) is outcome(theirs.set_tensor, index, one) is ValueError
        assert outcome(ours.get_tensor, index) is outcome(theirs.get_tensor, index) is ValueError
        assert outcome(ours.resize_tensor_input, index, [1, 4]) is RuntimeError
    assert outcome(ours.set_tensor, "x", one) is outcome(theirs.set_tensor, "x", one) is TypeError
    assert outcome(ours.set_tensor, np.int64(0), one) is None
    for interpreter in (ours, theirs):
        assert outcome(interpreter.resize_tensor_input, 0, [1, 5], strict=True) is RuntimeError
        assert outcome(interpreter.get_signature_runner) is outcome(interpreter.get_signature_runner, "x") is ValueError
        assert outcome(interpreter.get_tensor_details, 1) is ValueError


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_can_not_be(kind: type, tmp_path: Path) -> None:
    data = dense()
    given = {"model_content": data}
    for bad in (
        {}, {"model_path": "x", "model_content": b"y"}, {"model_content": b"abc"}, {"model_path": "/nope.tflite"},
        {**given, "num_threads": 0}, {**given, "num_threads": "2"}, {"model_path": str(tmp_path)},
        {**given, "experimental_op_resolver_type": 7},
    ):  # fmt: skip
        assert outcome(kind, **bad) is ValueError, bad
    assert outcome(kind, model_content="text") is TypeError
    assert outcome(kind, model_content=data, unknown=1) is TypeError
    (tmp_path / "m.tflite").write_bytes(data)
    assert kind(tmp_path / "m.tflite", num_threads=2).get_input_details()[0]["name"] == "x"


def test_shapes_change_and_come_back() -> None:
    theirs, ours = both(dense())
    for shape in ([3, 4], [1, 4], [3, 4]):
        for interpreter in (theirs, ours):
            interpreter.resize_tensor_input(0, shape, strict=True)
        alike(ours.get_input_details(), theirs.get_input_details())
        assert (outcome(ours.invoke), outcome(ours.get_tensor, 0)) == (RuntimeError, ValueError)
        x = np.random.default_rng(0).normal(size=shape).astype(F32)
        for interpreter in (theirs, ours):
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, x)
        alike(ours.get_output_details(), theirs.get_output_details())
        ours.invoke(), theirs.invoke()
        near(ours.get_tensor(3), theirs.get_tensor(3))
    ours.resize_tensor_input(0, [3, 4])  # no other shape than before: what was fed stays
    ours.invoke()
    np.testing.assert_array_equal(ours.get_tensor(0), x)


def test_strict_goes_by_the_shape_at_hand_where_the_file_has_no_signature() -> None:
    m = Model()
    x = m.input((1, 4), name="x")
    theirs, ours = both(m.bytes(m.op("RELU", [x], [(1, 4)])))
    sizes = ([2, 4], False), ([2, 4], True), ([1, 4], True), ([3, 4, 1], False), ([3, 4, 1], True), ([3, 4], True)
    for size, strict in (*sizes, ([], True), ([], False), ([], True), ([1], True)):
        found = [outcome(each.resize_tensor_input, x, size, strict=strict) for each in (ours, theirs)]
        assert found[0] is found[1], (size, strict)


def test_results_stay_until_memory_is_planned_again() -> None:
    for interpreter in both(dense()):
        for shape in ([3, 4], [1, 4], [3, 4]):
            interpreter.resize_tensor_input(0, shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, np.ones(shape, F32))
            interpreter.invoke()
            for other in ([2, 4], shape):
                interpreter.resize_tensor_input(0, other)
                assert outcome(interpreter.get_tensor, 0) is outcome(interpreter.tensor(0)) is ValueError
                assert interpreter.get_tensor(3).shape == (shape[0], 2)


def test_extents_that_the_file_fixes_are_resized_too() -> None:
    m = Model()
    x = m.input((1, 6, 6, 2), np.int8, (0.5, 1), name="x")
    w = m.const(np.random.default_rng(0).integers(-9, 9, (3, 3, 3, 2)).astype(np.int8), (0.1, 0))
    b = m.const(np.arange(3, dtype=np.int32), (0.05, 0))
    (y,) = m.op("CONV_2D", [x, w, b], [((1, 4, 4, 3), np.int8, (1.0, 0))], padding="VALID", stride_w=1, stride_h=1)
    (z,) = m.op("MEAN", [y, m.const(np.array([1, 2], np.int32))], [((1, 3), np.int8, (1.0, 0))], keep_dims=False)
    theirs, ours = both(m.bytes([z]))
    for shape in ([2, 6, 6, 2], [2, 9, 7, 2], [1, 6, 6, 2], [2, 9, 7, 2]):
        value = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
        for interpreter in (theirs, ours):
            interpreter.resize_tensor_input(x, shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(x, value)
            interpreter.invoke()
        alike(ours.get_output_details(), theirs.get_output_details())
        near(ours.get_tensor(z), theirs.get_tensor(z))
    for interpreter in (theirs, ours):
        interpreter.resize_tensor_input(x, [6, 6])
        assert outcome(interpreter.allocate_tensors) is RuntimeError and outcome(interpreter.invoke) is RuntimeError


def test_operators_that_want_known_shapes_are_resized_too() -> None:
    """MediaPipe's transposed convolution, SAME padding, which LiteRT lacks: a size gives what a file of it gives."""
    w, bias = np.random.default_rng(0).normal(size=(2, 3, 3, 1)).astype(F32), np.zeros(2, F32)

    def network(height: int) -> tflite.Interpreter:
        m = Model()
        x = m.input((1, height, 4, 1), name="x")
        operands = [x, m.const(w), m.const(bias)]
        shape = (1, 2 * height - height % 2, 8, 2)
        custom = pack("<4i", 1, 2, 2, 0)
        return tflite.Interpreter(
            model_content=m.bytes(m.op("Convolution2DTransposeBias", operands, [shape], custom=custom))
        )

    resized = network(5)
    for height in (6, 3, 5):
        value = np.random.default_rng(1).normal(size=(1, height, 4, 1)).astype(F32)
        found = []
        for interpreter in (resized, network(height)):
            interpreter.resize_tensor_input(0, value.shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, value)
            interpreter.invoke()
            found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        alike(*found)


def test_inputs_hold_what_was_set_and_views_are_of_it() -> None:
    theirs, ours = both(dense())
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
        feed, result = interpreter.tensor(0), interpreter.tensor(3)
        feed()[...] = 2
        interpreter.invoke()
        assert result().tolist() == [[12, 44]]
        interpreter.invoke()  # nothing set anew
        assert interpreter.get_tensor(0).tolist() == [[2] * 4] and result().tolist() == [[12, 44]]
        copy = interpreter.get_tensor(3)
        copy[...] = 0
        feed()[0, 0] = 3
        interpreter.invoke()
        assert result().tolist() == [[12, 48]] and copy.tolist() == [[0, 0]]


def test_inner_tensors() -> None:
    data = dense()
    theirs, ours = both(data, experimental_preserve_all_tensors=True)
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array([[-1, 2, -3, 1]], F32))
        interpreter.invoke()
    for i in range(4):
        alike(ours.get_tensor(i), theirs.get_tensor(i))
    plain = tflite.Interpreter(model_content=data)
    plain.allocate_tensors()
    plain.invoke()
    with pytest.raises(ValueError, match="experimental_preserve_all_tensors=True"):
        plain.get_tensor(2)


def test_floats_in_the_place_of_stored_numbers() -> None:
    """The error says what an input stores for them."""
    m = Model()
    x = m.input((1, 3), np.int8, (0.5, 1), name="x")
    network = tflite.Interpreter(model_content=m.bytes(m.op("NEG", [x], [((1, 3), np.int8, (0.5, 1))])))
    network.allocate_tensors()
    with pytest.raises(ValueError, match="found float32: convert it, ") as said:
        network.set_tensor(0, (reals := np.array([[-1, 0.6, 1000]], F32)))
    code = str(said.value).partition("convert it, ")[2]
    assert eval(code, {"np": np, "x": reals}).tolist() == [[-1, 2, 127]]


def recurrent() -> bytes:
    m = Model()
    x = m.input((1, 4), name="x")
    constants = [m.const(np.ones(shape, F32)) for shape in ((2, 4), (2, 3))]
    return m.bytes(m.op("SVDF", [x, *constants, None, m.variable((1, 6))], [(1, 2)], rank=1))


def counter() -> bytes:
    """A variable that begins with zeros, and to which the input is added in each run."""
    m = Model()
    m.graph()
    m.op("ASSIGN_VARIABLE", [variable(m), m.const(np.zeros(4, F32))], [])
    begin(m)
    x = m.input((4,), name="x")
    m.op("CALL_ONCE", [], [], init_subgraph_index=1)
    handle = variable(m)
    (before,) = m.op("READ_VARIABLE", [handle], [(4,)])
    (total,) = m.op("ADD", [before, x], [(4,)])
    m.op("ASSIGN_VARIABLE", [handle, total], [])
    m.now["outputs"] = [total]
    return end(m)


@pytest.mark.parametrize("make", [recurrent, counter])
def test_variables_live_until_they_are_reset(make: Any) -> None:
    """Those of recurrent layers are reset, those that operators know by name are not."""
    found = []
    for interpreter in both(make()):
        interpreter.allocate_tensors()
        place = interpreter.get_output_details()[0]["index"]
        results = []
        for then in (None, None, interpreter.allocate_tensors, interpreter.reset_all_variables, None):
            shape = interpreter.get_input_details()[0]["shape"]
            interpreter.set_tensor(0, np.ones(shape, F32))
            interpreter.invoke()
            results.append(interpreter.get_tensor(place).tolist())
            if then is not None:
                then()
        found.append(results)
    assert found[0] == found[1] and found[0][0] != found[0][1]


def test_signatures_share_variables() -> None:
    theirs, ours = both(two_signatures())
    alike(ours.get_signature_list(), theirs.get_signature_list())
    found = []
    for interpreter in (theirs, ours):
        add, init = (interpreter.get_signature_runner(key) for key in ("add", "init"))
        results = [init(start=np.full(4, 5, F32)), add(a=np.ones(4, F32)), add(a=np.ones(4, F32))]
        found.append([*results, init(start=np.zeros(4, F32)), add(a=np.arange(4, dtype=F32))])
        for details in (add.get_input_details(), init.get_output_details()):
            found[-1].append(details)
        assert outcome(add) is outcome(add, b=np.ones(4, F32)) is outcome(add, a=np.ones(4)) is ValueError
        assert outcome(interpreter.get_signature_runner) is ValueError
    alike(found[1], found[0])


def test_a_signature_that_only_reads_sees_what_another_wrote() -> None:
    m = Model()
    m.op("ASSIGN_VARIABLE", [variable(m), (w := m.input((2,), name="w"))], [])
    m.now["outputs"] = m.op("NEG", [w], [(2,)])
    written_ = m.now["outputs"][0]
    m.graph()
    x = m.input((3, 2), name="x")
    (weight,) = m.op("READ_VARIABLE", [variable(m)], [(2,)])
    (y,) = m.op("MUL", [x, weight], [(3, 2)])
    m.now["outputs"] = [y]
    signatures = [signed("infer", 1, {"x": x}, {"y": y}), signed("train", 0, {"w": w}, {"done": written_})]
    theirs, ours = both(written(m, signatures))
    one = np.ones((3, 2), F32)
    for value in ([1, 2], [3, 4]):
        found = []
        for interpreter in (theirs, ours):
            interpreter.get_signature_runner("train")(w=np.array(value, F32))
            found.append([interpreter.get_signature_runner("infer")(x=one) for _ in range(2)])
        alike(found[1], found[0])
        assert found[1][0]["y"].tolist() == [value] * 3


def test_circle_files_are_read_too() -> None:
    m = Model("circle")
    (y,) = m.op("NEG", [m.input((2,), name="x")], [(2,)])
    interpreter = tflite.Interpreter(model_content=m.bytes([y]))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([1, 2], F32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [-1, -2]


def test_a_signature_takes_shapes_as_they_come() -> None:
    m = Model()
    x, y = m.input((1, 3), name="xx"), m.input((1, 3), name="yy")
    (z,) = m.op("SUB", [x, y], [(1, 3)])
    m.now["outputs"] = [z]
    data = written(m, [signed("serving_default", 0, {"second": y, "first": x}, {"difference": z})])
    theirs, ours = both(data)
    alike(ours.get_signature_list(), theirs.get_signature_list())
    for rows in (1, 4, 2):
        a, b = (np.random.default_rng(i).normal(size=(rows, 3)).astype(F32) for i in range(2))
        feeds = {"first": a, "second": b}
        alike(ours.get_signature_runner()(**feeds), theirs.get_signature_runner()(**feeds))


def test_text_is_bytes() -> None:
    m = Model()
    x = m.input((2,), object, name="s")
    (y,) = m.op("RESHAPE", [x, m.const(np.array([2, 1], np.int32))], [((2, 1), object)], new_shape=[2, 1])
    found = []
    for interpreter in both(m.bytes([y])):
        interpreter.allocate_tensors()
        given = []
        for value in (np.array(["a", "bcé"]), np.array([b"a", b"bc"]), np.array(["a", "bc"], object)):
            interpreter.set_tensor(0, value)
            interpreter.invoke()
            given.append(interpreter.get_tensor(y))
        found.append([*given, interpreter.get_input_details()])
    alike(found[1], found[0])


def test_shapes_that_depend_on_data() -> None:
    m = Model()
    x = m.input((2, 3), name="x")
    (mask,) = m.op("GREATER", [x, m.const(np.array(0, F32))], [((2, 3), np.bool_)])
    (y,) = m.op("WHERE", [mask], [((0, 2), np.int64)])
    theirs, ours = both(m.bytes([y]))
    for value in (np.eye(2, 3, dtype=F32), np.ones((2, 3), F32), np.eye(2, 3, dtype=F32)):
        for interpreter in (theirs, ours):
            interpreter.allocate_tensors()
            interpreter.set_tensor(x, value)
            interpreter.invoke()
        alike(ours.get_tensor(y), theirs.get_tensor(y))
        alike(ours.get_output_details(), theirs.get_output_details())


def test_delegates() -> None:
    with pytest.raises(ValueError, match="has no delegates"):
        tflite.load_delegate("libedgetpu.so.1")
    with pytest.warns(RuntimeWarning, match="delegates are passed over"):
        tflite.Interpreter(model_content=dense(), experimental_delegates=[object()])
    with pytest.raises(ValueError, match="register_custom_op"):
        tflite.InterpreterWithCustomOps(["Register"], model_content=dense())

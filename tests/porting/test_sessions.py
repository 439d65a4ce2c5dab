"""What fastgraph.onnxruntime does where onnxruntime differs, or can't be asked."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as h

import fastgraph as fg
import fastgraph.onnxruntime as ort
from fastgraph.demo import MODEL, held_out
from fastgraph.onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, ModelLoadCanceled
from fastgraph.onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Lacking
from fastgraph.onnxruntime.profile import Profile
from tests.porting.calls import ADD, X, network
from tests.threads import at_once


def test_a_session_gives_what_the_model_gives():
    images, _ = held_out()
    session, model = ort.InferenceSession(MODEL), fg.load(MODEL)
    for image in images[:5]:
        (mine,) = session.run(["probabilities"], {"image": image})
        np.testing.assert_array_equal(mine, model(image))


def test_results_are_the_callers_own():
    session = ort.InferenceSession(ADD)
    first = session.run(None, {"x": X})
    kept = [array.copy() for array in first]
    session.run(None, {"x": X + 1})
    for array, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_threads_are_those_of_the_options():
    options = ort.SessionOptions()
    options.intra_op_num_threads = 3
    assert ort.InferenceSession(ADD, options)._model.threads == 3


def test_a_saved_program_is_a_session(tmp_path):
    fg.load(MODEL, threads=1).save(tmp_path / "digits.fgm")
    session = ort.InferenceSession(str(tmp_path / "digits.fgm"))
    images, labels = held_out()
    (name,) = (arg.name for arg in session.get_inputs())
    assert session.get_inputs()[0].type == "tensor(float)"
    assert session.run(None, {name: images[0]})[0].argmax() == labels[0]
    code = (
        "import sys, fastgraph.onnxruntime as ort; ort.InferenceSession(sys.argv[1]); "
        "assert not {'google', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "digits.fgm")], check=True, timeout=300)


def test_denotations_give_dimensions():
    model = h.make_model(h.make_graph(
        [h.make_node("Relu", ["x"], ["y"])], "g", [h.make_tensor_value_info("x", T.FLOAT, [None, 3])],
        [h.make_tensor_value_info("y", T.FLOAT, [None, 3])]), opset_imports=[h.make_opsetid("", 17)])  # fmt: skip
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    session = ort.InferenceSession(model.SerializeToString(), options)
    assert session.get_inputs()[0].shape == [2, 3] == session.get_outputs()[0].shape
    with pytest.raises(InvalidArgument, match="index: 0 Got: 1 Expected: 2"):
        session.run(None, {"x": X[:1]})


def test_some_dimensions_alone_leave_the_others_open():
    data = network([h.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, ["a", "b"])], [("y", T.FLOAT, ["a", "b"])])
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("a", 2)
    session = ort.InferenceSession(data, options)
    assert session.get_inputs()[0].shape == [2, "b"]
    assert session.run(None, {"x": X})[0].shape == (2, 3)
    with pytest.raises(InvalidArgument, match="Got: 1 Expected: 2"):
        session.run(None, {"x": X[:1]})


def test_outputs_that_the_file_says_nothing_of_are_told_from_the_plan():
    data = network([h.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, [2, 3])], [("y", T.FLOAT, None)])
    assert ort.InferenceSession(data).get_outputs()[0].shape == [2, 3]


def test_other_byte_orders_are_read_as_numbers():
    """Where onnxruntime reads their bytes as they lie."""
    session = ort.InferenceSession(ADD)
    (one,), (other,) = (session.run(["y"], {"x": x}) for x in (X, X.astype(">f4")))
    np.testing.assert_array_equal(one, other)


def test_bfloat16_goes_through_as_bits():
    edges = [("x", T.BFLOAT16, [2])], [("y", T.BFLOAT16, [2])]
    session = ort.InferenceSession(network([h.make_node("Add", ["x", "x"], ["y"])], *edges))
    bits = np.array([0x3F80, 0xC000], np.uint16)  # 1, -2
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, T.BFLOAT16)
    assert value.data_type() == "tensor(bfloat16)" and value.element_type() == T.BFLOAT16
    (result,) = session.run_with_ort_values(None, {"x": value})
    assert np.asarray(result, np.float32).tolist() == [2, -4]
    with pytest.raises(InvalidArgument, match=r"Actual: \(tensor\(float\)\)"):
        session.run(None, {"x": np.ones(2, np.float32)})


def test_a_weight_that_could_be_replaced_is_refused_when_it_is_fed():
    data = network([h.make_node("Add", ["x", "w"], ["y"])], [("x", T.FLOAT, [2, 3]), ("w", T.FLOAT, [3])],
                   [("y", T.FLOAT, [2, 3])], [h.make_tensor("w", T.FLOAT, [3], [1, 2, 3])])  # fmt: skip
    session = ort.InferenceSession(data)
    assert [arg.name for arg in session.get_overridable_initializers()] == ["w"]
    with pytest.raises(InvalidArgument, match="w: it has a value in the file"):
        session.run(None, {"x": X, "w": X[0]})


def test_what_is_asked_for_in_vain_is_said(tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    with pytest.warns(RuntimeWarning, match="no optimized model is written"):
        ort.InferenceSession(ADD, options)
    assert not (tmp_path / "optimized.onnx").exists()
    with pytest.warns(RuntimeWarning, match="numbers without a seed"):
        ort.set_seed(3)
    with pytest.warns(UserWarning, match="Specified provider 'TensorrtExecutionProvider' is not in available"):
        ort.InferenceSession(ADD, providers=["TensorrtExecutionProvider"])
    with pytest.raises(Fail, match="register_custom_op"):
        ort.SessionOptions().register_custom_ops_library("ops.so")
    with pytest.raises(Lacking, match="add_initializer: write the initializer into the file"):
        ort.SessionOptions().add_initializer("w", None)
    for use in (ort.SparseTensor, ort.ModelCompiler, ort.LoraAdapter, ort.LoraAdapter.Load):
        with pytest.raises(Lacking, match="fastgraph.onnxruntime has no"):
            use("x")
    with pytest.raises(Lacking, match=r"\.ort"):
        ort.InferenceSession(b"\x20\0\0\0ORTM" + bytes(64))
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(ModelLoadCanceled):
        ort.InferenceSession(ADD, options)


def test_asking_for_what_there_is_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        ort.InferenceSession(ADD, options, providers=ort.get_available_providers()).run(None, {"x": X})


def test_a_profile_is_a_trace_of_the_runs(tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "mine")
    session = ort.InferenceSession(ADD, options)
    for _ in range(3):
        session.run(None, {"x": X})
    assert session.get_profiling_start_time_ns() > 0
    path = session.end_profiling()
    events = json.loads(Path(path).read_text())
    assert Path(path).name.startswith("mine_") and Path(path).parent == tmp_path
    assert [event["name"] for event in events] == ["model_loading", *3 * ["model_run"]]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    assert session.end_profiling() == ""


def test_each_profile_has_a_file_of_its_own(tmp_path):
    profiles = [Profile(str(tmp_path / "mine")) for _ in range(20)]
    assert len({profile.write() for profile in profiles}) == len(list(tmp_path.iterdir())) == 20


def test_threads_may_share_a_session():
    session, wrong = ort.InferenceSession(ADD), []

    def work(k: int) -> None:
        for i in range(50):
            x = np.full((1 + i % 3, 3), k, np.float32)
            (y,) = session.run(["y"], {"x": x})
            if y.shape != x.shape or (y != x + [1, -2, 3]).any():
                wrong.append((k, i))

    at_once(work, range(4))
    assert not wrong


def test_sessions_can_be_inherited_from_and_pickled(tmp_path):
    (tmp_path / "net.onnx").write_bytes(ADD)
    session = _Mine(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    again = pickle.loads(pickle.dumps(session))
    np.testing.assert_array_equal(again.run(["y"], {"x": X})[0], session.run(["y"], {"x": X})[0])
    plain = pickle.loads(pickle.dumps(ort.InferenceSession(str(tmp_path / "net.onnx"))))
    assert plain.get_inputs()[0].shape == ["batch", 3]
    error = pickle.loads(pickle.dumps(InvalidArgument("text")))
    assert type(error) is InvalidArgument and str(error) == "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : text"


class _Mine(ort.InferenceSession):
    """As insightface writes it."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.path = path

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, values):
        self.__init__(values["path"])


def test_external_data_lies_beside_the_file(tmp_path):
    import onnx

    model = onnx.load_from_string(ADD)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, -2, 3], np.float32), "w"))
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    assert os.path.exists(tmp_path / "net.bin")
    (y,) = ort.InferenceSession(tmp_path / "net.onnx").run(["y"], {"x": X})
    np.testing.assert_array_equal(y, X + [1, -2, 3])


def test_an_empty_sequence_and_a_missing_optional_are_values():
    node = h.make_node("OptionalHasElement", ["x"], ["y"])
    optional = h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, [2]))
    graph = h.make_graph([node], "g", [h.make_value_info("x", optional)], [h.make_tensor_value_info("y", T.BOOL, [])])
    session = ort.InferenceSession(
        h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )
    assert session.get_inputs()[0].type == "optional(tensor(float))"
    assert [bool(session.run(None, feeds)[0]) for feeds in ({}, {"x": None}, {"x": X[0, :2]})] == [False, False, True]

"""Calls that onnxruntime and fastgraph.onnxruntime both get, and the networks that they are made on."""

import tempfile
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TWO = {"x": ("float", ["batch", 3])}

Call = Callable[[ModuleType, Any], Any]


def network(nodes, inputs, outputs, weights=(), opset: int = 17, ir: int = 8) -> bytes:
    """A model with metadata; inputs and outputs as (name, element type, shape)."""
    infos = [[h.make_tensor_value_info(*each) for each in edges] for edges in (inputs, outputs)]
    graph = h.make_graph(nodes, "the_graph", *infos, weights, doc_string="of the graph")
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], producer_name="tests", ir_version=ir)
    model.domain, model.doc_string, model.model_version = "a.domain", "of the model", 7
    h.set_model_props(model, {"labels": "a,b", "stride": "32"})
    return model.SerializeToString()


ADD = network(
    [h.make_node("Add", ["x", "w"], ["y"]), h.make_node("Relu", ["y"], ["z"])],
    [("x", T.FLOAT, ["batch", 3])],
    [("y", T.FLOAT, ["batch", 3]), ("z", T.FLOAT, ["batch", 3])],
    [h.make_tensor("w", T.FLOAT, [3], [1, -2, 3])],
)


def same(element: int, shape) -> bytes:
    return network([h.make_node("Identity", ["x"], ["y"])], [("x", element, shape)], [("y", element, shape)])


def sequence() -> bytes:
    node = h.make_node("SequenceConstruct", ["x", "x"], ["q"])
    graph = h.make_graph([node], "g", [h.make_tensor_value_info("x", T.FLOAT, ["n"])], [])
    graph.output.append(h.make_tensor_sequence_value_info("q", T.FLOAT, ["n"]))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()


def terminated(ort) -> Any:
    options = ort.RunOptions()
    options.terminate = True
    return options


RUNS: dict[str, Call] = {
    "all outputs": lambda ort, s: s.run(None, {"x": X}),
    "no names": lambda ort, s: s.run([], {"x": X}),
    "chosen outputs": lambda ort, s: s.run(["z", "y"], {"x": X}),
    "an output twice": lambda ort, s: s.run(("z", "z"), {"x": X}),
    "run options": lambda ort, s: s.run(None, {"x": X}, ort.RunOptions()),
    "by keyword": lambda ort, s: s.run(output_names=None, input_feed={"x": X}, run_options=None),
    "terminated": lambda ort, s: s.run(None, {"x": X}, terminated(ort)),
    "another batch": lambda ort, s: s.run(None, {"x": X[:1]}),
    "no rows": lambda ort, s: s.run(None, {"x": X[:0]}),
    "strides": lambda ort, s: s.run(None, {"x": np.asfortranarray(X)}),
    "read only": lambda ort, s: s.run(None, {"x": np.broadcast_to(np.float32(1), (2, 3))}),
    "a list": lambda ort, s: s.run(None, {"x": [[1.0, 2, 3]]}),
    "an OrtValue": lambda ort, s: s.run(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)}),
    "no such output": lambda ort, s: s.run(["q"], {"x": X}),
    "a weight as an output": lambda ort, s: s.run(["w"], {"x": X}),
    "nothing fed": lambda ort, s: s.run(None, {}),
    "one too many": lambda ort, s: s.run(None, {"x": X, "q": X}),
    "a weight fed": lambda ort, s: s.run(None, {"x": X, "w": X[0]}),
    "float64": lambda ort, s: s.run(None, {"x": X.astype(np.float64)}),
    "int32": lambda ort, s: s.run(None, {"x": X.astype(np.int32)}),
    "float16": lambda ort, s: s.run(None, {"x": X.astype(np.float16)}),
    "bool": lambda ort, s: s.run(None, {"x": X > 0}),
    "rank": lambda ort, s: s.run(None, {"x": X[0]}),
    "extent": lambda ort, s: s.run(None, {"x": X.T.copy()}),
    "None": lambda ort, s: s.run(None, {"x": None}),
    "a number": lambda ort, s: s.run(None, {"x": 3.0}),
    "a NumPy number": lambda ort, s: s.run(None, {"x": np.float32(3)}),
    "a text": lambda ort, s: s.run(None, {"x": "text"}),
    "no dict": lambda ort, s: s.run(None, [X]),
    "names as a text": lambda ort, s: s.run("z", {"x": X}),
    "names as numbers": lambda ort, s: s.run([1], {"x": X}),
    "ort values": lambda ort, s: [
        v.numpy() for v in s.run_with_ort_values(["z"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    ],
    "ort values, none named": lambda ort, s: [
        (v.numpy(), v.data_type(), v.shape())
        for v in s.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    ],
    "arrays for ort values": lambda ort, s: s.run_with_ort_values(None, {"x": X}),
    "async": lambda ort, s: waited(s, {"x": X}),
    "async, rank": lambda ort, s: waited(s, {"x": X[0]}),
    "async, nothing fed": lambda ort, s: waited(s, {}),
}


def waited(session, feeds):
    """What the callback is given; of errors, whether there was one."""
    done, got = threading.Event(), []

    def callback(results, user_data, error):
        got.append((results, user_data, bool(error)))
        done.set()

    session.run_async(["y"], feeds, callback, "mine")
    assert done.wait(30)
    return got


def _with(ort, name: str, value: Any) -> Any:
    options = ort.SessionOptions()
    setattr(options, name, value)
    return options


def _overridden(ort, session):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.add_free_dimension_override_by_name("nothing", 5)
    made = ort.InferenceSession(ADD, options)
    shapes = [arg.shape for arg in made.get_inputs() + made.get_outputs()]
    return shapes, made.run(None, {"x": X}), made.run(None, {"x": X[:1]})


def _entries(options, get):
    options(get)
    return get


FOREIGN = {
    "nothing": b"", "spaces": b"    ", "zeros": bytes(999), "a text": b"hello world\n",
    "code": b"import os\nprint(1)\n",
    "a web page": b"<!DOCTYPE html><html></html>", "JSON": b'{"a": 1}', "YAML": b"a: 1\nb: 2\n",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(99), "an archive": b"\x1f\x8b\x08" + bytes(99),
    "a zip": b"PK\x03\x04" + bytes(99), "a pickle": b"\x80\x02}q\x00.", "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(99),
    "an array": b"\x93NUMPY\x01\x00v\x00" + bytes(50), "junk": np.random.default_rng(0).bytes(5000),
    "half": ADD[: len(ADD) // 2], "all but a byte": ADD[:-1], "more": ADD + b"more",
}  # fmt: skip
"""What is no model, or not all of one."""


def _opened(data: bytes, kept: bool = False) -> Call:
    def call(ort, session):
        if not kept:
            return ort.InferenceSession(data)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            path.write_bytes(data)
            return ort.InferenceSession(path)

    return call


SESSIONS: dict[str, Call] = {
    "keywords": lambda ort, s: ort.InferenceSession(
        path_or_bytes=ADD, sess_options=ort.SessionOptions(), providers=["CPUExecutionProvider"],
        provider_options=None, enable_fallback=0,
    ).run(None, {"x": X}),
    "a further argument": lambda ort, s: ort.InferenceSession(ADD, something=3).run(None, {"x": X}),
    "one thread": lambda ort, s: ort.InferenceSession(ADD, _with(ort, "intra_op_num_threads", 1)).run(None, {"x": X}),
    "dimensions": _overridden,
    "a wrong dimension": lambda ort, s: _overridden(ort, s)[2],
    "no file": lambda ort, s: ort.InferenceSession("/nowhere/net.onnx"),
    "no bytes": lambda ort, s: ort.InferenceSession(b""),
    "no model": lambda ort, s: ort.InferenceSession(b"no model at all" * 9),
    "cut short": lambda ort, s: ort.InferenceSession(ADD[: len(ADD) // 2]),
    **{f"bytes of {kind}": _opened(data) for kind, data in FOREIGN.items()},
    **{f"a file of {kind}": _opened(data, kept=True) for kind, data in FOREIGN.items()},
    "no path": lambda ort, s: ort.InferenceSession(""),
    "a folder": lambda ort, s: ort.InferenceSession("/"),
    "a number": lambda ort, s: ort.InferenceSession(3),
    "a bytearray": lambda ort, s: ort.InferenceSession(bytearray(ADD)),
    "a stream": lambda ort, s: ort.InferenceSession(BytesIO(ADD)),
    "options of another type": lambda ort, s: ort.InferenceSession(ADD, {"intra_op_num_threads": 1}),
    "providers of another type": lambda ort, s: ort.InferenceSession(ADD, providers=5),
    "CUDA": lambda ort, s: ort.InferenceSession(
        ADD, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]).get_providers(),
    "only CUDA": lambda ort, s: ort.InferenceSession(ADD, providers=["CUDAExecutionProvider"]).get_providers(),
    "CUDA with options": lambda ort, s: ort.InferenceSession(
        ADD, providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]).get_provider_options(),
    "no providers": lambda ort, s: ort.InferenceSession(ADD, providers=[]).get_providers(),
    "twice the CPU": lambda ort, s: ort.InferenceSession(ADD, providers=2 * ["CPUExecutionProvider"]).get_providers(),
    "provider options": lambda ort, s: ort.InferenceSession(
        ADD, providers=["CPUExecutionProvider"], provider_options=[{"a": 1}]).get_provider_options(),
    "other providers": lambda ort, s: s.set_providers(["CPUExecutionProvider"]),
    "fallback": lambda ort, s: (s.enable_fallback(), s.disable_fallback()),
    "no profile": lambda ort, s: (s.end_profiling(), s.get_profiling_start_time_ns()),
    "session options": lambda ort, s: s.get_session_options().intra_op_num_threads,
    "tuning": lambda ort, s: s.get_tuning_results(),
    "memory": lambda ort, s: [(i.name, i.device_id, int(i.mem_type)) for i in s.get_input_memory_infos()],
    "bool for int": lambda ort, s: _with(ort, "intra_op_num_threads", True).intra_op_num_threads,
    "text for int": lambda ort, s: _with(ort, "intra_op_num_threads", "2"),
    "float for int": lambda ort, s: _with(ort, "inter_op_num_threads", 2.0),
    "int for bool": lambda ort, s: _with(ort, "enable_profiling", 1).enable_profiling,
    "int for text": lambda ort, s: _with(ort, "logid", 3),
    "int for a level": lambda ort, s: _with(ort, "graph_optimization_level", 99),
    "a level": lambda ort, s: _with(
        ort, "graph_optimization_level", ort.GraphOptimizationLevel.ORT_DISABLE_ALL).graph_optimization_level.name,
    "a mode": lambda ort, s: int(_with(ort, "execution_mode", ort.ExecutionMode.ORT_PARALLEL).execution_mode),
    "no such option": lambda ort, s: _with(ort, "number_of_threads", 1),
    "an entry": lambda ort, s: ort.SessionOptions().add_session_config_entry("a", "b"),
    "no entry": lambda ort, s: ort.SessionOptions().get_session_config_entry("a"),
    "a number as an entry": lambda ort, s: ort.SessionOptions().add_session_config_entry("a", 1),
    "no entry of a run": lambda ort, s: ort.RunOptions().get_run_config_entry("a"),
    "a library": lambda ort, s: ort.SessionOptions().register_custom_ops_library("/nowhere.so"),
    "process": lambda ort, s: (
        ort.set_default_logger_severity(3), ort.set_default_logger_verbosity(0), ort.disable_telemetry_events(),
        ort.get_device(), ort.has_collective_ops(), ort.get_version_string() == ort.__version__,
    ),
    "a severity": lambda ort, s: ort.set_default_logger_severity(9),
    "an allocator": lambda ort, s: ort.create_and_register_allocator(
        ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT),
        ort.OrtArenaCfg({"max_mem": 1 << 20})),
}  # fmt: skip


def _value(ort, array=X):
    return ort.OrtValue.ortvalue_from_numpy(array)


def _updated(ort, session):
    array = X.copy()
    value = _value(ort, array)
    value.update_inplace(data=array * 2)
    return array, value.numpy()


VALUES: dict[str, Call] = {
    "what it is": lambda ort, s: (
        _value(ort).shape(), _value(ort).data_type(), _value(ort).element_type(), _value(ort).device_name(),
        _value(ort).tensor_size_in_bytes(), _value(ort).is_tensor(), _value(ort).is_tensor_sequence(),
        _value(ort).is_sparse_tensor(), _value(ort).has_value(), _value(ort).data_ptr() == X.ctypes.data,
    ),
    "shared memory": lambda ort, s: np.shares_memory(_value(ort).numpy(), X),
    "as an array": lambda ort, s: (np.asarray(_value(ort)), np.from_dlpack(_value(ort))),
    "strides": lambda ort, s: _value(ort, X.T).numpy(),
    "updated": _updated,
    "updated with fewer": lambda ort, s: _value(ort, X.copy()).update_inplace(X[0]),
    "of a shape": lambda ort, s: ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64).shape(),
    "of bfloat16": lambda ort, s: ort.OrtValue.ortvalue_from_shape_and_type([2, 3], T.BFLOAT16).data_type(),
    "on CUDA": lambda ort, s: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
    "on nothing": lambda ort, s: ort.OrtValue.ortvalue_from_numpy(X, "abacus", 0),
    "of a list": lambda ort, s: ort.OrtValue.ortvalue_from_numpy([1.0]),
    "of texts": lambda ort, s: ort.OrtValue.ortvalue_from_numpy(np.array(["a"])),
    "a device": lambda ort, s: [
        (d.device_type(), d.device_id(), d.device_mem_type(), d.device_vendor_id())
        for d in (ort.OrtDevice.make(ort_device_name="cpu", device_id=0), ort.OrtDevice.make("cuda", 1))
    ],
}  # fmt: skip


def binding(*steps: Callable[[ModuleType, Any, Any], Any]) -> Call:
    """A call that binds, and gives what the last step does."""

    def call(ort, session):
        bound = session.io_binding()
        for step in steps:
            result = step(ort, session, bound)
        return result

    return call


def _run(ort, session, bound):
    session.run_with_iobinding(bound)
    return bound.copy_outputs_to_cpu()


def _given(ort, session, bound):
    bound.bind_cpu_input("x", X)


def _memory(array):
    return lambda ort, s, b: b.bind_output("y", "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def _into(shape, dtype=np.float32) -> Call:
    def call(ort, session):
        place = np.zeros(shape, dtype)
        binding(_given, _memory(place), _run)(ort, session)
        return place

    return call


def _into_value(ort, session):
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    steps = (_given, lambda ort, s, b: b.bind_ortvalue_output("z", value), lambda ort, s, b: b.bind_output("y"), _run)
    return binding(*steps)(ort, session), value.numpy()


def _cleared(ort, session, bound):
    bound.clear_binding_inputs()
    bound.clear_binding_outputs()


_z = lambda ort, s, b: b.bind_output("z")  # noqa: E731

BINDINGS: dict[str, Call] = {
    "bound": binding(_given, _z, _run),
    "in the order of binding": binding(_given, _z, lambda ort, s, b: b.bind_output("y", "cpu"), _run),
    "of the caller's memory": binding(
        lambda ort, s, b: b.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data), _z, _run),
    "of an ONNX type": binding(
        lambda ort, s, b: b.bind_input("x", "cpu", 0, 1, X.shape, X.ctypes.data), _z, _run),
    "of an OrtValue": binding(lambda ort, s, b: b.bind_ortvalue_input("x", _value(ort)), _z, _run),
    "values": binding(_given, _z, _run, lambda ort, s, b: [
        (v.shape(), v.data_type(), v.device_name(), v.numpy()) for v in b.get_outputs()]),
    "twice": binding(_given, _z, _run, lambda ort, s, b: b.bind_cpu_input("x", X[:1]), _z, _run),
    "into memory": _into((2, 3)),
    "into another shape": _into((3, 3)),
    "into another type": _into((2, 3), np.float64),
    "into an OrtValue": _into_value,
    "cleared": binding(_given, _z, _run, _cleared, _given, _z, _run),
    "nothing to give": binding(_given, lambda ort, s, b: s.run_with_iobinding(b)),
    "nothing given": binding(_z, lambda ort, s, b: s.run_with_iobinding(b)),
    "no such input": binding(lambda ort, s, b: b.bind_cpu_input("q", X)),
    "no such output": binding(_given, lambda ort, s, b: b.bind_output("q"), lambda ort, s, b: s.run_with_iobinding(b)),
    "a list": binding(lambda ort, s, b: b.bind_cpu_input("x", [1.0])),
    "of another type": binding(lambda ort, s, b: b.bind_cpu_input("x", X > 0), _z,
                               lambda ort, s, b: s.run_with_iobinding(b)),
    "on CUDA": binding(lambda ort, s, b: b.bind_input("x", "cuda", 0, np.float32, X.shape, X.ctypes.data)),
    "to CUDA": binding(_given, lambda ort, s, b: b.bind_output("z", "cuda"), _run),
    "to nothing": binding(lambda ort, s, b: b.bind_output("z", "abacus")),
    "memory of no type": binding(lambda ort, s, b: b.bind_output("z", "cpu", 0, buffer_ptr=X.ctypes.data)),
    "another session's": lambda ort, s: ort.InferenceSession(ADD).run_with_iobinding(s.io_binding()),
}  # fmt: skip


def _broken(nodes, inputs, outputs, opset: int = 17, **options) -> Call:
    return lambda ort, s: ort.InferenceSession(network(nodes, inputs, outputs, opset=opset, **options))


def _fed(nodes, **feeds) -> Call:
    """A run of a network whose inputs' axes are open."""
    kinds = {name: h.np_dtype_to_tensor_dtype(a.dtype) for name, a in feeds.items()}
    inputs = [(name, kinds[name], [f"{name}{i}" for i in range(a.ndim)]) for name, a in feeds.items()]
    return lambda ort, s: ort.InferenceSession(network(nodes, inputs, [("a", T.FLOAT, None)])).run(None, feeds)


F, ONE = T.FLOAT, [("x", T.FLOAT, [1])]
N = h.make_node
WRONG: dict[str, Call] = {
    "cycle": _broken([N("Add", ["x", "b"], ["a"]), N("Relu", ["a"], ["b"])], ONE, [("b", F, [1])]),
    "defined twice": _broken([N("Relu", ["x"], ["a"]), N("Relu", ["x"], ["a"])], ONE, [("a", F, [1])]),
    "no such value": _broken([N("Relu", ["x"], ["a"])], ONE, [("q", F, [1])]),
    "undefined": _broken([N("Add", ["x", "q"], ["a"])], ONE, [("a", F, [1])]),
    "attribute": _broken([N("Relu", ["x"], ["a"], scale=1)], ONE, [("a", F, [1])]),
    "no attribute": _broken([N("Concat", ["x"], ["a"])], ONE, [("a", F, [1])]),
    "few inputs": _broken([N("Add", ["x"], ["a"])], ONE, [("a", F, [1])]),
    "types": _broken([N("Add", ["x", "i"], ["a"])], [*ONE, ("i", T.INT64, [1])], [("a", F, [1])]),
    "a type": _broken([N("Relu", ["x"], ["a"])], [("x", T.STRING, [1])], [("a", T.STRING, [1])]),
    "extents": _broken([N("Add", ["x", "y"], ["a"])], [("x", F, [2]), ("y", F, [3])], [("a", F, [3])]),
    "product": _broken([N("MatMul", ["x", "y"], ["a"])], [("x", F, [2, 2]), ("y", F, [3, 3])], [("a", F, [2, 3])]),
    "unknown": _broken([N("Nonsense", ["x"], ["a"])], ONE, [("a", F, [1])]),
    "run: product": _fed([N("MatMul", ["x", "y"], ["a"])], x=X, y=X),
    "run: sum": _fed([N("Add", ["x", "y"], ["a"])], x=X, y=X[:, :2]),
    "run: concat": _fed([N("Concat", ["x", "y"], ["a"], axis=0)], x=X, y=X.T),
    "run: reshape": _fed([N("Reshape", ["x", "y"], ["a"])], x=X, y=np.array([5])),
}


def user_domain(ort, session):
    graph = h.make_graph(
        [N("Nonsense", ["x"], ["a"], domain="mine")], "g",
        [h.make_tensor_value_info(*ONE[0])], [h.make_tensor_value_info("a", F, [1])],
    )  # fmt: skip
    opsets = [h.make_opsetid("", 17), h.make_opsetid("mine", 1)]
    return ort.InferenceSession(h.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


WRONG["a user's operator"] = user_domain


def typed(element: int, dtype) -> Call:
    def call(ort, session):
        made = ort.InferenceSession(same(element, ["n", None, 2]))
        args = [(a.name, a.type, a.shape) for a in made.get_inputs() + made.get_outputs()]
        return args, made.run(None, {"x": np.ones((1, 3, 2), dtype)})

    return call


def _texts(ort, session):
    made = ort.InferenceSession(same(T.STRING, ["n"]))
    feeds = (np.array(["ab", "c"]), np.array(["ab", "c"], object), ["ab", "c"])
    return [list(made.run(None, {"x": fed})[0]) for fed in feeds], made.get_inputs()[0].type


def _scalars(ort, session):
    made = ort.InferenceSession(network([N("Mul", ["x", "x"], ["y"])], [("x", F, [])], [("y", F, [])]))
    return made.get_inputs()[0].shape, made.run(None, {"x": np.float32(3) + np.zeros((), np.float32)})


def _one_for_a_scalar(ort, session):
    made = ort.InferenceSession(network([N("Mul", ["x", "x"], ["y"])], [("x", F, [])], [("y", F, [])]))
    return [float(np.squeeze(made.run(None, {"x": np.array([3], np.float32)})[0]))]


def _sequence(ort, session):
    made = ort.InferenceSession(sequence())
    (value,) = made.run_with_ort_values(None, {"x": _value(ort, X[0])})
    said = [(a.name, a.type, a.shape) for a in made.get_outputs()]
    return said, made.run(None, {"x": X[0]}), value.is_tensor_sequence(), value.data_type()


def _meta(ort, session):
    meta = session.get_modelmeta()
    return {
        name: getattr(meta, name)
        for name in (
            "custom_metadata_map",
            "producer_name",
            "graph_name",
            "domain",
            "version",
            "description",
            "graph_description",
        )
    }


def _without_meta(ort, session):
    graph = h.make_graph([N("Relu", ["x"], ["y"])], "", [h.make_tensor_value_info("x", F, [1])],
                         [h.make_tensor_value_info("y", F, [1])])  # fmt: skip
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return _meta(ort, ort.InferenceSession(model.SerializeToString()))


def _overridable(ort, session):
    weights = [h.make_tensor("w", F, [3], [1, 2, 3])]
    edges = [("x", F, [2, 3]), ("w", F, [3])], [("y", F, [2, 3])]
    made = ort.InferenceSession(network([N("Add", ["x", "w"], ["y"])], *edges, weights))
    said = [[(a.name, a.shape) for a in args] for args in (made.get_inputs(), made.get_overridable_initializers())]
    return said, made.run(None, {"x": X})


def _negative(ort, session):
    made = ort.InferenceSession(same(T.FLOAT, [-1, 3]))
    return made.get_inputs()[0].shape, made.run(None, {"x": X})


FILES: dict[str, Call] = {
    "inputs and outputs": lambda ort, s: [str(a) for a in s.get_inputs() + s.get_outputs()],
    "metadata": _meta,
    "no metadata": _without_meta,
    "overridable": _overridable,
    "negative extents": _negative,
    "texts": _texts,
    "scalars": _scalars,
    "one element for a scalar": _one_for_a_scalar,
    "a sequence": _sequence,
    **{
        f"type {element}": typed(element, dtype)
        for element, dtype in {
            T.FLOAT: "f4", T.FLOAT16: "f2", T.DOUBLE: "f8", T.INT8: "i1", T.UINT8: "u1", T.INT16: "i2", T.UINT16: "u2",
            T.INT32: "i4", T.UINT32: "u4", T.INT64: "i8", T.UINT64: "u8", T.BOOL: "?",
        }.items()
    },
}  # fmt: skip

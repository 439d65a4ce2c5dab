"""fastgraph and its peers behind one face: load a file, run on given inputs, hand out the results.

Each is set to float32, to the same number of threads, and to its quickest documented way of calling, so that none is
held up by copies or defaults. Peers are imported only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FastgraphError
from ..loading import load

Feeds = Mapping[str, np.ndarray]


@dataclass
class Engine:
    """`call` runs once on the inputs it was made with; `results` gives the outputs of the last call, in order."""

    name: str
    version: str
    call: Callable[[], Any]
    results: Callable[[], list[np.ndarray]]
    model: Any = None


class Unavailable(FastgraphError):
    """An engine is not installed, or can't run this model."""


def fastgraph(path: str, feeds: Feeds, threads: int, isa: str | None = None) -> Engine:
    """model.run: copies the inputs in and the outputs out."""
    from .. import __version__

    model = load(path, threads=threads, isa=isa, shapes={name: a.shape for name, a in feeds.items()})
    kept = dict(feeds)
    return Engine("fastgraph", __version__, lambda: model.run(kept), lambda: list(model.run(kept).values()), model)


def onnxruntime(path: str, feeds: Feeds, threads: int) -> Engine:
    """InferenceSession.run on the CPU provider; it reads the inputs where they are."""
    ort = _import("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kept = dict(feeds)
    return Engine("onnxruntime", ort.__version__, lambda: session.run(None, kept), lambda: session.run(None, kept))


def openvino(path: str, feeds: Feeds, threads: int) -> Engine:
    """One infer request with shared inputs and outputs, tuned for latency, float32 kept float32."""
    ov = _import("openvino")
    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(a.shape) for name, a in feeds.items()})
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    request = core.compile_model(model, "CPU", config).create_infer_request()
    for name, array in feeds.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(array), shared_memory=True))
    outputs = range(len(model.outputs))

    def results() -> list[np.ndarray]:
        request.infer(share_outputs=True)
        return [request.get_output_tensor(i).data.copy() for i in outputs]

    def call() -> None:
        request.infer(share_outputs=True)

    return Engine("openvino", version("openvino"), call, results)


def litert(path: str, feeds: Feeds, threads: int) -> Engine:
    """The interpreter with its default delegate; reads .tflite only."""
    if Path(path).suffix != ".tflite":
        raise Unavailable("reads .tflite files only")
    lib = _import("ai_edge_litert.interpreter")
    interpreter = lib.Interpreter(model_path=path, num_threads=threads)
    interpreter.allocate_tensors()
    places = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    for name, array in feeds.items():
        interpreter.set_tensor(places[name], array)
    outputs = [d["index"] for d in interpreter.get_output_details()]

    def results() -> list[np.ndarray]:
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return Engine("litert", version("ai-edge-litert"), interpreter.invoke, results)


PEERS: dict[str, Callable[[str, Feeds, int], Engine]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "litert": litert,
}


def peer(name: str, path: str, feeds: Feeds, threads: int) -> Engine:
    """The peer called `name`, warm. Unavailable when it is not installed or refuses the model; it says why."""
    try:
        engine = PEERS[name](path, feeds, threads)
        engine.call()
    except Unavailable:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise Unavailable(f"can't run this model: {type(error).__name__}: {first}") from error
    return engine


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == module.split(".")[0]:
            raise Unavailable("not installed: pip install 'fastgraph[bench]'") from None
        raise

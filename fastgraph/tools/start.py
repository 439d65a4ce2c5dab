"""A process that loads a network in one engine and runs it once, and says how long what took.

`bench --cold` runs this file: python -P start.py ENGINE PATH FOLDER THREADS ISA FUNCTION NAME ..., where FOLDER/0.npy
is the array of the first NAME; "-" stands for no ISA, and no function. It imports nothing of fastgraph, but for that
engine, before all is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

Feeds = Mapping[str, Any]
Call = Callable[[], Any]


def fastgraph(lib: Any, path: str, feeds: Feeds, threads: int, isa: str | None, function: str | None) -> Call:
    shapes = {name: array.shape for name, array in feeds.items()}
    model = lib.load(path, threads=threads, isa=isa, function=function, shapes=shapes)
    return lambda: model.run(feeds)


def onnxruntime(lib: Any, path: str, feeds: Feeds, threads: int, *_: str | None) -> Call:
    network = session(lib, path, threads)
    return lambda: network.run(None, feeds)


def session(ort: Any, path: str, threads: int, rewrites: bool = True) -> Any:
    """An InferenceSession on the CPU provider. `rewrites`: whether it may change the graph."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not rewrites:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def openvino(lib: Any, path: str, feeds: Feeds, threads: int, *_: str | None) -> Call:
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    network, arrays = compiled(lib, path, feeds, config)
    return lambda: network(arrays)


def compiled(ov: Any, path: str, feeds: Feeds, config: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A model for the shapes of the feeds, and these in the order of its inputs."""
    core = ov.Core()
    model = core.read_model(path)
    arrays = in_order(feeds, [port.names for port in model.inputs])
    model.reshape({port: list(array.shape) for port, array in zip(model.inputs, arrays, strict=True)})
    return core.compile_model(model, "CPU", config), arrays


def litert(lib: Any, path: str, feeds: Feeds, threads: int, *_: str | None) -> Call:
    net, fill = interpreted(lib, path, feeds, threads)

    def call() -> list[Any]:
        fill()
        net.invoke()
        return [net.get_tensor(place["index"]) for place in net.get_output_details()]

    return call


def interpreted(lib: Any, path: str, feeds: Feeds, threads: int) -> tuple[Any, Callable[[], None]]:
    """An interpreter for the shapes of the feeds, and what copies these into its inputs."""
    net = lib.Interpreter(model_path=path, num_threads=threads)
    places = net.get_input_details()
    arrays = in_order(feeds, [{place["name"]} for place in places])
    for place, array in zip(places, arrays, strict=True):
        if tuple(place["shape"]) != array.shape:
            net.resize_tensor_input(place["index"], array.shape)
    net.allocate_tensors()

    def fill() -> None:
        for place, array in zip(places, arrays, strict=True):
            net.set_tensor(place["index"], array)

    return net, fill


ENGINES: dict[str, tuple[str, Callable[..., Call]]] = {
    "fastgraph": ("fastgraph.loading", fastgraph),
    "onnxruntime": ("onnxruntime", onnxruntime),
    "openvino": ("openvino", openvino),
    "litert": ("ai_edge_litert.interpreter", litert),
}
"""By name: the module, and what loads a file with it into a call."""


def in_order(feeds: Feeds, names: Sequence[Set[str]]) -> list[Any]:
    """The feeds in the order of an engine's inputs, by `names`; in their own order where the engine has other names."""
    found = [array for known in names for name, array in feeds.items() if name in known]
    return found if len(found) == len(feeds) else list(feeds.values())


def kibibytes(field: str) -> int | None:
    """VmRSS, or VmHWM, its peak; None where the system has no /proc."""
    try:
        with open("/proc/self/status") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(f"{field}:")), None)
    except OSError:
        return None


def main(engine: str, path: str, folder: str, threads: str, isa: str, function: str, *names: str) -> None:
    """Print moments of the clock: at the start, with NumPy, with the engine's modules, loaded, run; memory; what other
    programs took; the modules that are there.
    """
    moments = [perf_counter()]
    import numpy as np

    feeds = {name: np.load(f"{folder}/{i}.npy") for i, name in enumerate(names)}
    bare = kibibytes("VmRSS")
    moments.append(perf_counter())
    module, load = ENGINES[engine]
    lib = import_module(module)
    moments.append(perf_counter())
    call = load(lib, path, feeds, int(threads), None if isa == "-" else isa, None if function == "-" else function)
    moments.append(perf_counter())
    call()
    moments.append(perf_counter())
    spent = process_time()

    import sys

    peak, modules = kibibytes("VmHWM"), list(sys.modules)
    import json

    from fastgraph import disturbance

    used = disturbance.now()
    usage = [used.cpu - process_time() + spent, used.queued, used.forced, used.willing]
    print(json.dumps({"moments": moments, "bare": bare, "peak": peak, "usage": usage, "modules": modules}))


if __name__ == "__main__":
    from sys import argv

    main(*argv[1:])

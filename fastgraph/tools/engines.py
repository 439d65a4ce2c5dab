"""fastgraph and its peers behind one interface: load a file, run on given inputs, return the results.

Each is set to float32 (or 16 bits, where those are asked for), to the same number of threads, and to its fastest
documented way of calling, without copies where possible. Peers are imported only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import FastgraphError, InputError
from ..loading import load
from ..runtime.model import Model
from ..saved.source import saved_in
from ..text import meant
from .start import compiled, interpreted, session

Feeds = Mapping[str, np.ndarray]
Made = TypeVar("Made")


@dataclass
class Engine:
    """`call` runs once on the inputs it was made with; `results` gives the outputs of the last call, in order.

    `refresh` takes the numbers that contiguous arrays of the feeds hold by then; engines that read them at each call
    need not.
    """

    name: str
    version: str
    call: Callable[[], Any]
    results: Callable[[], list[np.ndarray]]
    model: Any = None
    refresh: Callable[[], Any] = lambda: None


class Unavailable(FastgraphError):
    """An engine is not installed, or can't run this model."""


def fastgraph(path: str, feeds: Feeds, threads: int, **options: Any) -> Engine:
    """A model loaded for the feeds, as `loaded` runs it. options: isa, precision, function, as of `load`."""
    shapes = {name: array.shape for name, array in feeds.items()}
    return loaded(load(path, threads=threads, shapes=shapes, **options), feeds)


def loaded(model: Model, feeds: Feeds) -> Engine:
    """A model with a plan for the feeds. They are copied into the plan's memory, then `execute` runs, which leaves the
    results there and may overwrite inputs. Models whose results have no fixed memory, or whose feeds are read where
    they lie, use `run`.
    """
    from .. import __version__

    kept = dict(feeds)

    def results() -> list[np.ndarray]:
        return list(model.run(kept).values())

    try:
        direct = model.plan.direct
        if direct is not None and direct.reads:
            return Engine("fastgraph", __version__, lambda: model.run(kept), results, model)
        places = [_as_bytes(model.input(name), array) for name, array in kept.items()]
        for spec in model.outputs:
            model.output(spec.name)
    except FastgraphError:
        return Engine("fastgraph", __version__, lambda: model.run(kept), results, model)
    execute = model.execute

    def call() -> None:
        for place, array in places:
            place[:] = array
        execute()

    return Engine("fastgraph", __version__, call, results, model)


def _as_bytes(place: np.ndarray, array: np.ndarray) -> tuple[Any, Any]:
    """Two arrays of one type and shape as bytes: the fastest copy from the second to the first in Python."""
    if not place.flags.c_contiguous or not place.size:
        return place.view(), np.array(array)
    to, source = place, np.ascontiguousarray(array, place.dtype)
    return to.reshape(-1).view(np.uint8).data, source.reshape(-1).view(np.uint8).data


def onnxruntime(path: str, feeds: Feeds, threads: int, rewrites: bool = True) -> Engine:
    """An InferenceSession on the CPU provider with its inputs and outputs bound: it reads the inputs where they are.

    `rewrites`: whether it may change the graph, which takes some roundings out of quantized networks.
    """
    return _bound(session(_import("onnxruntime"), path, threads, rewrites), feeds)


def _bound(session: Any, feeds: Feeds) -> Engine:
    """A session with inputs and outputs bound; several bindings of one may run at the same time."""
    kept = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
    binding = session.io_binding()
    for name, array in kept.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call() -> None:
        session.run_with_iobinding(binding)

    return Engine("onnxruntime", version("onnxruntime"), call, lambda: session.run(None, kept))


def openvino(path: str, feeds: Feeds, threads: int, precision: str = "f32") -> Engine:
    """OpenVINO with one infer request, tuned for latency."""
    return _requests(path, feeds, threads, 1, "LATENCY", precision)[0]


def _requests(path: str, feeds: Feeds, threads: int, count: int, hint: str, precision: str) -> list[Engine]:
    """Infer requests of one model, a stream each, with shared inputs and outputs."""
    ov = _import("openvino")
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": count,
        "PERFORMANCE_HINT": hint,
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": False,
    }
    model, arrays = compiled(ov, path, feeds, config)
    return [_request(ov, model.create_infer_request(), arrays) for _ in range(count)]


def _request(ov: Any, request: Any, arrays: Sequence[np.ndarray]) -> Engine:
    for i, array in enumerate(arrays):
        request.set_input_tensor(i, ov.Tensor(np.ascontiguousarray(array), shared_memory=True))
    outputs = range(len(request.model_outputs))

    def results() -> list[np.ndarray]:
        request.infer(share_outputs=True)
        return [request.get_output_tensor(i).data.copy() for i in outputs]

    def call() -> None:
        request.infer(share_outputs=True)

    return Engine("openvino", version("openvino"), call, results)


def litert(path: str, feeds: Feeds, threads: int) -> Engine:
    """The interpreter with its default delegate, XNNPACK; reads .tflite only."""
    if Path(path).suffix != ".tflite":
        raise Unavailable("reads .tflite files only")
    interpreter, fill = interpreted(_import("ai_edge_litert.interpreter"), path, feeds, threads)
    fill()
    outputs = [d["index"] for d in interpreter.get_output_details()]

    def results() -> list[np.ndarray]:
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return Engine("litert", version("ai-edge-litert"), interpreter.invoke, results, refresh=fill)


def fastgraph_streams(path: str, feeds: Feeds, count: int, **options: Any) -> list[Engine]:
    """Clones of one model: they share constants and code."""
    own = fastgraph(path, feeds, 1, **options)
    return [own, *(loaded(own.model.clone(), feeds) for _ in range(count - 1))]


def _onnxruntime_streams(path: str, feeds: Feeds, count: int) -> list[Engine]:
    """One session of one thread, which many may call."""
    shared = session(_import("onnxruntime"), path, 1)
    return [_bound(shared, feeds) for _ in range(count)]


def _openvino_streams(path: str, feeds: Feeds, count: int, precision: str = "f32") -> list[Engine]:
    return _requests(path, feeds, count, count, "THROUGHPUT", precision)


PEERS: dict[str, Callable[..., Engine]] = {"onnxruntime": onnxruntime, "openvino": openvino, "litert": litert}

SHORT = {"ort": "onnxruntime", "onnx": "onnxruntime", "ov": "openvino", "tflite": "litert", "tf": "litert"}
"""Other names of the engines."""

STREAMS: dict[str, Callable[..., list[Engine]]] = {
    "onnxruntime": _onnxruntime_streams,
    "openvino": _openvino_streams,
    "litert": lambda path, feeds, count: [litert(path, feeds, 1) for _ in range(count)],
}
"""So many engines that may run at the same time, each in a thread of its own, as its documentation advises."""


def there_are(name: str) -> str:
    """For the end of a message about a name that is no engine's: the engines, and which it may have meant."""
    return f"the engines are {', '.join(PEERS)}{meant([SHORT.get(name.lower(), name)], PEERS)}"


def check_names(names: Sequence[Any]) -> None:
    """InputError unless all are engines' names."""
    for name in names:
        if not isinstance(name, str) or name not in PEERS:
            raise InputError(f"against {name!r}: {there_are(str(name))}")


def of_precision(makers: Mapping[str, Callable[..., Any]], precision: str | None) -> Mapping[str, Callable[..., Any]]:
    """Of PEERS or STREAMS, those for a precision of `load`: OpenVINO has float16 and bfloat16 on CPUs that multiply
    them, and takes bfloat16 for float16 where the CPU has that alone.
    """
    hint = {"float16": "f16", "bfloat16": "bf16"}.get(precision or "")
    return makers if hint is None else {**makers, "openvino": partial(makers["openvino"], precision=hint)}


AS_WRITTEN: dict[str, Callable[[str, Feeds, int], Engine]] = {"onnxruntime": partial(onnxruntime, rewrites=False)}
"""Peers that can be set to compute exactly what the file says, without approximations."""


def peer(name: str, path: str, feeds: Feeds, threads: int, as_written: bool = False) -> Engine:
    """The peer called `name`, warmed up; `as_written`: its variant in AS_WRITTEN, if any.

    Unavailable, with the reason, when it is not installed or refuses the model.
    """
    make = AS_WRITTEN.get(name, PEERS[name]) if as_written else PEERS[name]
    return tried(path, lambda: [make(path, feeds, threads)])[0]


def tried(path: str, make: Callable[[], list[Engine]]) -> list[Engine]:
    """The engine that `make` makes, warmed up. Unavailable, with the reason, when it refuses."""
    if saved_in(path):
        raise Unavailable(f"reads no saved programs: give the file that {path} was made of")
    try:
        engines = make()
        for engine in engines:
            engine.call()
    except Unavailable:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise Unavailable(f"can't run this model: {type(error).__name__}: {first}") from error
    return engines


def running(names: Sequence[str], make: Callable[[str], Made]) -> tuple[list[Made], list[dict[str, str]]]:
    """What `make` gives for each engine; rows of those that are Unavailable. InputError for names of no engine."""
    check_names(names)
    made, missing = [], []
    for name in names:
        try:
            made.append(make(name))
        except Unavailable as error:
            missing.append({"name": name, "unavailable": str(error)})
    return made, missing


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == module.split(".")[0]:
            raise Unavailable("not installed: pip install 'fastgraph-runtime[bench]'") from None
        raise

"""The onnx package's node cases with one thing changed each, and processes that run them.

Mutant n of an operator is the same in every run. `script ours` and `script onnxruntime` answer pickled (model, feeds)
with ("ok", outputs), ("refused", message) or ("wrong", what): in processes of their own, for a model that makes no
sense may crash the one that runs it.
"""

import os
import pickle
import random
import resource
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

MEMORY = 3 << 30
SECONDS = 30
MOST = 1 << 16
"""Cases with inputs of more elements are left alone."""
DTYPES = tuple(map(np.dtype, ("float32", "float64", "float16", "int64", "int32", "uint8", "int8", "bool")))
INTS = (-1, 0, 1, 2, 3, 7, -2, -9, 2**31 - 1, -(2**31), 2**62, -(2**63))
FLOATS = (0.0, -1.0, 0.5, 3e9, 1e30, float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True)
class Mutant:
    name: str
    model: bytes
    feeds: dict[str, Any]


def usable(case: Any) -> bool:
    """One node of ai.onnx, whose inputs are of types that NumPy has, and small."""
    if len(case.model.graph.node) != 1 or case.model.graph.node[0].domain or not case.data_sets:
        return False
    if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in case.model.graph.node[0].attribute):
        return False
    plain = [x for x in case.data_sets[0][0] if not isinstance(x, onnx.TensorProto)]
    if any(isinstance(x, np.ndarray) and (x.dtype.kind not in "biufOUS" or x.size > MOST) for x in plain):
        return False
    tensors = [v.type.tensor_type.elem_type for v in case.model.graph.input if v.type.HasField("tensor_type")]
    return len(plain) == len(case.model.graph.input) and all(t <= onnx.TensorProto.DOUBLE for t in tensors)


def mutant(case: Any, seed: str) -> Mutant:
    """The case with one thing changed, or (seed "") as it is."""
    rng = random.Random(seed)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    node = model.graph.node[0]
    feeds = dict(zip((v.name for v in model.graph.input), case.data_sets[0][0], strict=True))
    feeds = {k: v.astype(object) if isinstance(v, np.ndarray) and v.dtype.kind in "US" else v for k, v in feeds.items()}
    what = "as it is"
    if seed:
        schema = onnx.defs.get_schema(node.op_type, model.opset_import[0].version)
        attributes = [a for a in schema.attributes.values() if a.type in CHANGES]
        arrays = [k for k, v in feeds.items() if isinstance(v, np.ndarray)]
        if attributes and (not arrays or rng.random() < 0.4):
            what = change_attribute(rng, node, rng.choice(sorted(attributes, key=lambda a: a.name)))
        elif arrays:
            what = change_input(rng, node, feeds, rng.choice(arrays))
    what += declare(rng, model, feeds, bool(seed))
    return Mutant(f"{case.name}: {what}", model.SerializeToString(), feeds)


def declare(rng: random.Random, model: onnx.ModelProto, feeds: dict[str, Any], vary: bool) -> str:
    """Say the inputs' types, or make some constants; the outputs' types are left open."""
    graph, told = model.graph, ""
    for value in list(graph.input):
        if value.name not in feeds:
            graph.input.remove(value)
        elif isinstance(array := feeds[value.name], np.ndarray):
            form = rng.choice(("fed", "constant", "open", "ranked")) if vary else "fed"
            told += f", {value.name} {form}"
            if form == "constant":
                graph.initializer.append(numpy_helper.from_array(array, value.name))
                graph.input.remove(value)
                del feeds[value.name]
                continue
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            shape = {"fed": array.shape, "open": None, "ranked": (None,) * array.ndim}[form]
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    for value in graph.output:
        value.CopyFrom(onnx.ValueInfoProto(name=value.name))
    return told


def _numbers(rng: random.Random, old: list[Any], pool: tuple[Any, ...]) -> list[Any]:
    new = list(old)
    match rng.randrange(5) if new else 0:
        case 0:
            new.append(rng.choice(pool))
        case 1:
            new.pop()
        case 2 if len(new) > 1:
            new[0] = new[1]
        case _:
            new[rng.randrange(len(new))] = rng.choice(pool)
    return new


CHANGES: dict[Any, Any] = {
    AttributeProto.INT: lambda rng, old: rng.choice(INTS),
    AttributeProto.FLOAT: lambda rng, old: rng.choice(FLOATS),
    AttributeProto.STRING: lambda rng, old: rng.choice(("", "bogus", "(")),
    AttributeProto.INTS: lambda rng, old: _numbers(rng, old or [], INTS),
    AttributeProto.FLOATS: lambda rng, old: _numbers(rng, old or [], FLOATS),
    AttributeProto.STRINGS: lambda rng, old: _numbers(rng, old or [], ("", "bogus")),
}


def change_attribute(rng: random.Random, node: onnx.NodeProto, attribute: Any) -> str:
    given = [a for a in node.attribute if a.name == attribute.name]
    old = helper.get_attribute_value(given[0]) if given else None
    for a in given:
        node.attribute.remove(a)
    if given and rng.random() < 0.1:
        return f"no {attribute.name}"
    new = CHANGES[attribute.type](rng, list(old) if isinstance(old, list | tuple) else old)
    node.attribute.append(helper.make_attribute(attribute.name, new, attr_type=attribute.type))
    return f"{attribute.name}={new}"


def change_input(rng: random.Random, node: onnx.NodeProto, feeds: dict[str, Any], name: str) -> str:
    x = feeds[name]
    kind = rng.choice(("value", "value", "shape", "shape", "shape", "dtype", "absent"))
    if kind == "value" and x.size and x.dtype.kind in "iuf":
        new, place = x.copy(), rng.randrange(x.size)
        limits = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        pool = FLOATS if limits is None else [n for n in INTS if limits.min <= n <= limits.max]
        found = rng.choice(pool)
        with np.errstate(all="ignore"):
            new.reshape(-1)[place] = found
        told = f"[{place}]={found}"
    elif kind == "dtype" and x.dtype != object:
        found = rng.choice(DTYPES)
        with np.errstate(all="ignore"):
            new = x.astype(found)
        told = f" {found}"
    elif kind == "absent":
        del feeds[name]
        node.input[:] = ["" if n == name else n for n in node.input]
        while node.input and not node.input[-1]:
            node.input.pop()
        return f"no {name}"
    else:
        new = reshaped(rng, x)
        told = f" {list(x.shape)} as {list(new.shape)}"
    feeds[name] = np.ascontiguousarray(new) if new.ndim else np.asarray(new)
    return name + told


def reshaped(rng: random.Random, x: np.ndarray) -> np.ndarray:
    """Another shape: shorter, longer, 1 or empty along an axis, of another rank, a scalar."""
    axis = rng.randrange(x.ndim) if x.ndim else 0
    match rng.randrange(8) if x.ndim and x.size else rng.randrange(2):
        case 0:
            return x[None]
        case 1:
            return x.reshape(*x.shape, 1)
        case 2:
            return np.asarray(x[0], x.dtype)
        case 3:
            return np.asarray(x.reshape(-1)[0])
        case 4:
            return np.take(x, range(x.shape[axis] - 1), axis)
        case 5:
            return np.concatenate([x, np.take(x, [0], axis)], axis)
        case 6:
            return np.take(x, [0], axis)
        case _:
            return np.take(x, [], axis)


class Runner:
    """A process of its own that runs models; started again when it dies."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, model: bytes, feeds: dict[str, Any]) -> tuple[str, Any]:
        if self.process is None:
            command = [sys.executable, __file__, self.kind]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, env=environment, **pipes)
        assert self.process.stdin is not None and self.process.stdout is not None
        pickle.dump((model, feeds), self.process.stdin)
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            self.close()
            return "wrong", f"no answer in {SECONDS} seconds"
        try:
            found: tuple[str, Any] = pickle.load(self.process.stdout)
        except EOFError:
            code = self.process.wait()
            self.close()
            return "wrong", f"died with {code}"
        return found

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def ours(model: bytes, feeds: dict[str, Any]) -> tuple[str, Any]:
    import fastgraph as fg

    try:
        return "ok", list(fg.load(model, threads=1).run(feeds).values())
    except fg.FastgraphError as error:
        return "refused", f"{type(error).__name__}: {error}"


def onnxruntimes(model: bytes, feeds: dict[str, Any]) -> tuple[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return "ok", session.run(None, feeds)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {error}"


def main() -> None:
    run = {"ours": ours, "onnxruntime": onnxruntimes}[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    np.seterr(all="ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    while True:
        try:
            model, feeds = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            found = run(model, feeds)
        except BaseException as error:
            import traceback

            place = traceback.extract_tb(error.__traceback__)[-1]
            found = "wrong", f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        pickle.dump(found, answers)
        answers.flush()


if __name__ == "__main__":
    main()

"""Small ONNX models for tests: a builder, and the three ways to run one (onnxruntime, the references, the plan)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fastgraph as fg
from fastgraph.freedoms import without
from fastgraph.frontends.onnx import read
from fastgraph.ir import Graph, check
from fastgraph.ops.evaluate import evaluate
from fastgraph.passes.specialize import specialize
from fastgraph.passes.stages import optimize
from fastgraph.plan.lower import Matches
from fastgraph.plan.program import HostStep
from tests.exact_products import exact_products

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
VERSIONS = {"ai.onnx.ml": 4}
"""Of operator sets beyond ai.onnx that are not the first."""


class Net:
    """An ONNX model written node by node: `net("Add", x, 1.5)` adds a node and gives its output's name. Operands are
    names, or the numbers of constants (as `const` takes them). The graph of a body needs a `prefix` of its own for its
    names.
    """

    def __init__(self, opset: int = 17, seed: int = 0, prefix: str = "") -> None:
        self.opset, self.prefix = opset, prefix
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str | None] | None, dtype: Any = F32) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def const(self, data: Any, dtype: Any = None) -> str:
        """A constant of the given numbers."""
        array = np.asarray(data, dtype)
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array.astype(F32) if array.dtype == float else array, name))
        return name

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """A random f32 constant, such that products with it keep the magnitude."""
        fan = int(np.prod(shape[1:])) or 1
        return self.const((self.rng.standard_normal(shape) * (scale or fan**-0.5)).astype(F32))

    def __call__(self, op: str, *operands: Any, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        inputs = [x if isinstance(x, str) else self.const(x) for x in operands]
        names = [f"{self.prefix}v{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attrs))
        return names[0] if outputs == 1 else names

    def output(self, *names: str, dtype: Any = F32) -> None:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if dtype is not None else TensorProto.UNDEFINED
        self.outputs += [helper.make_tensor_value_info(name, kind, None) for name in names]

    def graph(self) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, self.prefix or "net", self.inputs, self.outputs, self.constants)

    def model(self) -> onnx.ModelProto:
        graph = self.graph()
        domains = {node.domain for node in self.nodes} - {""}
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(d, VERSIONS.get(d, 1)) for d in sorted(domains)),
        ]
        return helper.make_model(graph, opset_imports=imports, ir_version=min(10, 8 + (self.opset > 18)))

    def bytes(self) -> bytes:
        return self.model().SerializeToString()

    def load(self, **options: Any) -> fg.Model:
        return fg.load(self.bytes(), **{"threads": 1, **options})

    def agrees(self, rtol: float = 1e-4, feeds: Mapping[str, Any] | None = None, **options: Any) -> fg.Model:
        """The model, whose results are onnxruntime's, for random feeds where none are given."""
        model = self.load(**options)
        feeds = feeds_for(model) if feeds is None else feeds
        assert_close(list(model.run(feeds).values()), by_onnxruntime(self.bytes(), feeds), rtol)
        return model

    def agrees_optimized(self, feeds: Mapping[str, Any], rtol: float = 1e-5) -> Graph:
        """The graph after all stages. It gives what onnxruntime gives, and so does the model."""
        graph, expected = self.optimized(), by_onnxruntime(self.bytes(), feeds)
        assert_close(by_reference(graph, feeds), expected, rtol)
        assert_close(list(self.load().run(feeds).values()), expected, rtol)
        return graph

    def optimized(self) -> Graph:
        """The graph after all stages."""
        graph = graph_of(self.bytes())
        optimize(graph, Matches())
        return graph

    def agrees_on_threads(self, rtol: float = 1e-5, counts: Sequence[int] = (1, 2, 3), **options: Any) -> fg.Model:
        """The same with each of these numbers of threads, to the bit."""
        found = []
        for threads in counts:
            model = self.agrees(rtol, threads=threads, **options)
            found.append([y.tobytes() for y in model.run(feeds_for(model)).values()])
        assert all(each == found[0] for each in found)
        return model

    def agrees_without(self, freedom: str, rtol: float, counts: Sequence[int] = (1, 2, 3), **options: Any) -> fg.Model:
        """The same, whose results are those without one of planning's freedoms."""
        model = self.agrees_on_threads(counts=counts, **options)
        feeds = feeds_for(model)
        with without(freedom):
            expected = self.load(**options).run(feeds)
        assert_close(list(model.run(feeds).values()), list(expected.values()), rtol)
        return model


def graph_of(source: bytes, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The imported graph, made concrete."""
    graph = read(source)
    check(graph)
    specialize(graph, shapes or {})
    check(graph, "specialize")
    return graph


def session(source: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(exact_products(source), options, providers=["CPUExecutionProvider"])


def by_onnxruntime(source: bytes, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    return session(source).run(None, dict(feeds))


def by_reference(graph: Graph, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    """The graph's outputs by the operators' NumPy references."""
    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in evaluate(graph, dict(feeds))]


def feeds_for(model: fg.Model, seed: int = 0) -> dict[str, np.ndarray]:
    """Random feeds for a model whose input shapes are known."""
    rng = np.random.default_rng(seed)
    return {s.name: rng.standard_normal(s.shape).astype(s.dtype) for s in model.inputs}


def numpy_steps(model: fg.Model) -> list[str]:
    """The operators that NumPy computes in a run of the plan in use."""
    steps = [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]
    return steps + [node.op for node in (model.plan.tail.nodes if model.plan.tail else [])]


def assert_close(actual: Sequence[Any], expected: Sequence[Any], rtol: float = 1e-4, what: str = "") -> None:
    """Same dtypes and shapes; no element further off than `rtol` times the largest finite one (at least 1)."""
    assert len(actual) == len(expected), what
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        assert (a.dtype, a.shape) == (e.dtype, e.shape), f"{what} {i}: {a.dtype}{a.shape}, not {e.dtype}{e.shape}"
        if e.dtype.kind != "f":
            np.testing.assert_array_equal(a, e, f"{what} output {i}")
            continue
        finite = np.abs(e[np.isfinite(e)])
        size = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(a, e, rtol=0, atol=rtol * size, err_msg=f"{what} output {i}")

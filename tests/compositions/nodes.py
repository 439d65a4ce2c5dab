"""Operators of ONNX that no other format has, in a composition: a piece of a graph, node by node, in f32 outside.

An operator of the kind `nodes` has as attributes:
nodes      (operator, domain, inputs, results, attributes) each; $0, $1, ... are its operands, other names its own
consts     name: (element type, numbers)
takes, gives, results   shapes of operands and results, and what the results are called inside
opset      the least
rounds     None, or so many whole numbers the first operand is rounded to between 0 and 1: see `undecided`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from .composition import Composition, Op, Shape
from .grow import Grow
from .shapes import need

if TYPE_CHECKING:
    from .write_onnx import Writer

MOST = 8.0
"""What is rounded is held between -MOST and MOST first."""


@dataclass(frozen=True)
class Body:
    """The graph of a branch or a loop: inputs are (name, element type, shape)."""

    inputs: tuple[tuple[str, str, Shape], ...]
    nodes: tuple[Any, ...]
    outputs: tuple[tuple[str, str], ...]


class Piece:
    """Call it with an operator and names, get the results' names. Values of the composition that it reads are found."""

    def __init__(self, g: Grow, *operands: str, opset: int = 18, outer: Piece | None = None, name: str = "") -> None:
        self.g, self.operands, self.opset, self.outer, self.name = g, list(operands), opset, outer, name
        self.nodes: list[Any] = []
        self.consts: dict[str, tuple[str, Any]] = {} if outer is None else outer.consts
        self.rounds: float | None = None

    def __call__(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        names = [f"n{self.name}{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append((op, domain, tuple(map(self.local, inputs)), tuple(names), attrs))
        return names[0] if outputs == 1 else names

    def local(self, name: str) -> str:
        """What a value is called inside."""
        if self.outer is not None:
            return self.outer.local(name)
        if name not in self.operands and name in self.g.shapes:
            self.operands.append(name)
        return f"${self.operands.index(name)}" if name in self.operands else name

    def const(self, data: Any, dtype: Any = np.float32) -> str:
        array = np.asarray(data, dtype)
        name = f"c{len(self.consts)}"
        self.consts[name] = str(array.dtype), array.tolist()
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def cast(self, x: str, dtype: Any) -> str:
        return self("Cast", x, to=kind(dtype))

    def inner(self, name: str) -> Piece:
        """For the nodes of a body, whose values are named apart."""
        return Piece(self.g, opset=self.opset, outer=self, name=self.name + name)

    def body(self, inputs: Sequence[tuple[str, Any, Shape]], *outputs: tuple[str, Any]) -> Body:
        given = tuple((name, str(np.dtype(dtype)), shape) for name, dtype, shape in inputs)
        made = tuple((self.local(name), str(np.dtype(dtype))) for name, dtype in outputs)
        return Body(given, tuple(self.nodes), made)

    def whole(self, x: str, dtype: Any, rounds: float = 1) -> str:
        """A value rounded, in another element type."""
        self.rounds = rounds
        need(self.operands[:1] == [x], "only the first operand is rounded")
        y = self("Abs", x) if np.dtype(dtype).kind in "ub" else x
        y = self("Clip", y, self.const(-MOST), self.const(MOST))
        if rounds != 1:
            y = self("Mul", y, self.const(rounds))
        return self.cast(self("Round", y), dtype)

    def done(self, *results: str, shapes: Sequence[Shape] = ()) -> list[str]:
        """The results in the composition; of the shape of the first operand, unless told otherwise."""
        given = [self.g.shapes[name] for name in self.operands]
        attrs = {
            "nodes": tuple(self.nodes), "consts": self.consts, "takes": tuple(given),
            "gives": tuple(shapes or given[:1] * len(results)), "results": results, "opset": self.opset,
            "rounds": self.rounds,
        }  # fmt: skip
        return self.g.ops("nodes", *self.operands, **attrs)

    def end(self, y: str, *shape: int) -> str:
        (name,) = self.done(y, shapes=[shape] if shape else ())
        return name


def kind(dtype: Any) -> int:
    """ONNX's number of an element type."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def write(w: Writer, op: Op, inputs: list[str]) -> None:
    a = op.attrs
    called = {f"${i}": name for i, name in enumerate(inputs)} | dict(zip(a["results"], op.outputs, strict=True))
    for name, (dtype, numbers) in a["consts"].items():
        called[name] = w.const(np.array(numbers, dtype), f"{op.outputs[0]}.{name}")

    def name_of(name: str) -> str:
        return called.get(name) or (name and f"{op.outputs[0]}.{name}")

    for node in a["nodes"]:
        w.nodes.append(_node(node, name_of))


def _node(node: Any, name_of: Any) -> onnx.NodeProto:
    op, domain, inputs, outputs, attrs = node
    made = {k: _graph(v, name_of) if isinstance(v, Body) else v for k, v in attrs.items()}
    return helper.make_node(op, [*map(name_of, inputs)], [*map(name_of, outputs)], domain=domain, **made)


def _graph(body: Body, name_of: Any) -> onnx.GraphProto:
    def info(name: str, dtype: str, shape: Shape | None = None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name_of(name), kind(dtype), shape)

    nodes = [_node(node, name_of) for node in body.nodes]
    return helper.make_graph(nodes, "body", [info(*i) for i in body.inputs], [info(*o) for o in body.outputs])


def opset(net: Composition) -> int:
    """The least that has all of them."""
    return max((op.attrs["opset"] for op in net.ops if op.kind == "nodes"), default=0)


def exact(op: Op) -> bool:
    """Whether numbers are compared or rounded, so that other ones make a leap."""
    return op.attrs.get("rounds") is not None


def undecided(net: Composition, values: dict[str, np.ndarray], near: float) -> bool:
    """Whether a number that is rounded lies so near to the middle of two whole ones that either is right."""
    for op in net.ops:
        if exact(op) and op.inputs[0] not in net.inputs:
            x = np.clip(values[op.inputs[0]], -MOST, MOST) * op.attrs["rounds"]
            if np.any(np.abs(x - np.floor(x) - 0.5) < near * op.attrs["rounds"]):
                return True
    return False

"""A composition as an ONNX model: in f32 or f16."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import inside, nodes, rare_kinds
from .composition import Composition, Const, Op, opened
from .quantized import one_in
from .shapes import BINARY, EDGE

I64 = np.dtype(np.int64)
NEWER = {"group_norm": 21, "sample": 20, "crop": 20, "spectrum": 20, "add_rows": 18}
"""Operators with the least set that has them."""
PLAIN = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hard_swish": "HardSwish", "hard_sigmoid": "HardSigmoid",
    "softplus": "Softplus", "abs": "Abs", "neg": "Neg", "exp": "Exp", "identity": "Identity", "matmul": "MatMul",
    "prelu": "PRelu", "elu": "Elu", **{name: name.capitalize() for name in BINARY - {"prelu"}},
}  # fmt: skip
"""Operators that are one of ONNX without attributes."""


class Writer:
    """The nodes so far; `half`: constants of f16.

    `read` says under what name a value is read; forms of other number types change it.
    """

    def __init__(self, net: Composition, half: bool = False, dtype: Any = np.float32, opset: int = 17) -> None:
        self.net, self.half, self.dtype, self.opset = net, half, np.dtype(dtype), opset
        self.opset = max(self.opset, nodes.opset(net), *(NEWER.get(op.kind, 0) for op in nodes.every(net)))
        self.shapes = net.shapes()
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.names: dict[Any, str] = {}
        self.functions: list[onnx.FunctionProto] = []

    def read(self, name: str) -> str:
        const = self.net.consts.get(name)
        if const is None:
            return name
        return self.view(const, self.reals(const.source())) if const.view else self.reals(const.array(), name)

    def reals(self, array: np.ndarray, name: str = "") -> str:
        return self.const((array.astype(np.float16) if self.half else array).astype(self.dtype), name)

    def view(self, const: Const, source: str) -> str:
        """What a constant is of the one that it is a view of."""
        match const.view:
            case "turned":
                return self.add("Transpose", [source], perm=range(len(const.shape))[::-1])
            case "flat":
                return self.add("Reshape", [source, self.ints(*const.shape)])
        n = const.shape[0]
        start = n * (const.view == "second")
        return self.add("Slice", [source, self.ints(start), self.ints(start + n), self.ints(0)])

    def const(self, array: Any, name: str = "") -> str:
        """Constants without a name of their own that hold the same are the same, but for some."""
        array = np.asarray(array)
        held = array.dtype.str, array.shape, array.tobytes()
        if not name and held in self.names and not one_in(f"c{len(self.nodes)}", 4):
            return self.names[held]
        name = name or f"c{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(array, name)
            self.names[held] = name
        return name

    def ints(self, *values: int) -> str:
        return self.const(np.array(values, I64))

    def number(self, value: float) -> str:
        return self.const(np.array(value, self.dtype))

    def add(self, kind: str, inputs: Sequence[str], outputs: Sequence[str] | str = "", **attrs: Any) -> str:
        names = [outputs or f"n{len(self.nodes)}"] if isinstance(outputs, str) else list(outputs)
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0]

    def reduced(self, how: str, x: str, outputs: Sequence[str], *axes: int, keep: bool = False) -> None:
        """Axes are an operand from operator set 18 on, and always were of sums."""
        if how == "Sum" or self.opset >= 18:
            self.add(f"Reduce{how}", [x, self.ints(*axes)], outputs, keepdims=int(keep))
        else:
            self.add(f"Reduce{how}", [x], outputs, axes=list(axes), keepdims=int(keep))

    def op(self, op: Op) -> None:
        self.written(op, [self.read(name) for name in op.inputs])

    def written(self, op: Op, inputs: list[str]) -> None:
        """The operator on what its operands are called in the model."""
        if op.kind in PLAIN:
            self.add(PLAIN[op.kind], inputs, op.outputs)
        else:
            RULES[op.kind](self, op, inputs)

    def extents(self, name: str) -> list[int | str]:
        """An input's, with names for those that are open."""
        axes = self.net.open_axes(name)
        return [f"{name}.{i}" if i in axes else d for i, d in enumerate(self.net.inputs[name].shape)]

    def model(self, outputs: Sequence[str] | None = None) -> onnx.ModelProto:
        """The model; with other outputs than the composition's if these are given."""
        for op in self.net.ops:
            self.op(op)
        real = helper.np_dtype_to_tensor_dtype(self.dtype)
        inputs = [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64 if given.below else real, self.extents(name))
            for name, given in self.net.inputs.items()
        ]
        wanted = [self.read(name) for name in (self.net.outputs if outputs is None else outputs)]
        infos = [helper.make_tensor_value_info(name, real, None) for name in wanted]
        graph = helper.make_graph(self.nodes, "net", inputs, infos, list(self.constants.values()))
        domains = sorted({node.domain for node in self.nodes} - {""})
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        version = min(10, 8 + (self.opset > 18))
        return helper.make_model(graph, opset_imports=imports, ir_version=version, functions=self.functions)


def relu6(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Clip", [*inputs, w.number(0), w.number(6)], op.outputs)


def clip(w: Writer, op: Op, inputs: list[str]) -> None:
    low, high = op.attrs["low"], op.attrs["high"]
    w.add("Clip", [*inputs, "" if low is None else w.number(low), w.number(high)], op.outputs)


def swish(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Mul", [*inputs, w.add("Sigmoid", inputs)], op.outputs)


def gelu(w: Writer, op: Op, inputs: list[str]) -> None:
    erf = w.add("Erf", [w.add("Div", [*inputs, w.number(2**0.5)])])
    w.add("Mul", [w.add("Mul", [*inputs, w.add("Add", [erf, w.number(1)])]), w.number(0.5)], op.outputs)


def sqrt(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Sqrt", [w.add("Abs", inputs)], op.outputs)


def square(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Pow", [*inputs, w.number(2)], op.outputs)


def cube(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Pow", [*inputs, w.number(3)], op.outputs)


def leaky_relu(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("LeakyRelu", inputs, op.outputs, alpha=0.125)


def softmax(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Softmax" if op.kind == "softmax" else "LogSoftmax", inputs, op.outputs, axis=op.attrs["axis"])


def cumsum(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("CumSum", [*inputs, w.const(np.array(op.attrs["axis"], I64))], op.outputs)


def conv(w: Writer, op: Op, inputs: list[str]) -> None:
    kind = "Conv" if op.kind == "conv" else "ConvTranspose"
    w.add(kind, inputs, op.outputs, **{key: value for key, value in op.attrs.items()})


def pool(w: Writer, op: Op, inputs: list[str]) -> None:
    a = op.attrs
    kind = {"max_pool": "MaxPool", "average_pool": "AveragePool", "lp_pool": "LpPool"}[op.kind]
    more = {"dilations": a["dilations"]} if "dilations" in a else {}
    w.add(kind, inputs, op.outputs, kernel_shape=a["kernel"], strides=a["strides"], pads=a["pads"], **more)


def dense(w: Writer, op: Op, inputs: list[str]) -> None:
    x, weights, *bias = inputs
    if op.attrs.get("gemm") and bias and len(w.shapes[op.inputs[0]]) == 2:
        own = w.nodes if op.inputs[1] in w.net.consts else []
        turned = [node for node in own if node.op_type == "Transpose" and node.output[0] == weights]
        w.add("Gemm", [x, turned[0].input[0] if turned else weights, *bias], op.outputs, transB=len(turned))
    elif bias:
        w.add("Add", [w.add("MatMul", [x, weights]), *bias], op.outputs)
    else:
        w.add("MatMul", [x, weights], op.outputs)


REDUCTIONS = {"sum_square": "SumSquare", "log_sum_exp": "LogSumExp", "log_sum": "LogSum"}


def reduce(w: Writer, op: Op, inputs: list[str]) -> None:
    how, axes, keep = (
        REDUCTIONS.get(op.attrs["how"], op.attrs["how"].capitalize()),
        list(op.attrs["axes"]),
        op.attrs["keep"],
    )
    rank = len(w.shapes[op.inputs[0]])
    if how in ("Mean", "Max") and keep and rank == 4 and axes == [2, 3]:
        w.add("GlobalAveragePool" if how == "Mean" else "GlobalMaxPool", inputs, op.outputs)
    else:
        w.reduced(how, inputs[0], op.outputs, *axes, keep=keep)


def normalize(w: Writer, op: Op, inputs: list[str]) -> None:
    kind = {"batch_norm": "BatchNormalization", "instance_norm": "InstanceNormalization"}.get(op.kind)
    more = {"epsilon": 1e-2} if kind else {"epsilon": 1e-2, "axis": -1}
    w.add(kind or "LayerNormalization", inputs, op.outputs, **more)


def group_norm(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("GroupNormalization", inputs, op.outputs, epsilon=1e-2, num_groups=op.attrs["groups"])


def concat(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Concat", inputs, op.outputs, axis=op.attrs["axis"])


def split(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Split", [*inputs, w.ints(*op.attrs["sizes"])], op.outputs, axis=op.attrs["axis"])


def slice_(w: Writer, op: Op, inputs: list[str]) -> None:
    a = op.attrs
    w.add("Slice", [*inputs, *(w.ints(v) for v in (a["start"], a["end"], a["axis"], a.get("step", 1)))], op.outputs)


def reshape(w: Writer, op: Op, inputs: list[str]) -> None:
    shape = opened(w.net, w.shapes[op.inputs[0]], op.attrs["shape"])
    w.add("Reshape", [*inputs, w.ints(*shape)], op.outputs)


def expand(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Expand", [*inputs, w.ints(*op.attrs["shape"])], op.outputs)


def transpose(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Transpose", inputs, op.outputs, perm=op.attrs["perm"])


def pad(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Pad", [*inputs, w.ints(*op.attrs["pads"])], op.outputs, mode=op.attrs["mode"])


def resize(w: Writer, op: Op, inputs: list[str]) -> None:
    nearest = op.attrs["mode"] == "nearest"
    attrs = (
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if nearest
        else {"coordinate_transformation_mode": "half_pixel"}
    )
    scales = w.const(np.array([1, 1, *op.attrs["scale"]], np.float32))
    w.add("Resize", [*inputs, "", scales], op.outputs, mode=op.attrs["mode"], **attrs)


def blocks(w: Writer, op: Op, inputs: list[str]) -> None:
    deep = op.kind == "depth_to_space"
    more = {"mode": op.attrs["mode"]} if deep else {}
    w.add("DepthToSpace" if deep else "SpaceToDepth", inputs, op.outputs, blocksize=op.attrs["block"], **more)


def gather(w: Writer, op: Op, inputs: list[str]) -> None:
    indices = op.attrs.get("indices")
    where = [] if indices is None else [w.ints(*indices)]
    w.add("Gather", [*inputs, *where], op.outputs, axis=op.attrs["axis"])


def recurrent(w: Writer, op: Op, inputs: list[str]) -> None:
    """X is T, N, C there, and Y: T, 1, N, H."""
    x, *parameters = inputs
    hidden = w.shapes[op.inputs[2]][-1]
    n, t, _ = w.shapes[op.inputs[0]]
    more = {"linear_before_reset": 1} if op.kind == "gru" else {}
    turned = w.add("Transpose", [x], perm=[1, 0, 2])
    y = w.add(op.kind.upper(), [turned, *parameters], hidden_size=hidden, **more)
    w.add("Transpose", [w.add("Reshape", [y, w.ints(t, n, hidden)])], op.outputs, perm=[1, 0, 2])


def total(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add(op.attrs["how"].capitalize(), inputs, op.outputs)


def arg(w: Writer, op: Op, inputs: list[str]) -> None:
    place = w.add(f"Arg{op.attrs['how'].capitalize()}", [w.add("Round", inputs)], axis=op.attrs["axis"], keepdims=1)
    w.add("Cast", [place], op.outputs, to=helper.np_dtype_to_tensor_dtype(w.dtype))


def tile(w: Writer, op: Op, inputs: list[str]) -> None:
    w.add("Tile", [*inputs, w.ints(*op.attrs["repeats"])], op.outputs)


def select(w: Writer, op: Op, inputs: list[str]) -> None:
    x, a, b = inputs
    w.add("Where", [test(w, op.attrs["test"], x), a, b], op.outputs)


def test(w: Writer, what: str, x: str) -> str:
    def against(kind: str, number: float) -> str:
        return w.add(kind, [x, w.number(number)])

    match what:
        case "within":
            return w.add("And", [against("GreaterOrEqual", -EDGE), against("LessOrEqual", EDGE)])
        case "outside":
            return w.add("Or", [against("Less", -EDGE), against("Greater", EDGE)])
        case "odd":
            return w.add("Xor", [w.add("Not", [against("Greater", 0)]), against("Less", EDGE)])
        case "different":
            return w.add("Not", [against("Equal", 0)])
    return against("".join(part.capitalize() for part in what.split("_")), 0)


RULES: dict[str, Callable[[Writer, Op, list[str]], None]] = {
    "relu6": relu6, "clip": clip, "swish": swish, "gelu": gelu, "sqrt": sqrt, "square": square, "cube": cube,
    "leaky_relu": leaky_relu, "softmax": softmax, "log_softmax": softmax, "cumsum": cumsum, "conv": conv,
    "conv_transpose": conv, "max_pool": pool, "lp_pool": pool, "total": total, "arg": arg, "tile": tile,
    "average_pool": pool, "dense": dense, "reduce": reduce,
    "layer_norm": normalize, "batch_norm": normalize, "instance_norm": normalize, "concat": concat, "split": split,
    "group_norm": group_norm,
    "slice": slice_, "reshape": reshape, "expand": expand, "transpose": transpose, "pad": pad, "resize": resize,
    "depth_to_space": blocks, "space_to_depth": blocks, "gather": gather, "lstm": recurrent, "gru": recurrent,
    "select": select, "nodes": nodes.write, "inside": inside.write, **rare_kinds.RULES,
}  # fmt: skip

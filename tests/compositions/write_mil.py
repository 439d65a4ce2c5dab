"""A composition as a Core ML program, in f32 or f16."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.mil.mil_write import Program

from .composition import Composition, Op, Shape, opened
from .quantized import one_in
from .write_tflite import Declined

PLAIN = {
    "relu": "relu", "relu6": "relu6", "sigmoid": "sigmoid", "tanh": "tanh", "swish": "silu", "abs": "abs", "exp": "exp",
    "square": "square", "softplus": "softplus", "identity": "identity",
}  # fmt: skip
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "real_div", "max": "maximum", "min": "minimum"}
TESTS = {"greater": "greater", "less": "less", "greater_or_equal": "greater_equal", "less_or_equal": "less_equal",
         "equal": "equal", "different": "not_equal"}  # fmt: skip


class Shared(Program):
    """Constants that hold the same are one, but for some; those are in one place of the file of weights."""

    def __init__(self) -> None:
        self.found: dict[Any, str] = {}
        self.places: dict[Any, Any] = {}
        super().__init__()

    def const(self, array: Any, name: str = "", element: str = "") -> str:
        if not isinstance(array, np.ndarray | np.generic):
            return super().const(array, name, element)
        array = np.asarray(array)
        held = array.dtype.str, array.shape, array.tobytes()
        if held in self.found and not one_in(f"c{self.count}", 4):
            return self.found[held]
        if array.size > 8 and held not in self.places:
            self.places[held] = self.blob(array)
        self.found[held] = super().const(self.places.get(held, array), name, element)
        return self.found[held]


class Mil:
    """Values keep their names; results that are inputs get one of their own."""

    def __init__(self, net: Composition, dtype: Any = np.float32) -> None:
        self.net, self.dtype = net, np.dtype(dtype)
        self.element = {"float32": "FLOAT32", "float16": "FLOAT16"}[self.dtype.name]
        self.shapes = net.shapes()
        self.program = Shared()
        self.count = 0
        for name, given in net.inputs.items():
            open_, element = net.open_axes(name), "INT32" if given.below else self.element
            extents = [None if i in open_ else d for i, d in enumerate(given.shape)]
            self.program.input(name, extents, element, default=given.shape)
            ranges = self.program.description.input[-1].type.multiArrayType.shapeRange.sizeRanges
            for d in extents if open_ else ():
                ranges.add(lowerBound=d or 1, upperBound=d or -1)

    def read(self, name: str) -> Any:
        return self.reals(self.net.consts[name].array()) if name in self.net.consts else name

    def reals(self, array: Any) -> np.ndarray:
        return np.asarray(array, self.dtype)

    def number(self, value: float) -> Any:
        return self.dtype.type(value)

    def op(self, kind: str, out: str, **params: Any) -> str:
        """An operation whose result is a value of the composition."""
        return self.program.op(kind, out, (self.element, self.declared(self.shapes[out])), **params)

    def raw(self, kind: str, shape: Shape, element: str = "", **params: Any) -> str:
        """An operation on the way."""
        self.count += 1
        return self.program.op(kind, f"m{self.count}", (element or self.element, self.declared(shape)), **params)

    def declared(self, shape: Shape) -> Sequence[int | None]:
        """Of a result: nothing is said where inputs are open."""
        return [None] * len(shape) if self.net.open else shape

    def bytes(self) -> bytes:
        for op in self.net.ops:
            if op.kind in PLAIN:
                self.op(PLAIN[op.kind], op.outputs[0], x=self.read(op.inputs[0]))
            elif op.kind in BINARY:
                x, y = map(self.read, op.inputs)
                self.op(BINARY[op.kind], op.outputs[0], x=x, y=y)
            elif op.kind in RULES:
                RULES[op.kind](self, op, op.inputs[0], op.outputs[0])
            else:
                raise Declined(op.kind)
        outputs = []
        for name in self.net.outputs:
            given = name in self.net.inputs
            outputs.append(self.raw("identity", self.shapes[name], x=name) if given else name)
        self.program.output(*outputs)
        return self.program.zip()


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def activation(m: Mil, op: Op, x: str, out: str) -> None:
    match op.kind:
        case "hard_sigmoid":
            m.op("sigmoid_hard", out, x=x, alpha=m.number(0.2), beta=m.number(0.5))
        case "hard_swish":
            gate = m.raw("sigmoid_hard", m.shapes[x], x=x, alpha=m.number(1 / 6), beta=m.number(0.5))
            m.op("mul", out, x=x, y=gate)
        case "gelu":
            m.op("gelu", out, x=x, mode=m.program.const("EXACT"))
        case "leaky_relu":
            m.op("leaky_relu", out, x=x, alpha=m.number(0.125))
        case "elu":
            m.op("elu", out, x=x, alpha=m.number(1.0))
        case "sqrt":
            m.op("sqrt", out, x=m.raw("abs", m.shapes[x], x=x))
        case "cube":
            m.op("pow", out, x=x, y=m.number(3.0))
        case "neg":
            m.op("mul", out, x=x, y=m.number(-1.0))
        case _:
            low = op.attrs["low"]
            m.op("clip", out, x=x, alpha=m.number(-3e4 if low is None else low), beta=m.number(op.attrs["high"]))


def by_axis(pads: Sequence[int]) -> np.ndarray:
    """What stands before and after each axis, side by side."""
    half = len(pads) // 2
    return ints(*(n for pair in zip(pads[:half], pads[half:], strict=True) for n in pair))


def conv(m: Mil, op: Op, x: str, out: str) -> None:
    a = op.attrs
    more: dict[str, Any] = {"bias": m.read(op.inputs[2])} if len(op.inputs) > 2 else {}
    more |= {"strides": ints(*a["strides"]), "pad": by_axis(a["pads"])}
    if op.kind == "conv":
        more |= {"dilations": ints(*a["dilations"])}
    if "group" in a:
        more |= {"groups": np.int32(a["group"])}
    m.op(op.kind, out, x=x, weight=m.read(op.inputs[1]), pad_type=m.program.const("custom"), **more)


def pool(m: Mil, op: Op, x: str, out: str) -> None:
    a = op.attrs
    if "dilations" in a or op.kind == "lp_pool":
        raise Declined("such pools")
    more: dict[str, Any] = {} if op.kind == "max_pool" else {"exclude_padding_from_average": np.bool_(True)}
    kind = "max_pool" if op.kind == "max_pool" else "avg_pool"
    m.op(kind, out, x=x, kernel_sizes=ints(*a["kernel"]), strides=ints(*a["strides"]),
         pad_type=m.program.const("custom"), pad=by_axis(a["pads"]), **more)  # fmt: skip


def dense(m: Mil, op: Op, x: str, out: str) -> None:
    more = {"bias": m.read(op.inputs[2])} if len(op.inputs) > 2 else {}
    m.op("linear", out, x=x, weight=m.reals(m.net.consts[op.inputs[1]].array().T.copy()), **more)


def matmul(m: Mil, op: Op, x: str, out: str) -> None:
    m.op("matmul", out, x=x, y=m.read(op.inputs[1]), transpose_x=np.bool_(False), transpose_y=np.bool_(False))


def axis_of(m: Mil, op: Op, x: str, out: str) -> None:
    more = {"exclusive": np.bool_(False), "reverse": np.bool_(False)} if op.kind == "cumsum" else {}
    m.op(op.kind, out, x=x, axis=np.int32(op.attrs["axis"]), **more)


def reduce(m: Mil, op: Op, x: str, out: str) -> None:
    a = op.attrs
    how = {"l1": "l1_norm", "l2": "l2_norm"}.get(a["how"], a["how"])
    m.op(f"reduce_{how}", out, x=x, axes=ints(*a["axes"]), keep_dims=np.bool_(a["keep"]))


def normalize(m: Mil, op: Op, x: str, out: str) -> None:
    gamma, beta, *rest = map(m.read, op.inputs[1:])
    more: dict[str, Any] = {"gamma": gamma, "beta": beta, "epsilon": m.number(1e-2)}
    if rest:
        more |= {"mean": rest[0], "variance": rest[1]}
    if op.kind == "layer_norm":
        more["axes"] = ints(-1)
    if op.kind != "layer_norm" and len(m.shapes[x]) not in ((4, 5) if op.kind == "batch_norm" else (4,)):
        raise Declined("images of another rank")
    m.op(op.kind, out, x=x, **more)


def concat(m: Mil, op: Op, x: str, out: str) -> None:
    values = [name if name not in m.net.consts else m.program.const(m.read(name)) for name in op.inputs]
    m.op("concat", out, values=values, axis=np.int32(op.attrs["axis"]), interleave=np.bool_(False))


def split(m: Mil, op: Op, x: str, out: str) -> None:
    types = [(m.element, m.declared(m.shapes[name])) for name in op.outputs]
    m.program.op("split", op.outputs, types, x=x, split_sizes=ints(*op.attrs["sizes"]), axis=np.int32(op.attrs["axis"]))


def slice_(m: Mil, op: Op, x: str, out: str) -> None:
    a, shape = op.attrs, m.shapes[x]
    begin = [a["start"] if i == a["axis"] else 0 for i in range(len(shape))]
    end = [a["end"] if i == a["axis"] else d for i, d in enumerate(shape)]
    stride = [a.get("step", 1) if i == a["axis"] else 1 for i in range(len(shape))]
    m.op("slice_by_index", out, x=x, begin=ints(*begin), end=ints(*end), stride=ints(*stride))


def reshape(m: Mil, op: Op, x: str, out: str) -> None:
    m.op("reshape", out, x=x, shape=ints(*opened(m.net, m.shapes[x], op.attrs["shape"])))


def transpose(m: Mil, op: Op, x: str, out: str) -> None:
    m.op("transpose", out, x=x, perm=ints(*op.attrs["perm"]))


def pad(m: Mil, op: Op, x: str, out: str) -> None:
    rank, pads = len(m.shapes[x]), op.attrs["pads"]
    mode = {"edge": "replicate"}.get(op.attrs["mode"], op.attrs["mode"])
    if mode != "constant" and any(pads[i] or pads[i + rank] for i in range(rank - 2)):
        raise Declined("reflected outside of images")
    m.op("pad", out, x=x, pad=by_axis(pads), mode=m.program.const(mode), constant_val=m.number(0))


def resize(m: Mil, op: Op, x: str, out: str) -> None:
    nearest = op.attrs["mode"] == "nearest"
    if len(op.attrs["scale"]) != 2:
        raise Declined("volumes")
    h, w = (np.int32(s) if nearest else np.float32(s) for s in op.attrs["scale"])
    more = {} if nearest else {"align_corners": np.bool_(False)}
    kind = "upsample_nearest_neighbor" if nearest else "upsample_bilinear"
    m.op(kind, out, x=x, scale_factor_height=h, scale_factor_width=w, **more)


def blocks(m: Mil, op: Op, x: str, out: str) -> None:
    if op.attrs.get("mode") == "CRD":
        m.op("pixel_shuffle", out, x=x, upscale_factor=np.int32(op.attrs["block"]))
    else:
        m.op(op.kind, out, x=x, block_size=np.int32(op.attrs["block"]))


def gather(m: Mil, op: Op, x: str, out: str) -> None:
    indices = op.attrs.get("indices")
    where: Any = op.inputs[1] if indices is None else ints(*indices)
    m.op("gather", out, x=m.read(x), indices=where, axis=np.int32(op.attrs["axis"]))


def tile(m: Mil, op: Op, x: str, out: str) -> None:
    """Also an expand of operands of the same rank."""
    shape = m.shapes[x]
    if len(shape) != len(m.shapes[out]):
        raise Declined("a new axis")
    m.op("tile", out, x=x, reps=ints(*(b // a for a, b in zip(shape, m.shapes[out], strict=True))))


def select(m: Mil, op: Op, x: str, out: str) -> None:
    if op.attrs["test"] not in TESTS:
        raise Declined("tests of tests")
    holds = m.raw(TESTS[op.attrs["test"]], m.shapes[x], "BOOL", x=x, y=m.number(0))
    m.op("select", out, cond=holds, a=m.read(op.inputs[1]), b=m.read(op.inputs[2]))


def lstm(m: Mil, op: Op, x: str, out: str) -> None:
    """Sequences first there; the gates are input, forget, output, cell."""
    w, r, b = (m.net.consts[name].array()[0] for name in op.inputs[1:])
    hidden, (n, t, c) = r.shape[-1], m.shapes[x]
    order = (0, 2, 1, 3)

    def blocks(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(4, hidden, -1)
        return m.reals(np.concatenate([parts[i] for i in order]))

    turned = m.raw("transpose", (t, n, c), x=x, perm=ints(1, 0, 2))
    bias = blocks(b.reshape(2, 4, hidden).sum(0)).reshape(-1)
    zeros = m.reals(np.zeros((n, hidden)))
    m.count += 1
    names = [f"m{m.count}_{part}" for part in "ync"]
    types = [(m.element, m.declared(shape)) for shape in ((t, n, hidden), (n, hidden), (n, hidden))]
    m.program.op("lstm", names, types, x=turned, initial_h=zeros, initial_c=zeros, weight_ih=blocks(w),
                 weight_hh=blocks(r), bias=bias, direction=m.program.const("forward"),
                 output_sequence=np.bool_(True))  # fmt: skip
    m.op("transpose", out, x=names[0], perm=ints(1, 0, 2))


RULES: dict[str, Callable[[Mil, Op, str, str], None]] = {
    **dict.fromkeys(("hard_sigmoid", "hard_swish", "gelu", "leaky_relu", "elu", "sqrt", "cube"), activation),
    **dict.fromkeys(("neg", "clip"), activation),
    **dict.fromkeys(("layer_norm", "batch_norm", "instance_norm"), normalize),
    "conv": conv, "conv_transpose": conv, "max_pool": pool, "average_pool": pool, "lp_pool": pool, "dense": dense,
    "matmul": matmul, "softmax": axis_of, "cumsum": axis_of, "reduce": reduce, "concat": concat, "split": split,
    "slice": slice_, "reshape": reshape, "transpose": transpose, "pad": pad, "resize": resize, "depth_to_space": blocks,
    "space_to_depth": blocks, "gather": gather, "expand": tile, "tile": tile, "select": select, "lstm": lstm,
}  # fmt: skip

from .write_mil_rare import RULES as RARE  # noqa: E402

RULES |= RARE
KINDS = frozenset({*PLAIN, *BINARY, *RULES})

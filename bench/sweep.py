"""Random layers beside other engines: what is slow that no network of ours has.

  python -m bench.sweep --count 500             prints a line a layer, means by kind, and the worst: the goal is a mean
                                                of all of 0.70, and none above 1.1
  python -m bench.sweep --kind depthwise --seed 7 --threads 2 --log FILE    one kind; lines of JSON are added to FILE

A layer stands four times in its network, there and back, so that the order of channels at the network's edges weighs
little. All engines run it in turns on the same numbers. A ratio is fastgraph's time over that of the fastest other
engine; one that differs where another agrees is wrong, and does not count. Needs
pip install 'fastgraph-runtime[bench]'.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import fastgraph as fg
from fastgraph.disturbance import of_shared_core
from fastgraph.tools.bench import agrees, compare
from fastgraph.tools.feeds import random_feeds

PEERS = ("onnxruntime", "openvino")
LEAST, MOST = 1e6, 3e8
"""Multiply-adds of a network."""
WORST = 20
CHANNELS = (3, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 240, 256, 320, 384, 512)
SIDES = (4, 7, 8, 10, 13, 14, 16, 19, 20, 26, 28, 32, 40, 52, 56, 64, 80, 112)
WINDOWS = {
    "pointwise": (1,), "conv": (3, 3, 5, 7), "depthwise": (3, 5, 7, 9, 11), "grouped": (3, 3, 5), "dilated": (3,),
}  # fmt: skip
"""Their sides, by the kind of a convolution."""


@dataclass
class Net:
    """A network that is written node by node. `int8`: whether layers are between roundings to 8 bits (QDQ)."""

    int8: bool
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def const(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def weight(self, *shape: int) -> str:
        fan = math.prod(shape[1:]) or 1
        numbers = self.rng.standard_normal(shape) / math.sqrt(fan)
        if not self.int8:
            return self.const(numbers.astype(np.float32))
        # 7 bits: with 8, onnxruntime's products of pairs saturate on CPUs without VNNI, and its results are others.
        scale = (np.abs(numbers).reshape(shape[0], -1).max(1) / 63).astype(np.float32)
        stored = np.rint(numbers / scale.reshape(-1, *[1] * (len(shape) - 1))).astype(np.int8)
        zero = self.const(np.zeros(shape[0], np.int8))
        return self.add("DequantizeLinear", self.const(stored), self.const(scale), zero, axis=0)

    def rounded(self, x: str) -> str:
        if not self.int8:
            return x
        grid = self.const(np.float32(0.03)), self.const(np.uint8(128))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *grid), *grid)

    def layer(self, op: str, x: str, *weights: str, act: str = "", **attrs: Any) -> str:
        y = self.add(op, self.rounded(x), *weights, **attrs)
        return self.add(act, y) if act else y

    def bytes(self, x: Sequence[int], y: str) -> bytes:
        self.nodes.append(helper.make_node("Identity", [self.rounded(y)], ["y"]))
        ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", x), ("y", None))]
        graph = helper.make_graph(self.nodes, "layer", *ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@dataclass(frozen=True)
class Layer:
    """What a network is made of: `build` gives it; `macs` of it."""

    kind: str
    text: str
    macs: float
    build: Callable[[], bytes]


def conv(r: random.Random, kind: str, int8: bool) -> Layer:
    """Convolutions: of any window, of a window for each channel, in groups, or dilated."""
    batch, side, act = r.choice((1, 1, 1, 2, 4, 8)), r.choice(SIDES), r.choice(("", "Relu", "Relu"))
    k = r.choice(WINDOWS[kind])
    dilation = r.choice((2, 2, 3, 4, 6, 12)) if kind == "dilated" else 1
    stride = r.choice((1, 1, 1, 2)) if k > 1 and dilation == 1 else 1
    c = r.choice(CHANNELS)
    each = 1 if kind == "depthwise" else r.choice((2, 4, 8, 16, 24, 32)) if kind == "grouped" else c
    groups = {"depthwise": c, "grouped": max(c // each, 2)}.get(kind, 1)
    c = c if kind == "depthwise" else each * groups
    n = c if groups > 1 else r.choice(CHANNELS)
    out = -(-side // stride)
    macs = 4 * batch * k * k * out * out * (c * n // groups)

    def build() -> bytes:
        net, x = Net(int8, np.random.default_rng(0)), "x"
        for i, (a, b) in enumerate(((c, n), (n, c)) * 2):
            step = stride if i == 0 else 1
            pads, places = [k // 2 * dilation] * 4, {"strides": [step] * 2, "dilations": [dilation] * 2}
            x = net.layer("Conv", x, net.weight(b, a // groups, k, k), act=act, group=groups, pads=pads, **places)
        return net.bytes((batch, c, side, side), x)

    window = f"{k}x{k}/{stride}" + f" dilation {dilation}" * (dilation > 1)
    text = f"{batch}x{side}x{side} {c}>{n} {window} groups {groups} {act}"
    return Layer(f"{kind} {'int8' if int8 else 'f32'}", text, macs, build)


def dense(r: random.Random, kind: str, int8: bool) -> Layer:
    """Fully connected layers over rows."""
    rows, k, n = r.choice((1, 1, 2, 5, 8, 16, 33, 64, 128, 197, 256)), r.choice(CHANNELS[8:]), r.choice(CHANNELS[8:])
    k, n, act = 4 * k, 4 * n, r.choice(("", "Relu", "Sigmoid", "Erf"))

    def build() -> bytes:
        net, x = Net(int8, np.random.default_rng(0)), "x"
        for a, b in ((k, n), (n, k)) * 2:
            x = net.layer("Gemm", x, net.weight(b, a), transB=1)
            x = net.add("Mul", x, net.add("Sigmoid", x)) if act == "Sigmoid" else gelu(net, x) if act == "Erf" else x
            x = net.add("Relu", x) if act == "Relu" else x
        return net.bytes((rows, k), x)

    named = {"Sigmoid": "SiLU", "Erf": "GELU"}.get(act, act)
    return Layer(f"{kind} {'int8' if int8 else 'f32'}", f"{rows} x {k}>{n} {named}", 4 * rows * k * n, build)


def gelu(net: Net, x: str) -> str:
    half, one, root = (net.const(np.float32(v)) for v in (0.5, 1, math.sqrt(0.5)))
    return net.add("Mul", net.add("Mul", x, half), net.add("Add", net.add("Erf", net.add("Mul", x, root)), one))


def attention(r: random.Random, kind: str, int8: bool) -> Layer:
    """Softmax attention of several heads, with its projections."""
    rows, heads, size = r.choice((16, 49, 64, 128, 197, 256)), r.choice((2, 4, 6, 8)), r.choice((16, 32, 48, 64))
    width = heads * size

    def build() -> bytes:
        net, x = Net(False, np.random.default_rng(0)), "x"
        split, flat = net.const(np.array([rows, heads, size])), net.const(np.array([rows, width]))
        for _ in range(2):
            q, k, v = (net.add("MatMul", x, net.weight(width, width)) for _ in range(3))
            q, k, v = (net.add("Reshape", t, split) for t in (q, k, v))
            q, v = (net.add("Transpose", t, perm=[1, 0, 2]) for t in (q, v))
            scores = net.add("MatMul", q, net.add("Transpose", k, perm=[1, 2, 0]))
            scores = net.add("Softmax", net.add("Mul", scores, net.const(np.float32(size**-0.5))), axis=-1)
            y = net.add("Transpose", net.add("MatMul", scores, v), perm=[1, 0, 2])
            x = net.add("Add", x, net.add("Reshape", y, flat))
        return net.bytes((rows, width), x)

    macs = 2 * (3 * rows * width * width + 2 * rows * rows * width)
    return Layer(f"{kind} f32", f"{rows} rows, {heads} heads of {size}", macs, build)


def transposed(r: random.Random, kind: str, int8: bool) -> Layer:
    """Transposed convolutions that double the map."""
    c, side, k = r.choice(CHANNELS[1:18]), r.choice(SIDES[:12]), r.choice((2, 3, 4))

    def build() -> bytes:
        net, x = Net(False, np.random.default_rng(0)), "x"
        for _ in range(2):
            pads = [(k - 2) // 2, (k - 2) // 2, (k - 1) // 2, (k - 1) // 2]
            x = net.add("ConvTranspose", x, net.weight(c, c, k, k), strides=[2, 2], pads=pads)
        return net.bytes((1, c, side, side), x)

    return Layer(f"{kind} f32", f"{side}x{side} {c} {k}x{k}", side * side * c * c * k * k * 5, build)


def pool(r: random.Random, kind: str, int8: bool) -> Layer:
    """Pools of the same size."""
    c, side, k, op = r.choice(CHANNELS), r.choice(SIDES), r.choice((2, 3, 5)), r.choice(("MaxPool", "AveragePool"))

    def build() -> bytes:
        net, x = Net(False, np.random.default_rng(0)), "x"
        for _ in range(4):
            x = net.add(op, x, kernel_shape=[k, k], pads=[k // 2, k // 2, (k - 1) // 2, (k - 1) // 2])
        return net.bytes((1, c, side, side), x)

    return Layer(f"{kind} f32", f"{side}x{side} {c} {op} {k}x{k}", 4 * side * side * c * k * k, build)


PRECISIONS = {"f32": 0.45, "bf16": 0.2, "int8": 0.35}
"""Of layers, and how often."""
KINDS: dict[str, tuple[Callable[[random.Random, str, bool], Layer], float, bool]] = {
    "pointwise": (conv, 3, True), "conv": (conv, 3, True), "depthwise": (conv, 3, True), "grouped": (conv, 2, True),
    "dense": (dense, 3, True), "attention": (attention, 1, False), "transposed": (transposed, 1, False),
    "pool": (pool, 1, False), "dilated": (conv, 0, True),
}  # fmt: skip
"""By name: what draws a layer, how often (0: only where it is asked for, so that a seed keeps its layer), and whether
there is one of 8 bits."""


def drawn(seed: int, kind: str | None, precision: str | None) -> Layer:
    """The layer of a seed, of a size that a run can measure."""
    r = random.Random(f"layer {seed}")
    while True:
        name = kind or r.choices(list(KINDS), [weight for _, weight, _ in KINDS.values()])[0]
        make, _, has_int8 = KINDS[name]
        chosen = precision or r.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
        found = make(r, name, has_int8 and chosen == "int8")
        if LEAST <= found.macs <= MOST:
            return replace(found, kind=f"{name} bf16") if chosen == "bf16" else found


def measured(layer: Layer, threads: int, seconds: float) -> dict[str, Any]:
    """The line of a layer: `ratio` to the fastest other engine (None: none ran it); `wrong`: the engines that differ
    where another agrees; `disagrees`: none agrees.
    """
    precision = "bfloat16" if layer.kind.endswith("bf16") else "float32"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.onnx"
        path.write_bytes(layer.build())
        model = fg.load(path, threads=threads)
        found = compare(str(path), random_feeds(model, {}), PEERS, seconds, threads=threads, precision=precision)
    peers = [row for row in found["engines"] if "ratio" in row]
    rows = [row for row in peers if row["agrees"]] or peers
    worst = max(rows, key=lambda row: row["ratio"], default=None)
    own = found["engines"][0]["p50_ms"]
    return {
        "kind": layer.kind, "layer": layer.text, "ms": own, "gmacs": layer.macs / own * 1e-6, "isa": found["isa"],
        "ratio": worst and worst["ratio"], "fastest": worst and worst["name"],
        "disagrees": not agrees({"engines": rows}), "wrong": [row["name"] for row in peers if row not in rows],
        "noisy": found["disturbance"]["noisy"], "shared": of_shared_core(found["disturbance"]),
    }  # fmt: skip


def line(found: dict[str, Any]) -> str:
    ratio = "   -" if found["ratio"] is None else f"{found['ratio']:.2f}"
    wrong = "".join(f" {name} is wrong" for name in found["wrong"])
    marks = " DISAGREES" * found["disagrees"] + wrong + " noisy" * found["noisy"] + " shared core" * found["shared"]
    speed = f"{found['ms']:8.3f} ms {found['gmacs']:6.1f} GMAC/s"
    return f"{ratio} of {found['fastest'] or 'none':11} {speed}  {found['kind']:15} {found['layer']}{marks}"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Geometric means by kind and of all, and the worst layers; those of a shared core where most are."""
    ran = [row for row in rows if row["ratio"] is not None]
    undisturbed = [row for row in ran if not row["noisy"]]
    quiet = [row for row in undisturbed if not row["shared"]]
    rows = quiet if 2 * len(quiet) >= len(undisturbed) else undisturbed
    left_out, shared = len(ran) - len(rows), sum(row["shared"] for row in rows)
    groups = defaultdict(list)
    for row in rows:
        groups[row["kind"]].append(row["ratio"])
    groups["all"] = [row["ratio"] for row in rows]
    kept = f"{len(rows)} layers, {shared} of them measured on a shared core; {left_out} noisy or shared left out"
    lines = ["", kept, "  mean  worst  >1 layers  kind           (mean: geometric mean of the ratios to the best peer)"]
    for kind, ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
        lines.append(
            f"{mean:6.2f} {max(ratios, default=0):6.2f} {sum(x > 1 for x in ratios):3} {len(ratios):6}  {kind}"
        )
    worst = sorted(rows, key=lambda row: -row["ratio"])[:WORST]
    return "\n".join([*lines, "", "worst", *(f"{row['seed']:5} {line(row)}" for row in worst)])


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--count", type=int, default=500, help="layers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first layer (default: %(default)s)")
    parser.add_argument("--kind", choices=list(KINDS), help="one kind only")
    parser.add_argument("--precision", choices=list(PRECISIONS), help="one precision only")
    parser.add_argument("--threads", type=int, default=1, help="of every engine (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.6, help="for a layer (default: %(default)s)")
    parser.add_argument("--log", type=Path, help="add a line of JSON for each layer")
    args = parser.parse_args(argv)
    rows = []
    for seed in range(args.seed, args.seed + args.count):
        layer = drawn(seed, args.kind, args.precision)
        found = measured(layer, args.threads, args.seconds) | {"seed": seed}
        rows.append(found)
        print(f"{seed:5} {line(found)}", flush=True)
        if args.log:
            with args.log.open("a", encoding="utf-8") as file:
                print(json.dumps(found), file=file)
    print(summary(rows))
    return 1 if any(row["disagrees"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

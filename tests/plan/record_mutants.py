"""Records of sound programs with one slot changed: what the verifier says of them, and what they do to memory.

    FASTGRAPH_CHECK=guard python -m tests.plan.record_mutants FIRST COUNT [ISA]

Mutant n is the same in every run. It runs as a single step in a forked child, between guard pages: twice, with other
bytes around what belongs to its node, from SLACK bytes after its end on. Prints a JSON line for each that is accepted
and does harm, and then the counts.
"""

import json
import mmap
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fastgraph.errors import PlanError
from fastgraph.ir import Graph, TensorType, Value, read_by
from fastgraph.kernels.isa.tiers import Tier, choose
from fastgraph.plan.constants import SLACK
from fastgraph.plan.lower import depth_first
from fastgraph.plan.program import Arg, Ref, Scratch, Step, Table, buffer_bytes
from fastgraph.plan.reach.records import verify_records
from fastgraph.plan.storage import byte_strides
from fastgraph.runtime.bind import records
from fastgraph.runtime.executable import Executable, compile_graph
from fastgraph.runtime.pool import Runner
from tests.blocks import BLOCKS, conv, heads
from tests.nets import F32, I64, Net, graph_of
from tests.plan import test_amx_networks, test_recurrent
from tests.plan.control_nets import NETS
from tests.plan.test_quantized_elementwise import graph_of as one
from tests.plan.test_quantized_elementwise import typed
from tests.plan.test_quantized_layers import LAYERS, ROUNDED, WINDOWS, layer, rounding
from tests.uncommon_nodes import GRAPHS as UNCOMMON

SECONDS = 2
"""Of processor time that a step may take."""
GRAPHS: dict[str, Callable[[], Graph]] = {}
"""Small graphs whose programs have, on all tiers together, every kernel."""


def _net(build: Callable[[Net], Any]) -> Callable[[], Graph]:
    def made() -> Graph:
        net = Net()
        build(net)
        return graph_of(net.bytes())

    return made


def _moves(net: Net) -> None:
    x, i = net.input("x", (2, 6, 5, 7)), net.input("i", (4,), I64)
    wide = net("Pad", x, [0, 1, 0, 2, 0, 0, 1, 0], 1.0)
    around = net("Pad", x, [0, 0, 2, 3, 0, 0, 1, 2], mode="reflect")
    turned = net("Transpose", net.input("t", (40, 37)), perm=[1, 0])
    few = net("Transpose", net.input("f", (3, 64)), perm=[1, 0])
    cut = net("Slice", x, *(np.array(v, I64) for v in ([4, 0], [0, 7], [1, 3], [-1, 2])))
    net.output(wide, around, turned, few, cut, net("Gather", x, i, axis=1))
    net.output(net("Tile", x, [1, 2, 1, 3]))


def _resizes(net: Net) -> None:
    sizes = net.const(np.array([1, 3, 9, 10], I64))
    for i, mode in enumerate(("linear", "cubic", "nearest")):
        net.output(net("Resize", net.input(f"x{i}", (1, 3, 6, 5)), "", "", sizes, mode=mode))
    wide = net("Relu", conv(net, net.input("w", (1, 4, 5, 6)), 4, 40, 1))
    wide = net("Resize", wide, "", "", [1, 40, 9, 8], mode="linear")
    net.output(conv(net, wide, 40, 4, 1))


def _products(net: Net) -> None:
    a, b = net.input("a", (2, 9, 13)), net.input("b", (2, 13, 21))
    net.output(net("MatMul", a, b), net("Softmax", a, axis=1), net("Softmax", a))
    net.output(net("ReduceSum", b, [2]))
    net.output(net("MatMul", net.input("few", (2, 3, 13)), b), net("MatMul", a, net.input("column", (2, 13, 1))))
    t, taps = net.input("t", (1, 6, 5, 4)), net.weight(6, 16, 3, 3)
    net.output(*(net("ConvTranspose", t, taps, group=2, strides=[2, 1], dilations=[1, d]) for d in (1, 2)))
    d = net.input("d", (1, 5, 9, 11))
    net.output(conv(net, d, 5, 10, 3, group=5, strides=[2, 1]), conv(net, d, 5, 12, 3, strides=[3, 3]))
    net.output(conv(net, net.input("g", (1, 24, 9, 11)), 24, 24, 3, group=6))
    m = net.input("m", (1, 4, 5, 6, 7))
    for kernel in ([2, 3, 2], [2, 3, 4]):
        net.output(net("MaxPool", m, kernel_shape=kernel, pads=[0, 1, 0, 1, 1, 1]))
    net.output(net("Conv", net.input("r", (1, 64, 203)), net.weight(64, 64, 3), pads=[8, 8], dilations=[8]))
    net.output(net("Conv", net.input("apart", (1, 8, 14, 14)), net.weight(40, 8, 3, 3), pads=[4] * 4, dilations=[8, 8]))
    net.output(net("Conv", net.input("s", (1, 64, 12, 10, 32)), net.weight(64, 64, 3, 1, 1), pads=[1, 0, 0] * 2))
    net.output(net("Conv", net.input("v", (1, 64, 3, 9, 10)), net.weight(64, 32, 2, 3, 3), group=2, pads=[0, 1, 1] * 2))


def _recurrent(net: Net) -> None:
    x, lengths = net.input("x", (3, 5, 7)), net.input("lengths", (5,), np.int32)
    first = net.input("first", (2, 5, 9))
    for op, gates, attrs in (("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, {"linear_before_reset": 1}), ("LSTM", 4, {})):
        w, r = net.weight(2, gates * 9, 7), net.weight(2, gates * 9, 9)
        more = (first, net.weight(2, 27)) if op == "LSTM" else ()
        count = 3 if op == "LSTM" else 2
        layer = net(op, x, w, r, net.weight(2, 2 * gates * 9), lengths, first, *more, outputs=count, hidden_size=9,
                    direction="bidirectional", **attrs)  # fmt: skip
        net.output(*layer)
    given = net.input("w", (1, 36, 7)), net.input("r", (1, 36, 9)), net.input("b", (1, 72))
    net.output(*net("LSTM", x, *given, outputs=3, hidden_size=9))


def _in_bfloat16(build: Callable[[Net], Any]) -> Callable[[], Graph]:
    def made() -> Graph:
        graph = _net(build)()
        graph.precision = "bfloat16"
        return graph

    return made


def _banded(net: Net) -> None:
    x = net("Relu", conv(net, net.input("x", (1, 8, 11, 9)), 8, 32, 1))
    net.output(conv(net, conv(net, x, 32, 32, group=32), 32, 16, 1))


def _gated(net: Net) -> None:
    x = net("Relu", conv(net, net.input("x", (2, 16, 11, 9)), 16, 24, 1))
    y = conv(net, x, 24, 24, group=24)
    gate = net("Sigmoid", conv(net, net("GlobalAveragePool", y), 24, 24, 1))
    y = net("LayerNormalization", net("Add", net("Mul", y, gate), x), net.weight(9), net.weight(9), axis=-1)
    net.output(conv(net, conv(net, conv(net, y, 24, 24, 1), 24, 24, group=6), 24, 16, 1))


def _u8(*shape: int) -> TensorType:
    return typed("u8", shape, 0.05, 12)


def _plain(dtype: str, *shape: int) -> TensorType:
    return TensorType(np.dtype(dtype), shape)


def _resized(channels: int) -> list[TensorType | Value]:
    none = _constant(np.float32)
    return [_u8(1, 6, 5, channels), none, none, _constant(np.int64, 1, 9, 8, channels)]


def _constant(dtype: type, *values: Any) -> Value:
    return Value.constant(f"c{len(values)}", np.array(values, dtype))


def _places(net: Net) -> None:
    x, i, u = net.input("x", (3, 9, 5)), net.input("i", (2, 9, 5), I64), net.input("u", (2, 9, 5))
    j, v = net.input("j", (4, 2), I64), net.input("v", (4, 5))
    net.output(net("GatherElements", x, i, axis=0), net("ScatterElements", x, i, u, axis=0), net("GatherND", x, j))
    net.output(net("ScatterND", x, j, v, reduction="add"), net("Trilu", x, 1, upper=1))
    net.output(net("OneHot", net.input("k", (6,), I64), 9, [0.0, 1.0]))
    net.output(net("ReverseSequence", x, net.input("l", (9,), I64), time_axis=0, batch_axis=1))
    best, _ = net("TopK", x, [3], axis=1, outputs=2)
    net.output(best, net("GridSample", net.input("m", (1, 3, 6, 5)), net.input("g", (1, 4, 7, 2))))
    boxes, scores = net.input("b", (1, 20, 4)), net.input("s", (1, 2, 20))
    most, limit = net.const(np.array([5], I64)), net.const(np.array([0.5], F32))
    net.output(net("NonMaxSuppression", boxes, scores, most, limit, limit), dtype=I64)


def _bounded(net: Net) -> None:
    """Extents that are known at run time only."""
    x, column = net.input("x", (9, 4)), net.input("c", (9,))
    found = net("Squeeze", net("NonZero", column), [0])
    scores, rows = net("Gather", column, found), net("Gather", x, found)
    size = net("ReduceMin", net("Concat", [3], net("Shape", scores), axis=0))
    best, where = net("TopK", scores, size, outputs=2)
    boxes = net("Unsqueeze", rows, [0])
    kept = net("NonMaxSuppression", boxes, net("Unsqueeze", scores, [0, 1]), [5])
    net.output(best, net("Gather", rows, where))
    net.output(net("NonZero", x), kept, dtype=I64)


def _coded(net: Net) -> None:
    """Weights in a few bits, for few rows and for many, and rows that are rounded."""
    for m, bits, level in ((1, 4, 0), (40, 2, 0), (17, 8, 0), (19, 4, 4)):
        codes = net.const(net.rng.integers(0, 256, (33, 3, 4 * bits)).astype(np.uint8))
        inputs = [net.input(f"x{m}", (2, m, 80)), codes, net.const(np.ones(99, F32))]
        zeros = net.const(net.rng.uniform(0, 4, (33, 3)).astype(F32)) if bits == 2 else ""
        attrs = {"K": 80, "N": 33, "bits": bits, "block_size": 32, "accuracy_level": level}
        net.output(net("Relu", net("MatMulNBits", *inputs, zeros, domain="com.microsoft", **attrs)))


def _on_tiles(precision: str) -> Graph:
    """Layers of f32, one of them a convolution with padding, as large as tiles of bf16 want them; a pool and a
    depthwise layer between them."""
    net = Net()
    y = net("Relu", net("Conv", net.input("x", (1, 24, 9, 9)), net.weight(64, 24, 3, 3), pads=[1, 1, 1, 1]))
    y = net("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = net("Sigmoid", net("Conv", y, net.weight(96, 64, 1, 1), net.weight(96)))
    y = net("Conv", y, net.weight(96, 1, 3, 3), pads=[1, 1, 1, 1], group=96)
    net.output(net("Conv", y, net.weight(70, 96, 1, 1)))
    graph = graph_of(net.bytes())
    graph.precision = precision
    return graph


def _odd_pixels() -> Graph:
    """Layers of one channel and of three, with addends in both types, and a chain that is walked."""
    net = Net()
    a = net("Conv", net.input("x", (1, 3, 9, 9)), net.weight(32, 3, 3, 3), pads=[1, 1, 1, 1])
    b = net("Conv", net.input("z", (1, 1, 9, 9)), net.weight(32, 1, 3, 3), net.weight(32), pads=[1, 1, 1, 1])
    c = net("Sigmoid", net("Conv", a, net.weight(32, 32, 1, 1)))
    net.output(
        net("Conv", net("Add", net("Conv", c, net.weight(32, 32, 3, 3), pads=[1, 1, 1, 1]), b), net.weight(8, 32, 1, 1))
    )
    net.output(net("MatMul", net.input("m", (5, 33)), net.weight(33, 17)))
    graph = graph_of(net.bytes())
    graph.precision = "bfloat16"
    return graph


def _attention_on_tiles() -> Graph:
    """Heads of one dense layer's columns, and a mask; what lies between is bf16."""
    net = Net()
    y = net("MatMul", net.input("x", (2, 37, 48)), net.weight(48, 120))
    q, k, v = net("Split", y, axis=-1, outputs=3, num_outputs=3)
    q, k, v = (heads(net, each, 2, 37, 2, 20) for each in (q, k, v))
    x = net("Add", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), net.input("mask", (2, 1, 37, 37)))
    y = net("Transpose", net("MatMul", net("Softmax", x, axis=-1), v), perm=[0, 2, 1, 3])
    net.output(net("MatMul", net("Reshape", y, [2, 37, 40]), net.weight(40, 9)))
    graph = graph_of(net.bytes())
    graph.precision = "bfloat16"
    return graph


GRAPHS |= {name: _net(build) for name, build in BLOCKS.items()}
GRAPHS |= {f"flow {name}": lambda build=build: graph_of(build().bytes()) for name, build in NETS.items()}
GRAPHS |= {build.__name__: _net(build)
           for build in (_moves, _resizes, _products, _recurrent, _banded, _places, _bounded, _coded)}  # fmt: skip
GRAPHS |= {f"u8 {name}": lambda case=case: layer(*case) for name, case in LAYERS.items()}
GRAPHS |= {f"u8 {name}": build for name, build in WINDOWS.items()}
GRAPHS |= {f"dynamic {name}": lambda case=case: rounding(*case) for name, case in ROUNDED.items()}
GRAPHS |= {name: UNCOMMON[name] for name in ("randoms", "regions")}
GRAPHS |= {
    "amx": test_amx_networks.network,
    "amx float32": lambda: _on_tiles("float32"),
    "amx float16": lambda: _on_tiles("float16"),
    "amx bfloat16": lambda: _on_tiles("bfloat16"),
    "odd pixels": _odd_pixels,
    "recurrent bfloat16": _in_bfloat16(_recurrent),
    "gates in bfloat16": _in_bfloat16(_gated),
    "amx attention": _attention_on_tiles,
    "u8 row": lambda: layer("dense", (1, 70), (33, 70), {}),
    "u8 add": lambda: one("add", [_u8(2, 5, 7, 24), _u8(1, 1, 1, 24)], typed("s8", (), 0.1, 3)),
    "u8 of f32": lambda: one("mul", [_u8(3, 45), typed("f32", (3, 1))], _u8()),
    "table": lambda: one("sigmoid", [_u8(3, 45)], typed("u8", (), 1 / 256, 0)),
    "flip": lambda: one("requantize", [_u8(3, 45)], typed("s8", (), 0.05, 12 - 128)),
    "cast": lambda: one("cast", [typed("i64", (3, 17))], typed("f32", ()), to="float32"),
    "where of i64": lambda: one(
        "where", [_plain("bool", 3, 1, 17), _plain("int64", 3, 5, 17), _plain("int64", 17)], _plain("int64")
    ),
    "mod of u8": lambda: one("mod", [_plain("uint8", 3, 150), _plain("uint8", 3, 1)], _plain("uint8"), fmod=0),
    "mean of rows": lambda: one("reduce_mean", [typed("f32", (256, 64)), _constant(np.int64, 0)], typed("f32", ())),
    "max of i32": lambda: one("reduce_max", [_plain("int32", 3, 9, 37), _constant(np.int64, 1)], _plain("int32")),
    "arg_min of f64": lambda: one("arg_min", [_plain("float64", 3, 5, 17)], _plain("int64"), axis=1, keepdims=0),
    "cum_sum": lambda: one("cum_sum", [_plain("int64", 3, 5, 17), _constant(np.int64, 1)], _plain("int64")),
    "matmul of i32": lambda: one("matmul", [_plain("int32", 9, 13), _plain("int32", 2, 13, 21)], _plain("int32")),
    "arg_max": lambda: one("arg_max", [typed("f32", (3, 5, 17))], typed("i64", ()), axis=1, keepdims=0),
    "arg_min of bytes": lambda: one("arg_min", [_u8(3, 37)], typed("i64", ()), axis=1, keepdims=0),
    "max of bytes": lambda: one("reduce_max", [_u8(3, 9, 37), _constant(np.int64, 1)], _u8(), keepdims=0),
    "lstm of bytes": lambda: test_recurrent.of_bytes(3, 2, 3, 19),
    "lstm of bytes and of bytes": lambda: test_recurrent.of_bytes(3, 2, 3, 19, dynamic=2),
    "matrices": lambda: one("matmul", [_u8(2, 9, 14), Value("b", _u8(2, 14, 21))], typed("u8", (), 0.5, 3)),
    "resize of bytes": lambda: one("resize", _resized(8), _u8(), mode="linear"),
    "resize of bytes of many channels": lambda: one("resize", _resized(40), _u8(), mode="linear"),
}


@cache
def plan(name: str, tier: Tier, threads: int = 2) -> Executable:
    """A graph's program, bound to memory."""
    depth_first.WORTH = 1 if name == "_banded" else depth_first.L2 // 2
    return compile_graph(GRAPHS[name](), {}, tier, threads)


def mutated(rng: random.Random, found: Executable, step: Step) -> tuple[Step, dict[str, Any]]:
    """The step with one word of its record, or of a table of it, changed; which, from what, to what."""
    slot = rng.randrange(len(step.args))
    at = step.args[slot]
    if isinstance(at, Table) and rng.random() < 0.9:
        word = rng.randrange(len(at.words))
        held = _instead(rng, found, at.words[word])
        changed: Arg = Table((*at.words[:word], held, *at.words[word + 1 :]))  # type: ignore[arg-type]
        what = {"slot": slot, "word": word, "was": str(at.words[word]), "is": str(held)}
    else:
        changed = _instead(rng, found, at)
        what = {"slot": slot, "was": str(at), "is": str(changed)}
    return Step(step.kernel, (*step.args[:slot], changed, *step.args[slot + 1 :]), step.node, step.share), what


def _instead(rng: random.Random, found: Executable, held: Arg) -> Arg:
    """What a word holds in place of this."""
    if isinstance(held, int):
        numbers = (held + 1, held - 1, 2 * held, -held, 0, held + rng.choice((4, 16, 24, 64)), held // 2, held << 20)
        return rng.choice([n for n in numbers if n != held and -(1 << 63) <= n < 1 << 63] or [held + 1])
    others = [a for s in found.program.steps if isinstance(s, Step) for a in s.words() if type(a) is type(held)]
    if not isinstance(held, Ref):
        return rng.choice([0, *others])
    if rng.random() < 0.25:
        return rng.choice(others)
    size = 8 if held.base == -1 else _bytes(found, held.base)
    return Ref(held.base, held.offset + rng.choice((1, -1, 4, -4, 64, -64, 4096, size, -size, size // 2)))


def _bytes(found: Executable, base: Any) -> int:
    return found.program.constants[base].nbytes if isinstance(base, int) else buffer_bytes(base)


def accepted(found: Executable, at: int, step: Step) -> str:
    """What the verifier says of a program with one step exchanged: "" where it accepts."""
    program = found.program
    old, program.steps[at] = program.steps[at], step
    try:
        verify_records(program, found.tier, found.threads, found.graph.inputs, found.graph.outputs)
    except PlanError as error:
        return str(error)
    finally:
        program.steps[at] = old
    return ""


# -- what a step really does


def harm(found: Executable, old: Step, step: Step) -> str:
    """What a step does that it must not, in a child: "" for nothing."""
    child = os.fork()
    if child == 0:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            os._exit(_run(found, old, step))
        finally:
            os._exit(99)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "", 3: "writes", 4: "reads"}[os.WEXITSTATUS(status)]


def _run(found: Executable, old: Step, step: Step) -> int:
    """3 when bytes were written that aren't the step's own, 4 when its results depend on such bytes, else 0."""
    table, words = records(found.compiled, found.memory, [step])
    runner = Runner(table, 1, found.memory.error.ctypes.data)
    memory = [_pages(found.memory.arena, at, buffer_bytes(owner)) for owner, at in found.memory.offsets.items()]
    base = found.memory.constants.ctypes.data
    consts = [_pages(found.memory.constants, at - base, array.nbytes)
              for at, array in zip(found.memory.addresses, found.program.constants, strict=True)]  # fmt: skip
    own, scratch, reads = _masks(found, old, step)
    whole = found.memory.arena
    # Zeros in scratch: weights that are packed there are 0 where a row of bytes ends within a word.
    inside = np.where(scratch, 0, np.random.default_rng(0).integers(0, 256, whole.size, np.uint8))
    results = []
    for outside in (0, 0x41):
        for part in memory:
            keep = reads[part] | own[part] | scratch[part]
            whole[part] = np.where(keep, inside[part], outside)
        for part, array in zip(consts, found.program.constants, strict=True):
            page = found.memory.constants[part]
            end = array.ctypes.data - page.ctypes.data + array.nbytes
            page[: end - array.nbytes], page[end + SLACK :] = outside, outside
        before, constants = [whole[part].copy() for part in memory], [found.memory.constants[p].copy() for p in consts]
        runner.run()
        for part, was in zip(memory, before, strict=True):
            if np.any((whole[part] != was) & ~(own[part] | scratch[part])):
                return 3
        if any(np.any(found.memory.constants[p] != was) for p, was in zip(consts, constants, strict=True)):
            return 3
        results.append([whole[part][own[part]].copy() for part in memory])
    return 4 * any(np.any(a != b) for a, b in zip(*results, strict=True))


def _pages(memory: np.ndarray, at: int, nbytes: int) -> slice:
    """The pages of a block, all of which may be touched."""
    page = mmap.PAGESIZE
    return slice(at // page * page, -(-(at + nbytes) // page) * page)


def _masks(found: Executable, step: Step, changed: Step) -> list[np.ndarray]:
    """Bytes of the node's results, of scratch memory, and of what the node reads, with what is behind it."""
    own, scratch, reads = (np.zeros(found.memory.arena.size, bool) for _ in range(3))
    for values, mask in ((step.node.outputs, own), (read_by(step.node), reads)):
        for value in values:
            if value in found.program.storage and found.program.storage[value].root in found.memory.offsets:
                at, dims, dtype = found.program.storage[value], value.type.dims, value.type.dtype
                assert dtype is not None
                strides = (*byte_strides(dims, dtype.itemsize, at.stride), 1)
                start = found.memory.offsets[at.root] + at.offset
                np.ndarray((*dims, dtype.itemsize), bool, mask, start, strides)[...] = True
    reads[SLACK:] |= np.logical_or.reduce([reads[SLACK - n : len(reads) - n] for n in range(1, SLACK + 1)])
    for arg in (*step.words(), *changed.words()):
        if isinstance(arg, Ref) and isinstance(arg.base, Scratch):
            scratch[found.memory.offsets[arg.base] : found.memory.offsets[arg.base] + arg.base.nbytes] = True
    return [own, scratch, reads]


def main(first: int, count: int, isa: str | None = None) -> None:
    tier, counts = choose(isa), Counter[str]()
    names = [name for name in GRAPHS if not name.startswith("amx") or not tier.tiles]
    for number in range(first, first + count):
        rng = random.Random(number)
        name = rng.choice(names)
        found = plan(name, tier)
        at = rng.choice([i for i, step in enumerate(found.program.steps) if isinstance(step, Step)])
        step = found.program.steps[at]
        assert isinstance(step, Step)
        changed, what = mutated(rng, found, step)
        says = accepted(found, at, changed)
        done = harm(found, step, changed)
        counts[f"{'rejected' if says else 'accepted'} {done or 'harmless'}"] += 1
        if done and not says:
            wrong = {"mutant": number, "graph": name, "kernel": str(step.kernel), **what, "does": done}
            print(json.dumps(wrong), flush=True)
    print(json.dumps({"counts": counts}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4])

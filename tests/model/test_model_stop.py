"""A model's run ends by its timeout and by Ctrl-C, also in loops that have no end; the model can be run again."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import parser

import fastgraph as fg
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.plan.program import HostStep
from fastgraph.runtime.model import Model
from tests.circle.write import Model as Flat
from tests.mil.mil_write import Program
from tests.nets import F32, Net

SIGNALS = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX signals")
BY_BOTH = pytest.mark.parametrize("how", ["timeout", pytest.param("interrupt", marks=SIGNALS)])


@contextmanager
def interrupted(seconds: float, handler: Any = signal.default_int_handler) -> Iterator[None]:
    """What Ctrl-C does, in some seconds."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stopped(run: Callable[..., Any], how: str) -> None:
    """A run by its timeout; runs one after the other by Ctrl-C."""
    if how == "timeout":
        with pytest.raises(fg.RunTimeout, match=r"took longer than timeout=0\.005 s") as caught:
            run(timeout=0.005)
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, fg.FastgraphError)
    else:
        with pytest.raises(KeyboardInterrupt), interrupted(0.05):
            while True:
                run()


# -- networks that take long, and those that take for ever


X = np.random.default_rng(1).standard_normal((256, 1024)).astype(F32)


@cache
def slow(products: int = 20, host: bool = False) -> bytes:
    """Matrix products that take many milliseconds, with NumPy steps between them if wanted."""
    net = Net()
    x, w = net.input("x", X.shape), net.weight(1024, 1024)
    for i in range(products):
        x = net("MatMul", x, w)
        if host and i % 10 == 0:
            corner = net("Slice", x, [0, 0], [4, 4])
            x = net("Add", x, net("Mul", net("Det", corner), 0.0))
    net.output(x)
    return net.bytes()


@cache
def model_of(threads: int, host: bool = False) -> fg.Model:
    return fg.load(slow(host=host), threads=threads)


def onnx_loop(body: str) -> bytes:
    """A loop without a number of rounds, whose condition stays true."""
    return parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        endless (float[2] x) => (float[2] y) {{
            on = Constant<value = bool {{1}}>()
            y = Loop("", on, x) <body = round (int64 turn, bool go, float[2] a) => (bool on_, float[2] b) {{ {body} }}>
        }}""").SerializeToString()


def tflite_while() -> bytes:
    m = Flat()
    test = m.graph()
    x = m.input((1,))
    m.now["outputs"] = m.op("LESS", [x, m.const(np.array([100], F32))], [((1,), np.bool_)])
    body = m.graph()
    x = m.input((1,))
    m.now["outputs"] = m.op("MUL", [x, m.const(np.array([1], F32))], [(1,)])
    m.graphs.append(m.graphs.pop(0))
    x = m.input((1,))
    m.now["outputs"] = m.op("WHILE", [x], [(1,)], cond_subgraph_index=test, body_subgraph_index=body)
    m.graphs.insert(0, m.graphs.pop())
    return m.bytes()


def mil_while() -> bytes:
    p = Program()
    x = p.input("x", (1,))

    def test() -> str:
        return p.op("less", "t", x="v", y=np.float32(100), types=("BOOL", (1,)))

    def body() -> str:
        return p.op("mul", "n", x="v", y=np.float32([1]), types=("FLOAT32", (1,)))

    blocks = [p.block(build, [("v", ("FLOAT32", (1,)))]) for build in (test, body)]
    p.op("while_loop", ["w"], types=[("FLOAT32", (1,))], loop_vars=[x], blocks=blocks)
    p.output("w")
    return p.zip()


NOTHING = "on_ = Identity(go) b = Identity(a)"
INNER = """on_ = Identity(go)
    b = Loop("", go, a) <body = i (int64 t, bool g, float[2] c) => (bool h, float[2] d) {h = Identity(g) d = Neg(c)}>"""
ENDLESS = {
    "onnx": lambda: onnx_loop("on_ = Identity(go) b = Neg(a)"),
    "onnx, nothing in it": lambda: onnx_loop(NOTHING),
    "onnx, a loop in a loop": lambda: onnx_loop(INNER),
    "tflite": tflite_while,
    "mil": mil_while,
}


# -- stopped, and run again


@BY_BOTH
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("host", [False, True])
def test_a_long_run_is_stopped_and_the_next_one_is_right(how: str, threads: int, host: bool) -> None:
    model = model_of(threads, host)
    assert any(isinstance(step, HostStep) for step in model.plan.program.steps) == host
    expected = model(X)
    stopped(lambda **options: model.run({"x": X + 1}, **options), how)
    np.testing.assert_array_equal(model(X), expected)
    np.testing.assert_array_equal(model(X, timeout=1000), expected)
    assert np.float32(1.5e-38) * np.float32(0.5) > 0


@SIGNALS
@pytest.mark.parametrize("threads", [1, 2])
def test_execute_is_stopped_by_ctrl_c(threads: int) -> None:
    model = model_of(threads)
    expected = model(X)
    model.input("x")[...] = X
    with pytest.raises(KeyboardInterrupt), interrupted(0.05):
        while True:
            model.execute()
    model.execute()
    np.testing.assert_array_equal(model.output(model.outputs[0].name), expected)


@BY_BOTH
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_loop_without_end_is_stopped(kind: str, how: str) -> None:
    model = fg.load(ENDLESS[kind](), threads=1)
    (spec,) = model.inputs
    for _ in range(2):
        stopped(lambda **options: model.run({spec.name: np.ones(spec.shape, F32)}, **options), how)
    if "onnx" not in kind:
        np.testing.assert_array_equal(model(np.full(spec.shape, 200, F32)), np.full(spec.shape, 200, F32))


@BY_BOTH
def test_a_scan_and_a_sequence_map_are_stopped(how: str) -> None:
    rounds = 1_000_000
    scan = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        long (float[2] x, float[{rounds}] many) => (float[2] y) {{
            y = Scan(x, many) <num_scan_inputs = 1,
                body = round (float[2] a, float[] one) => (float[2] b) {{ b = Add(a, one) }}>
        }}""")
    each = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        long (float[N] x) => (seq(float[1]) y) {
            parts = SplitToSequence(x)
            y = SequenceMap(parts) <body = one (float[1] a) => (float[1] b) { b = Neg(a) }>
        }""")
    model = fg.load(scan.SerializeToString(), threads=1)
    stopped(lambda **o: model.run({"x": np.zeros(2, F32), "many": np.zeros(rounds, F32)}, **o), how)
    model = fg.load(each.SerializeToString(), threads=1)
    stopped(lambda **o: model.run({"x": np.zeros(rounds, F32)}, **o), how)
    assert len(model(np.zeros(3, F32))) == 3


CTRL_C = """
import os, signal, sys, threading, numpy as np, fastgraph as fg
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background may have it ignored
model = fg.load(sys.stdin.buffer.read(), threads=int(sys.argv[1]))
(spec,) = model.inputs
x = {spec.name: np.ones(spec.shape, np.float32)}
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True: model.run(x)
except KeyboardInterrupt:
    print("stopped")
"""


@SIGNALS
@pytest.mark.parametrize("kind", ["onnx", "slow"])
def test_ctrl_c_from_outside(kind: str) -> None:
    """As a terminal sends it, with the interpreter's own handler."""
    source = slow() if kind == "slow" else ENDLESS[kind]()
    done = subprocess.run([sys.executable, "-c", CTRL_C, "2"], input=source, capture_output=True, timeout=60)
    assert done.stdout.decode().split() == ["stopped"], done.stderr.decode()


# -- states


def counting(tail: bool) -> Graph:
    """Two states count runs, one up and one down; x goes through many products after they were read."""
    x = Value("x", TensorType(np.dtype(F32), X.shape))
    up, down = (Value(n, TensorType(np.dtype(F32), (1000,))) for n in ("up", "down"))
    one, w = Value.constant("one", F32.type(1)), Value.constant("w", np.eye(1024, dtype=F32))
    more, less = Value("more"), Value("less")
    nodes = [Node("add", [up, one], [more]), Node("sub", [down, one], [less])]
    last = x
    for i in range(8):
        nodes.append(Node("matmul", [last, w], [last := Value(f"p{i}")]))
    outputs = [last, more, less]
    if tail:
        nodes.append(Node("non_zero", [last], [found := Value("found")]))
        outputs.append(found)
    graph = Graph("counting", [x], outputs, nodes)
    graph.states = [State(up, more, np.zeros(1000, F32)), State(down, less, np.zeros(1000, F32))]
    return graph


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("tail", [False, True])
def test_a_stopped_run_leaves_states_as_they_were(tail: bool, threads: int) -> None:
    """Wherever it is stopped; with a part whose shapes depend on data, too."""
    model, x = Model(counting(tail), choose(None), threads), np.ones(X.shape, F32)
    started = time.perf_counter()
    model.run({"x": x})
    seconds, done = time.perf_counter() - started, 1
    for i in range(24):
        try:
            found = model.run({"x": x}, timeout=seconds * i / 16)
        except fg.RunTimeout:
            continue
        done += 1
        assert (found["more"] == done).all() and (found["less"] == -done).all()
    assert done < 25
    found = model.run({"x": x})
    assert (found["more"] == done + 1).all() and (found["less"] == -done - 1).all()


# -- the argument


@pytest.mark.parametrize(
    "timeout",
    [-1, -1e-9, float("nan"), float("-inf"), "1", b"1", [1], True, 1j, np.float32("nan"), np.ones(2), object()],
)
def test_what_is_no_time_is_refused(timeout: Any) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (2,))))
    model, x = net.load(), np.array([-1, 2], F32)
    with pytest.raises(fg.InputError, match="timeout="):
        model.run({"x": x}, timeout=timeout)
    with pytest.raises(fg.InputError, match="timeout="):
        model(x, timeout=timeout)
    assert model(x).tolist() == [0, 2]


@pytest.mark.parametrize(
    "timeout", [1000, 1e300, 10**400, float("inf"), np.float32(1e3), np.int64(1000), Fraction(9, 2), None]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_time_enough(timeout: Any, threads: int) -> None:
    net = Net()
    net.output(net("CumSum", net("Relu", net.input("x", (2,))), 0))
    model, x = net.load(threads=threads), np.array([-1, 2], F32)
    assert model.run({"x": x}, timeout=timeout)["v1"].tolist() == model(x, timeout=timeout).tolist() == [0, 2]


def test_no_time_at_all() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (2,))))
    model, x = net.load(), np.array([-1, 2], F32)
    with pytest.raises(fg.RunTimeout, match="timeout=0 s"):
        model.run({"x": x}, timeout=0)
    assert model(x).tolist() == [0, 2]


# -- several threads, and handlers of signals


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_is_late_and_the_other_is_not(threads: int) -> None:
    """Both run one model; what one waits for the other counts, and neither sees the other's deadline."""
    model = model_of(threads)
    expected, over, late = model(X), threading.Event(), []

    def hurry() -> None:
        while not over.is_set():
            try:
                model.run({"x": -X}, timeout=0.001)
            except fg.RunTimeout as error:
                late.append(error)

    other = threading.Thread(target=hurry)
    other.start()
    try:
        for _ in range(8):
            np.testing.assert_array_equal(model(X), expected)
    finally:
        over.set()
        other.join()
    assert late


@SIGNALS
@pytest.mark.parametrize("threads", [1, 2])
def test_a_handler_may_run_another_model_but_not_the_one_it_interrupts(threads: int) -> None:
    model, other = model_of(threads), fg.load(slow(3), threads=threads)
    expected, small, seen = model(X), other(X), []

    def handle(*_: object) -> None:
        seen.append(bool((other(X) == small).all()))
        try:
            model(X)
        except fg.FastgraphError as error:
            seen.append("handler of a signal" in str(error))

    with interrupted(0.01, handle):
        while not seen:
            np.testing.assert_array_equal(model(X), expected)
    assert seen[0] and all(seen)

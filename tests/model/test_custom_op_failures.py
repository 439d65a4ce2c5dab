"""What goes wrong with operators of users, and what goes on beside them."""

import os
import threading
import time
from typing import Any

import numba
import numpy as np
import pytest
from flatbuffers.flexbuffers import Dumps

import fastgraph as fg
from fastgraph.ops.registry import OPS, USERS
from tests.circle.write import Model
from tests.custom_ops import (
    DOMAIN,
    F32,
    I64,
    between,
    forgotten,  # noqa: F401
    numbers,
    register,
    same,
    single,
    squash,
    squashed,
    with_domain,
)
from tests.mil.mil_write import Program
from tests.nets import Net
from tests.processes import python
from tests.threads import at_once


def slow(x, y, rounds=1):
    total = 0.0
    for k in range(rounds):
        total += np.sin(float(k)) * x.flat[0]
    y.flat[0] = total


def slow_net(rounds: int, after: bool = True) -> Net:
    net = Net()
    y = net("Slow", net.input("x", (4,)), domain=DOMAIN, rounds=rounds)
    net.output(net("Relu", y) if after else y)
    return net


def rounds_of(seconds: float) -> int:
    model, rounds = slow_net(1_000_000).load(), 1_000_000
    model(numbers(4))
    began = time.perf_counter()
    model(numbers(4))
    return int(rounds * seconds / (time.perf_counter() - began))


@pytest.mark.slow
def test_the_interpreter_goes_on_meanwhile() -> None:
    register("Slow", slow)
    model = slow_net(rounds_of(0.5)).load()
    done, turns = [], 0

    def run() -> None:
        model(numbers(4))
        done.append(True)

    runner = threading.Thread(target=run)
    runner.start()
    while not done:
        turns += 1
        time.sleep(0.001)
    runner.join()
    assert turns > 10


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False], ids=["not the last", "the last"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_timeout_is_noticed_after_the_step(threads: int, after: bool) -> None:
    register("Slow", slow)
    model = slow_net(rounds_of(0.3), after).load(threads=threads)
    with pytest.raises(fg.RunTimeout):
        model.run({"x": numbers(4)}, timeout=0.05)
    model.run({"x": numbers(4)}, timeout=60)


def test_threads_compile_at_once() -> None:
    """As do kernels of the plan's own: a tier's are compiled by parts of numba's of which there is one."""
    register()
    found: list[float] = []

    def run(axes: int) -> None:
        found.append(float(between((2,) * axes).load()(np.full((2,) * axes, -1, F32)).flat[0]))

    at_once(run, [1 + i % 3 for i in range(6)])
    assert found == [0.5] * 6 and len(USERS[DOMAIN, "Squash"].kernels) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_runs_and_compiles() -> None:
    register()
    model = between((4,)).load(threads=2)
    x = np.full(4, -1, F32)
    assert model(x).tolist() == [0.5] * 4
    child = os.fork()
    if not child:
        try:
            fine = model(x).tolist() == [0.5] * 4 and between((4, 1)).load()(x[:, None]).tolist() == [[0.5]] * 4
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_two_models_at_once() -> None:
    register()
    models = [between((8, 50, 7)).load(threads=threads) for threads in (1, 2)]
    wrong: list[Any] = []

    def run(model: Any, seed: int) -> None:
        for turn in range(50):
            x = numbers(8, 50, 7, seed=seed + turn)
            if not np.allclose(model(x), np.maximum(squashed(-x), 0), rtol=1e-6):
                wrong.append(seed)

    at_once(run, models, range(len(models)))
    assert not wrong


def test_an_exception_of_a_kernel_is_the_run_s() -> None:
    def checked(x, y):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("no roots below 0")
            y[i] = np.sqrt(x[i])

    register("Roots", checked)
    net = Net()
    y = net("Roots", net("Neg", net.input("x", (4,))), domain=DOMAIN)
    net.output(net("Neg", net("Relu", y)))
    for threads in (1, 2):
        model = net.load(threads=threads)
        fine = np.float32([-1, -4, -9, -16])
        for _ in range(2):
            np.testing.assert_allclose(model(fine), [-1, -2, -3, -4])
            with pytest.raises(
                fg.InputError, match=r"node Roots_1: my.domain.Roots: .*ValueError: no roots below 0.*line \d+"
            ):
                model(-fine)
        with pytest.raises(fg.InputError, match="no roots below 0"):
            model.run({"x": -fine}, timeout=9)
        with pytest.raises(fg.FastgraphError, match="no roots below 0"):
            fg.verify(model, {"x": -fine})
    with pytest.raises(fg.InputError, match="no roots below 0"):
        net.load(isa="numpy")(-fine)


@pytest.mark.slow
def test_a_failed_run_leaves_variables_alone() -> None:
    def checked(x, y, rounds=1):
        if x[0] < 0:
            raise ValueError("below 0")
        total = 0.0
        for k in range(rounds):
            total += np.sin(float(k))
        y[0] = x[0] + 0 * total

    register("Checked", checked)
    m = Model()
    v, x = m.variable((1,)), m.input((1,), name="x")
    (y,) = m.op("Checked", [m.op("ADD", [x, v], [(1,)])[0]], [(1,)], custom=bytes(Dumps({"rounds": 20_000_000})))
    m.op("ADD", [m.const(np.float32([1])), v], [v])
    model = fg.load(m.bytes([y]), threads=1)
    assert model(np.float32([5])) == 5
    for _ in range(2):
        with pytest.raises(fg.InputError, match="below 0"):
            model(np.float32([-9]))
    with pytest.raises(fg.RunTimeout):
        model.run({"x": np.float32([5])}, timeout=0.01)
    assert model(np.float32([5])) == 6


def test_what_failed_first_is_what_is_said() -> None:
    """An index out of range before a kernel that raises on what came of it; and one behind a kernel that is fine."""

    def checked(x, y):
        for i in range(x.size):
            if not abs(x[i]) < 100:
                raise ValueError("too much")
            y[i] = x[i]

    register("Checked", checked)
    net = Net()
    rows = net("Gather", [1.0, 2.0, 3.0], net.input("i", (2,), I64))
    net.output(net("Checked", net("Mul", rows, net.input("x", (2,))), domain=DOMAIN))
    for threads in (1, 2):
        model = net.load(threads=threads)
        assert model(np.int64([0, 1]), np.float32([1, 2])).tolist() == [1, 4]
        with pytest.raises(fg.InputError, match="gather takes -3 to 2") as error:
            model(np.int64([0, 7]), np.float32([1, 1]))
        assert "raised" not in str(error.value)
        with pytest.raises(fg.InputError, match="too much"):
            model(np.int64([0, 1]), np.float32([1, np.nan]))


def test_shapes_that_hang_on_data_where_infer_wants_numbers() -> None:
    def longer(x, y):
        for i in range(x.size):
            y[i] = x.flat[i]

    register("Longer", longer, lambda types, attrs: [fg.TensorType(np.float32, (types[0].shape[1] + 1,))])
    net = Net()
    places = net("NonZero", net.input("x", (8,)))
    net.output(net("Relu", net("Longer", net("Cast", places, to=1), domain=DOMAIN)))
    x = np.float32([0, 1, 0, 2, 3, 0, 0, 4])
    for isa in (None, "numpy"):
        assert net.load(isa=isa)(x).tolist() == [1, 3, 4, 7, 0]


def test_indices_out_of_range_are_found_where_checks_are_on() -> None:
    def beyond(x, y):
        y[0] = x[x.shape[0]]

    register("Beyond", beyond)
    with pytest.raises(fg.InputError, match="IndexError"):
        single("Beyond", (4,)).load()(numbers(4))
    with pytest.raises(fg.FastgraphError, match="IndexError"):
        fg.verify(single("Beyond", (4,)).load(), {"x0": numbers(4)})


def test_what_numba_refuses_is_said_in_its_words() -> None:
    def refused(x, y):
        z = x
        y[0] = z.no_such_thing

    register("Refused", refused)
    line = refused.__code__.co_firstlineno
    with pytest.raises(fg.CompilerError) as error:
        single("Refused", (4,)).load()
    text = str(error.value)
    assert "node Refused_0: my.domain.Refused: numba can't compile its kernel refused" in text
    assert f"test_custom_op_failures.py, line {line + 2}" in text and "native=False" in text
    assert "Unknown attribute 'no_such_thing'" in text


def test_operands_can_not_be_written() -> None:
    def greedy(x, y):
        x[0] = 1
        y[0] = 1

    register("Greedy", greedy)
    with pytest.raises(fg.CompilerError, match="Cannot modify readonly array"):
        single("Greedy", (4,)).load()
    with pytest.raises(fg.InputError, match="read-only"):
        single("Greedy", (4,)).load(isa="numpy")(numbers(4))


def test_results_are_written_not_returned() -> None:
    register("Given", lambda x, y: x + 1)
    with pytest.raises(fg.CompilerError, match="(?s)it returns array.*: it is to write into its last parameters"):
        single("Given", (4,)).load()
    with pytest.raises(fg.InputError, match="returned a ndarray: it is to write"):
        single("Given", (4,)).load(isa="numpy")(numbers(4))


def test_text_is_not_native() -> None:
    def upper(x, y):
        for i in range(x.size):
            y.flat[i] = x.flat[i].upper()

    register("Upper", upper)
    net = single("Upper", (2,), kinds=[np.dtype(object)], dtype=None)
    with pytest.raises(fg.UnsupportedError, match="native=False"):
        net.load()
    register("Upper", upper, native=False, replace=True)
    assert net.load()(np.array(["a", "b"], object)).tolist() == ["A", "B"]


@pytest.mark.parametrize(
    ("infer", "says"),
    [
        (lambda types, attrs: [], "gives 0 types: expected 1"),
        (lambda types, attrs: [types[0]] * 2, "gives 2 types: expected 1"),
        (lambda types, attrs: types[0], "expected a list of fastgraph.TensorType"),
        (lambda types, attrs: [types[0].shape], "expected a list of fastgraph.TensorType"),
        (lambda types, attrs: [fg.TensorType("nonsense", (4,))], "is no type"),
        (lambda types, attrs: [fg.TensorType(np.float32, (4.5,))], "is no type"),
        (lambda types, attrs: [fg.TensorType(np.float32, (-4,))], "negative extent"),
        (lambda types, attrs: [fg.TensorType(np.float32, (None,))], "depend on data.*the most"),
        (lambda types, attrs: [fg.TensorType(None, (4,))], "depend on data.*the most"),
        (lambda types, attrs: 1 / 0, r"its infer raised ZeroDivisionError.*test_custom_op_failures.py, line"),
        (lambda types: types, "its infer raised TypeError"),
    ],
)
def test_what_infer_gives_is_checked(infer: Any, says: str) -> None:
    register(infer=infer)
    with pytest.raises(fg.ModelError, match=f"<bytes>: node Squash_0: my.domain.Squash: .*{says}"):
        single("Squash", (4,)).load()


@pytest.mark.parametrize(
    ("kernel", "found"), [
        (lambda x: None, r"1 \+ 1 arrays and alpha, found \(x\)"),
        (lambda x, b, c, y: None, r"1 \+ 1 arrays"),
        (lambda x, y: None, r"unexpected keyword argument 'alpha'"),
        (lambda x, alpha: None, r"1 \+ 1 arrays"),
        (lambda x, y, alpha, *, beta: None, r"missing a required argument: 'beta'|missing a required keyword-only"),
        (lambda x, y=None, alpha=0: None, r"1 \+ 1 arrays"),
    ],
)  # fmt: skip
def test_a_kernel_of_other_parameters(kernel: Any, found: str) -> None:
    register(kernel=kernel)
    with pytest.raises(fg.FastgraphError, match=f"(?s)Squash.*{found}"):
        single("Squash", (4,), alpha=1.0).load()


def test_defaults_are_what_attributes_may_be() -> None:
    def scaled(x, y, factor=np.float32(2)):  # noqa: B008
        for i in range(x.size):
            y[i] = x[i] * factor

    register("Scaled", scaled)
    np.testing.assert_array_equal(single("Scaled", (2,)).load()(np.float32([1, 2])), [2, 4])

    def worse(x, y, factor=np.ones(2)):  # noqa: B008
        y[0] = factor[0]

    register("Worse", worse)
    with pytest.raises(fg.ModelError, match="attribute 'factor' is a ndarray"):
        single("Worse", (2,)).load()


def test_an_exception_within_a_loop_names_the_node() -> None:
    def checked(x, y):
        for i in range(x.size):
            if x[i] > 2:
                raise ValueError("too much")
            y[i] = x[i] + 1

    register("Checked", checked)
    body = Net(prefix="b")
    body.input("i", (), I64)
    body.input("on", (), bool)
    body.output(body("Identity", "on"), dtype=bool)
    body.output(body("Checked", body.input("v", (4,)), domain=DOMAIN))
    net = Net()
    net.output(net("Loop", 5, True, net.input("x", (4,)), body=body.graph()))
    model = fg.load(with_domain(net), threads=1)
    for _ in range(2):
        with pytest.raises(
            fg.InputError, match="node Checked_1: .*its kernel raised an exception: load with isa='numpy'"
        ):
            model(np.zeros(4, F32))
        assert model(np.full(4, -9, F32)).tolist() == [-4] * 4


def test_bad_registrations() -> None:
    register()
    with pytest.raises(
        fg.InputError, match=r"'Squash' of domain 'my.domain' is registered already, as squash .*replace=True"
    ):
        register()
    register(replace=True)
    for domain, name, infer, kernel, says in (
        (3, "A", same, squash, "expected a domain"),
        (DOMAIN, "", same, squash, "expected a domain"),
        (DOMAIN, None, same, squash, "expected a domain"),
        (DOMAIN, "A", None, squash, "expected infer to be a function"),
        (DOMAIN, "A", same, "squash", "expected kernel to be a function"),
        (DOMAIN, "A", same, np.sin, "expected its kernel to be a Python function"),
    ):
        with pytest.raises(fg.InputError, match=says):
            fg.register_custom_op(domain, name, infer=infer, kernel=kernel)  # type: ignore[arg-type]
    with pytest.raises(fg.InputError, match="can't be known"):
        fg.register_custom_op(DOMAIN, "A", infer=same, kernel=min, native=False)


def test_a_model_keeps_the_function_it_was_loaded_with() -> None:
    register()
    old = between(("n", 2, 2)).load()
    register(kernel=lambda x, y: None, replace=True)
    x = numbers(3, 2, 2)
    np.testing.assert_allclose(old(x), np.maximum(squashed(-x), 0), rtol=1e-6)
    assert not between((3, 2, 2)).load()(x).any()


def test_files_that_need_one_say_so() -> None:
    m, p = Model(), Program()
    p.output(p.op("custom_layer", "c", x=p.input("x", (1, 4)), class_name=np.array("Mine", object)))
    for data, name in (
        (between().bytes(), "my.domain.Squash"),
        (m.bytes(m.op("Squash", [m.input((4,))], [(4,)], custom=b"")), "custom operator 'Squash'"),
        (p.zip(), "custom layer Mine"),
    ):
        with pytest.raises(fg.UnsupportedError, match=f"(?s){name}.*fastgraph.register_custom_op"):
            fg.load(data)


def test_without_numba_it_is_named(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(between().bytes())
    script = f"""
import sys
sys.modules.update(numba=None)
import fastgraph as fg
def squash(x, y):
    y[...] = x / (1 + abs(x))
register = lambda **more: fg.register_custom_op("my.domain", "Squash", infer=lambda t, a: [t[0]], kernel=squash, **more)
register()
try:
    fg.load({str(path)!r}, threads=1)
except fg.CompilerError as error:
    assert "numba, which can't be imported" in str(error) and "Squash" in str(error), error
else:
    raise AssertionError
register(native=False, replace=True)
fg.load({str(path)!r}, threads=1, isa="numpy").run({{"x": [[[1.0] * 3] * 5] * 2}})
"""
    python("-c", script)


@pytest.mark.slow
def test_numba_is_imported_for_what_is_compiled_alone(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(between().bytes())
    script = f"""
import sys
import fastgraph as fg
from fastgraph.demo import MODEL
fg.load(MODEL, threads=1)
fg.register_custom_op("my.domain", "Squash", infer=lambda t, a: [t[0]], kernel=lambda x, y: None)
modules = [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")]
fg.load(MODEL, threads=1)
fg.load({str(path)!r}, threads=1, isa="numpy")
assert modules == [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")]
fg.load({str(path)!r}, threads=1)
assert "numba" in sys.modules
"""
    python("-c", script)


def test_names_of_users_are_no_operators_of_the_graph() -> None:
    fg.register_custom_op(None, "relu", infer=same, kernel=squash)
    assert OPS["relu"].name == "relu" and USERS["", "relu"].text == "custom.relu"


def into_flat(x, y):
    x.flat[0] = 1


def into_items(x, y):
    for item in np.nditer(x):
        item[...] = 2


def filled(x):
    x.flat[0] = 3


@pytest.mark.parametrize("kernel", [into_flat, into_items], ids=lambda kernel: kernel.__name__)
def test_operands_cannot_be_written_past_numbas_own_check(kernel: Any) -> None:
    fg.register_custom_op(DOMAIN, "Writes", infer=lambda types, attrs: [types[0]], kernel=kernel, replace=True)
    net = Net()
    net.output(net("Writes", net.input("x", (4,)), domain=DOMAIN))
    line = kernel.__code__.co_firstlineno
    with pytest.raises(fg.CompilerError, match="readonly array") as error:
        net.load()(np.zeros(4, np.float32))
    assert f"line {line + 1}" in str(error.value) or f"line {line + 2}" in str(error.value)


def test_what_a_helper_writes_counts_too() -> None:
    helper = numba.njit(filled)

    def kernel(x, y):
        helper(x)

    fg.register_custom_op(DOMAIN, "Writes", infer=lambda types, attrs: [types[0]], kernel=kernel, replace=True)
    net = Net()
    net.output(net("Writes", net.input("x", (4,)), domain=DOMAIN))
    with pytest.raises(fg.CompilerError, match="readonly array"):
        net.load()(np.zeros(4, np.float32))


@pytest.mark.slow
def test_kernels_behind_one_that_raised_are_not_called() -> None:
    def refuses(x, y):
        if x[0] <= 0:
            raise ValueError("nothing to do")
        y[0] = x[0]

    def waits(x, y):
        total = np.float32(0)
        while total < 10:
            total += x[0]
        y[0] = total

    for name, kernel in (("Refuses", refuses), ("Waits", waits)):
        fg.register_custom_op(DOMAIN, name, infer=lambda types, attrs: [types[0]], kernel=kernel, replace=True)
    net = Net()
    net.output(net("Waits", net("Refuses", net.input("x", (4,)), domain=DOMAIN), domain=DOMAIN))
    model = net.load()
    with pytest.raises(fg.InputError, match="ValueError"):
        model(np.zeros(4, np.float32))
    assert model(np.ones(4, np.float32))[0] == 10


def test_constants_cannot_be_written_by_infer_and_types_must_be_of_tensors() -> None:
    def writes(types, attrs):
        types[1].data[0] = 7
        return [types[0]]

    net = Net()
    net.output(net("Bad", net.input("x", (4,)), [1.0, 2.0], domain=DOMAIN))
    for infer, said in ((writes, "read-only"), (lambda types, attrs: [fg.TensorType(">f4", (4,))], "no tensor has")):
        fg.register_custom_op(DOMAIN, "Bad", infer=infer, kernel=lambda x, c, y: None, replace=True)
        with pytest.raises(fg.FastgraphError, match=said):
            net.load()


def test_a_generator_is_no_kernel() -> None:
    def kernel(x, y):
        yield 1

    with pytest.raises(fg.InputError, match="yields"):
        fg.register_custom_op(DOMAIN, "Yields", infer=lambda types, attrs: [types[0]], kernel=kernel)

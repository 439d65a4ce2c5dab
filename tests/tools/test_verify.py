"""`verify` names the step whose kernel is wrong, and no other; and finds nothing where nothing is."""

import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.extras import doubles
from fastgraph.freedoms import thresholds
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import choose, has_pairs, multiplies_pairs
from fastgraph.passes import explicit_quantization
from fastgraph.passes.decompositions import rare_functions
from fastgraph.plan.lower.registry import LOWERINGS, Lowering
from fastgraph.runtime import stepwise
from fastgraph.runtime.model import Model
from fastgraph.tools import verify
from fastgraph.tools.agreement import HYBRID_TOLERANCE
from fastgraph.tools.engines import Unavailable
from fastgraph.tools.operators import tally
from tests.circle.write import Model as Tflite
from tests.nets import F32, Net, feeds_for
from tests.plan.control_nets import body
from tests.quantized_blocks import QDQ
from tests.random_nets import Case, examples, networks

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "models"


def mixed() -> Net:
    """Convolutions, what moves, what NumPy computes, a sum along rows."""
    net = Net()
    x = net.input("x", (1, 3, 8, 8))
    y = net("Relu", net("Conv", x, net.weight(8, 3, 3, 3), net.weight(8), pads=[1] * 4))
    z = net("Sub", net("Sigmoid", y), net("Neg", y))
    parts = net("Split", net("Transpose", z, perm=[0, 2, 3, 1]), outputs=2, axis=3)
    w = net("Concat", parts[1], parts[0], axis=3)
    net.output(net("Softmax", net("MatMul", net("Det", w), net.weight(8, 4))), net("ReduceSum", w, [1]))
    return net


def banded() -> Net:
    net = Net()
    y = net("Relu", net("Conv", net.input("x", (1, 8, 11, 9)), net.weight(32, 8, 1, 1), net.weight(32)))
    y = net("Relu", net("Conv", y, net.weight(32, 1, 3, 3), net.weight(32), pads=[1] * 4, group=32))
    net.output(net("Conv", y, net.weight(16, 32, 1, 1), net.weight(16)))
    return net


def quantized() -> bytes:
    """Bytes through a convolution, an addition, an average and a softmax."""
    m, rng, q = Tflite(), np.random.default_rng(0), (0.05, -3)
    x = m.input((1, 6, 6, 4), np.int8, q)
    w = m.const(rng.integers(-99, 99, (8, 3, 3, 4)).astype(np.int8), (rng.uniform(0.001, 0.01, 8), [0] * 8, 0))
    b = m.const(rng.integers(-999, 999, 8).astype(np.int32), (0.05, 0))
    (y,) = m.op("CONV_2D", [x, w, b], [((1, 6, 6, 8), np.int8, q)], stride_w=1, stride_h=1, padding="SAME")
    (z,) = m.op("ADD", [y, y], [((1, 6, 6, 8), np.int8, (0.1, 5))])
    (a,) = m.op("MEAN", [z, m.const(np.int32([1, 2]))], [((1, 8), np.int8, (0.1, 5))])
    return m.bytes(m.op("SOFTMAX", [a], [((1, 8), np.int8, (1 / 256, -128))], beta=1.0))


def summing() -> Model:
    """y = x + what was added up before; the second state is what the first was."""

    def value(name: str) -> Value:
        return Value(name, TensorType(F32, (3,)))

    x, total, last, new = map(value, ("x", "total", "last", "new"))
    graph = Graph("sum", [x], [new], [Node("add", [x, total], [new])])
    graph.states = [State(total, new, np.zeros(3, F32)), State(last, total, np.zeros(3, F32))]
    return Model(graph, choose(None), 1)


def late() -> fg.Model:
    """What follows NonZero is computed by NumPy, and so are texts."""
    net = Net()
    x = net.input("x", (4, 3))
    net.output(net("GatherND", x, net("Transpose", net("NonZero", net("Relu", x)), perm=[1, 0])), net("Exp", x))
    return net.load()


@pytest.fixture
def models() -> Iterator[dict[str, Any]]:
    with thresholds(bands_worth=1, bands_budget=1 << 13):
        yield {
            "mixed": lambda: mixed().load(), "summands": lambda: summands().load(), "banded": lambda: banded().load(),
            "summing": summing, "late": late,
            "quantized": lambda: fg.load(quantized(), threads=1), "two threads": lambda: mixed().load(threads=2),
        }  # fmt: skip


def summands() -> Net:
    """An operand that is no number of its own after all that sums and takes one."""
    net = Net()
    x, z = net.input("x", (1, 4, 8, 8)), net.input("z", (1, 4, 8, 8))
    attrs = {"kernel_shape": [3, 3], "pads": [1] * 4}
    made = [net("Conv", x, net.weight(4, 4, 3, 3), pads=[1] * 4), net("AveragePool", x, **attrs),
            net("ConvTranspose", x, net.weight(4, 4, 1, 1)), net("MatMul", x, net("Sigmoid", x)),
            net("MatMul", x, net.weight(8, 8)), net("MaxPool", x, **attrs)]  # fmt: skip
    net.output(*[net("Add", net("Mul", y, z), z) for y in made])
    net.output(net("Mul", net("ReduceMean", x, axes=[3]), net("ReduceMax", z, axes=[3])))
    return net


def rounded() -> Net:
    """Floats in and out, bytes between: onnxruntime takes some of the roundings out, if it is let."""
    net = Net()
    x, kind = net.input("x", (1, 4, 8, 8)), (net.const(np.float32(0.02)), net.const(np.uint8(128)))
    for _ in range(6):
        x = net("DequantizeLinear", net("QuantizeLinear", x, *kind), *kind)
        x = net("Relu", net("Conv", x, net.weight(4, 4, 3, 3), pads=[1] * 4))
    net.output(x)
    return net


UNCHECKED = {"qdq_residual": 6, "qdq_functions": 12}
"""Operators of QDQ blocks whose kernels round more than once."""
KINDS = ("mixed", "summands", "banded", "summing", "late", "quantized", "two threads")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_differs(kind: str, models: dict[str, Any]) -> None:
    model = models[kind]()
    feeds = None if kind == "quantized" else feeds_for(model)
    report = fg.verify(model, feeds)
    assert report.ok and report.first is None and str(report).endswith("All agree.")
    assert any(step.kernel not in ("view", "numpy") for step in report.steps)
    assert max(step.error for step in report.steps) <= (1 if kind == "quantized" else 1e-6)
    if kind == "mixed":
        assert {"det"} == {step.op for step in report.steps if step.kernel == "numpy"}
        assert any(step.kernel == "view" for step in report.steps)
    if kind == "banded":
        assert any("+" in step.op for step in report.steps)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_step_is_named_and_no_other(kind: str, models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step in turn gives a number that is a little off."""
    model = models[kind]()
    right, real = fg.verify(model), stepwise.single_runs
    found = stepwise.groups(model.plan)
    tried = 0
    for number, (nodes, numbers) in enumerate(found):
        spoilt = [v for node in nodes for v in node.outputs if stepwise.is_held(model.plan, v) and v.type.size]
        if right.steps[number].kernel in ("view", "numpy") or not spoilt:
            continue

        def planted(plan: Any, at: int = numbers[-1], value: Value = spoilt[-1]) -> Iterator[Any]:
            for i, (step, run) in enumerate(real(plan)):

                def wrong(run: Any = run, value: Value = value) -> Any:
                    code, place = run(), plan.memory.array(value)
                    place[(-1,) * place.ndim] += 2 if place.dtype.kind in "iu" else 1e-3 * np.abs(place).max() + 1e-6
                    return code

                yield step, wrong if i == at else run

        monkeypatch.setattr(verify, "single_runs", planted)
        report = fg.verify(model)
        assert [step.ok for step in report.steps] == [i != number for i in range(len(found))]
        assert report.first == report.steps[number] and not report.ok
        assert report.first.error > report.first.allowed
        assert repr(report.first.node)[:20] in str(report) and "They differ." in str(report)
        tried += 1
    assert tried >= {"summing": 2, "late": 2, "banded": 1}.get(kind, 4)


def test_a_wrong_lowering_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    """Differences are taken the other way round."""

    def turned(real: Lowering) -> Lowering:
        def emit(e: Any, node: Node, plan: Any) -> None:
            real.emit(e, Node(node.op, node.inputs[::-1], node.outputs, node.attrs, node.name), plan)

        return real._replace(emit=emit)

    monkeypatch.setitem(LOWERINGS.found, "fused", list(map(turned, LOWERINGS["fused"])))
    net = Net()
    a, b = net.input("a", (2, 3)), net.input("b", (2, 3))
    net.output(net("MatMul", net("Sub", a, b), net.weight(3, 3)))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.bytes())
    report = fg.verify(fg.load(path, threads=1))
    assert report.first is not None and report.first.op == "fused" and report.first.error > 0.1
    assert [step.op for step in report.steps if not step.ok] == ["fused"]
    assert main(["verify", str(path)]) == 1
    assert "fused" in (said := capsys.readouterr().out) and "DIFFERS" in said
    assert main(["verify", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"] and [step["op"] for step in found["steps"] if not step["ok"]] == ["fused"]
    assert main(["verify", str(path), "--against", "onnxruntime"]) == 1
    assert capsys.readouterr().out.count("DIFFERS") == 2, "the kind of kernel, and the output"


def composed() -> Net:
    """Operators that rules write by others, among layers that kernels take in."""
    net = Net()
    x = net.input("x", (1, 4, 8, 8))
    y = net("Relu", net("Conv", x, net.weight(4, 4, 3, 3), net.weight(4), pads=[1] * 4))
    y = net("Add", net("Sinh", net("Mul", y, 3.0)), x)
    y = net("InstanceNormalization", y, np.ones(4, F32), np.zeros(4, F32))
    net.output(net("Conv", net("Asinh", y), net.weight(4, 4, 1, 1)), net("LpNormalization", x, axis=1, p=1))
    return net


@pytest.mark.parametrize("isa", ["generic", "numpy", None])
@pytest.mark.parametrize("op", ["sinh", "asinh"])
def test_a_wrong_rule_is_named_by_its_operator(op: str, isa: str, monkeypatch: pytest.MonkeyPatch, capsys: Any,
                                               tmp_path: Path) -> None:  # fmt: skip
    """All steps do what the rule wrote, and that is another function."""
    right = fg.verify(composed().load(isa=isa))
    assert right.ok and sum(operator.compared for operator in right.operators) >= 6
    real = rare_functions._by_f64
    monkeypatch.setattr(
        rare_functions, "_by_f64", lambda g, name, x, *more: x if name == op else real(g, name, x, *more)
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(composed().bytes())
    report = fg.verify(fg.load(path, isa=isa, threads=1))
    first = report.first_operator
    assert report.first is None and first is not None and first.op == op and not report.ok
    assert first.name.lower().startswith(op) and first.error > 1e-3 > first.allowed
    assert [operator.op for operator in report.operators if not operator.ok] == [op]
    assert first.name in str(report) and "the rule that wrote it so is wrong" in str(report)
    assert main(["verify", str(path), "--json", *(["--isa", isa] if isa else [])]) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["ok"] and [each["op"] for each in said["operators"] if not each["ok"]] == [op]


def test_a_wrong_rule_of_doubles_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    x = net.input("x", (3, 8), np.float64)
    net.output(net("Exp", net("Tanh", x)), dtype=np.float64)
    assert fg.verify(net.load()).ok
    monkeypatch.setattr(doubles, "_tanh", lambda g, x: g.min(x, 1.0))
    assert [o.op for o in fg.verify(net.load()).operators if not o.ok] == ["tanh"]


def test_steps_say_which_operator_of_the_file_they_are_of() -> None:
    report = fg.verify(composed().load())
    origins = {step.origin.split()[0] for step in report.steps if step.origin}
    assert {"sinh", "asinh", "instance_normalization", "lp_normalization"} <= origins


def test_operators_of_bytes_are_compared() -> None:
    """Activations inside are unsigned, and compared as the file has them."""
    report = fg.verify(fg.load(quantized(), threads=1))
    assert report.ok and [o.op for o in report.operators if not o.compared] == []


@pytest.mark.parametrize("name", sorted(QDQ))
def test_every_operator_of_a_quantized_file_is_checked_or_said_not_to_be(name: str) -> None:
    """Layers on integers are compared with the operators that they were made of, up to where their result is stored."""
    net = Net()
    QDQ[name](net)
    report = fg.verify(net.load())
    compared, within, constant, rest = tally(report.operators)
    assert report.ok and compared and compared + within + constant + rest == len(report.operators)
    assert f"{compared} of {len(report.operators)} canonical operators" in str(report)
    assert rest == UNCHECKED.get(name, 0)


def test_a_wrong_layer_on_integers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step differs where the rule that makes layers of integers takes another scale for what they store."""
    net = Net()
    QDQ["qdq_conv_relu"](net)
    real = explicit_quantization.linear_quant

    def twice(node: Node, scale: Any, zero: Any) -> Any:
        return real(node, scale * 2 if node.op == "quantize_linear" and scale > 0.03 else scale, zero)

    monkeypatch.setattr(explicit_quantization, "linear_quant", twice)
    report = fg.verify(net.load())
    assert report.first is None and [o.op for o in report.operators if not o.ok] == ["quantize_linear"]
    assert any(name.startswith("conv ") for name in report.first_operator.within)  # type: ignore[union-attr]


def test_wrong_weights_are_named() -> None:
    model = fg.load(MODEL, threads=1)
    spoilt = max(model.plan.program.constants, key=lambda array: array.nbytes)
    spoilt.reshape(-1)[:64] += np.asarray(1, spoilt.dtype)
    report = fg.verify(model)
    assert len([step for step in report.steps if not step.ok]) == 1


def test_states_are_what_they_were(models: dict[str, Any]) -> None:
    model, ones = summing(), np.ones(3, F32)
    model.run({"x": ones})
    assert fg.verify(model, {"x": ones}).ok and fg.verify(model, {"x": 5 * ones}).ok
    assert model(ones).tolist() == [2, 2, 2]


@pytest.mark.skipif(not multiplies_pairs(choose()), reason="ISA tier avx512 with avx512bf16")
def test_what_was_rounded_for_several_layers_is_not_looked_for_where_it_was() -> None:
    """The first layer's result lies where what both read was."""
    net = Net()
    x = net("Tanh", net.input("x", (4, 33)))
    y = net("Tanh", net("MatMul", x, net.weight(33, 33)))
    net.output(net("MatMul", x, net.weight(33, 8)), net("Softmax", y, axis=-1))
    report = verify.verify(fg.load(net.bytes(), precision="bfloat16"))
    assert report.ok and sum("dot_bf16" in step.kernel for step in report.steps) == 2


@pytest.mark.skipif(not has_pairs(choose()), reason="ISA tier avx512 with avx512bf16")
@pytest.mark.parametrize("act", ["HardSwish", "Sigmoid"])
def test_a_layer_s_rounding_is_allowed_to_what_is_moved_or_computed_of_it(act: str) -> None:
    net = Net()
    y = net("Conv", net.input("x", (1, 16, 9, 9)), net.weight(16, 16, 3, 3))
    y = net(act, y)
    net.output(y, net("Mul", net.input("z", (1, 16, 7, 7)), net("GlobalAveragePool", net("Tanh", y))))
    with thresholds(tiles_least=1):
        report = verify.verify(fg.load(net.bytes(), precision="bfloat16"))
    assert report.ok and max(step.error for step in report.steps) > 1e-4


@pytest.mark.skipif(not has_pairs(choose()), reason="ISA tier avx512 with avx512bf16")
def test_a_state_that_is_rounded_at_each_step() -> None:
    net = Net()
    x, weights = net.input("x", (30, 2, 9)), (net.weight(1, 105, 9), net.weight(1, 105, 35), net.weight(1, 210))
    net.output(*net("GRU", x, *weights, outputs=2, hidden_size=35))
    with thresholds(recurrent_far=0):
        report = verify.verify(fg.load(net.bytes(), precision="bfloat16"))
    assert report.ok and report.steps[0].error > 1e-4


def test_a_report_is_data() -> None:
    report = fg.verify(fg.load(MODEL, threads=1), against=["onnxruntime"])
    assert report.ok and report.model.endswith("digits.onnx") and len(report.outputs) == 1
    assert report.outputs[0].name == "probabilities" and report.outputs[0].difference < 1e-6
    with pytest.raises(FrozenInstanceError):
        report.steps = ()  # type: ignore[misc]


def test_the_command(capsys: Any, tmp_path: Path) -> None:
    net = Net()
    net.output(net("Relu", net.input("a_name_that_is_longer_than_what_fits" * 4, ("n", 3))))
    path = tmp_path / ("long" * 30 + ".onnx")
    path.write_bytes(net.bytes())
    for argv in (["verify", str(MODEL), "--isa", "generic", "--threads", "2"], ["verify", str(path)],
                 ["verify", str(MODEL), "--against", "onnxruntime"]):  # fmt: skip
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 100 and out.endswith("All agree.\n")
    name = net.inputs[0].name
    np.save(tmp_path / "x.npy", np.ones((7, 3), F32))
    assert main(["verify", str(path), "--input", f"{name}={tmp_path / 'x.npy'}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["op"] == "fused"
    for argv in (["nope.onnx"], [str(path), "--shape", "x=1"], [str(path), "--input", "nope"],
                 [str(MODEL), "--against", "nobody"], [str(MODEL), "--against", "litert"]):  # fmt: skip
        assert main(["verify", *argv]) == 2
        assert capsys.readouterr().err.startswith("error: ")
    with pytest.raises(SystemExit) as done:
        main(["verify", "--help"])
    assert done.value.code == 0 and "--against" in capsys.readouterr().out


def test_floats_out_of_bytes_are_compared_less_closely_with_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "rounded.onnx"
    path.write_bytes(rounded().bytes())
    report = fg.verify(fg.load(path, threads=1), against="onnxruntime")
    assert report.ok and [output.allowed for output in report.outputs] == [HYBRID_TOLERANCE]
    assert report.outputs[0].difference < 1e-5


def test_a_bias_in_floats_is_rounded_to_units_of_the_sums() -> None:
    net = Net()
    x, kind = net.input("x", (1, 4, 6, 6)), (net.const(np.float32(0.5)), net.const(np.uint8(128)))
    read = net("DequantizeLinear", net("QuantizeLinear", x, *kind), *kind)
    weights = net.const(net.rng.integers(-9, 9, (4, 4, 3, 3)).astype(np.int8))
    w = net("DequantizeLinear", weights, 0.01, np.int8(0))
    net.output(net("Conv", read, w, [0.0025, 0.0024, -0.0026, 0.8], pads=[1] * 4))
    report = fg.verify(net.load(), {"x": np.zeros((1, 4, 6, 6), F32)})
    assert report.ok and max(step.error for step in report.steps) > 1e-3, str(report)


def test_what_does_not_fit_is_refused() -> None:
    model = mixed().load()
    for arguments in (({"y": 1},), ({"x": np.ones((1, 2), F32)},), (None, "nobody"), (None, 3), (None, "onnxruntime")):
        with pytest.raises(fg.InputError):
            fg.verify(model, *arguments)
    with pytest.raises(fg.InputError):
        fg.verify("net.onnx")  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="^litert: "):
        fg.verify(fg.load(MODEL, threads=1), against="litert")


@pytest.mark.slow
@examples(30)
@given(networks())
def test_random_networks(case: Case) -> None:
    report = fg.verify(fg.load(case.source, threads=1), case.feeds)
    assert report.ok, str(report)


FILES = ("tflite/hello_world_int8.tflite", "tflite/hello_world_float.tflite", "mlperf_tiny/kws_dscnn_int8.tflite",
         "onnx/conv_qdq_s8s8_perchannel.onnx", "onnx/conv_qdq_u8u8.onnx")  # fmt: skip


@pytest.mark.skipif(not SHARED.exists(), reason="no shared/models beside the repository")
@pytest.mark.parametrize("name", FILES)
def test_networks(name: str) -> None:
    peer = "litert" if name.endswith("tflite") else "onnxruntime"
    report = fg.verify(fg.load(SHARED / name, threads=1), against=peer)
    assert report.ok and report.outputs and len(report.steps) >= 3


def test_what_a_loop_gives_to_no_one_is_not_compared() -> None:
    """The memory of a carried value that never changes is another's from its last use on."""
    net = Net()
    inner = body("b", True, ("s", (8, 8)), ("kept", (8, 8)))
    inner.output(inner("Identity", "bgo"), dtype=np.bool_)
    read = inner("MatMul", inner("Tanh", inner("MatMul", "s", "kept")), inner.weight(8, 8))
    inner.output(inner("Relu", inner("MatMul", inner("Tanh", read), inner.weight(8, 8))))
    inner.output(inner("Identity", "kept"))
    x = net.input("x", (8, 8))
    state, _ = net("Loop", 3, "", x, net("Exp", x), body=inner.graph(), outputs=2)
    net.output(state)
    model = net.load()
    (loop,) = (node for node in model.plan.graph.nodes if node.op == "loop")
    assert [v in model.plan.unread for v in loop.outputs] == [False, True]
    report = fg.verify(model)
    assert report.ok, str(report)

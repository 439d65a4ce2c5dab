"""`compare` pairs what belongs together in networks of any format, and names the layer that a fault was put into."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from fastgraph.errors import InputError
from fastgraph.quantize import quantize
from fastgraph.tools import compare_text, pairing
from fastgraph.tools.compare import Comparison, Limits, as_json, compare
from tests.circle.write import Model as Tflite
from tests.nets import Net

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "models"
LAYERS = 6


def shared(name: str) -> str:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return str(path)


def weights(fault: int | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """3x3 convolutions of 4 channels, with a bias; layer `fault` has two of its output channels swapped."""
    rng = np.random.default_rng(7)
    found = [((rng.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32), rng.standard_normal(4).astype(np.float32))
             for _ in range(LAYERS)]  # fmt: skip
    if fault is not None:
        w, b = found[fault]
        found[fault] = w[[1, 0, 2, 3]], b[[1, 0, 2, 3]]
    return found


def as_onnx(fault: int | None = None) -> bytes:
    net = Net()
    x = net.input("x", (1, 4, 10, 12))
    for w, b in weights(fault):
        x = net("Relu", net("Conv", x, w, b, pads=[1] * 4))
    net.output(net("ReduceMean", x, axes=[2, 3], keepdims=0), x)
    return net.bytes()


def as_tflite(fault: int | None = None) -> bytes:
    m = Tflite()
    x = m.input((1, 10, 12, 4), name="image")
    for w, b in weights(fault):
        kernel, bias = m.const(w.transpose(0, 2, 3, 1)), m.const(b)
        options = {"stride_w": 1, "stride_h": 1, "padding": "SAME", "fused_activation_function": "RELU"}
        (x,) = m.op("CONV_2D", [x, kernel, bias], [(1, 10, 12, 4)], **options)
    (mean,) = m.op("MEAN", [x, m.const(np.int32([1, 2]))], [(1, 4)], keep_dims=False)
    return m.bytes([x, mean])


MAKERS = {"onnx": as_onnx, "tflite": as_tflite}


def first_of(found: Comparison) -> Any:
    assert found.first is not None
    return found.layers[found.first]


@pytest.mark.parametrize("a", MAKERS)
@pytest.mark.parametrize("b", MAKERS)
def test_one_network_in_two_formats_agrees(a: str, b: str) -> None:
    found = compare(MAKERS[a](), MAKERS[b](), inside=True)
    assert found.ok and found.first is None and len(found.layers) >= LAYERS
    assert all(pair.figures is not None and pair.figures.snr > 100 for pair in found.outputs)
    (fed,) = found.inputs
    assert fed.layout == {"onnxtflite": "NCHW to NHWC", "tfliteonnx": "NHWC to NCHW"}.get(a + b, "")


@pytest.mark.parametrize("fault", range(LAYERS))
@pytest.mark.parametrize(("a", "b"), [("onnx", "tflite"), ("tflite", "onnx"), ("onnx", "onnx"), ("tflite", "tflite")])
def test_the_layer_with_the_fault_is_named(a: str, b: str, fault: int) -> None:
    """By its place: each layer's tensor in the file that is A's, and in B's."""
    found = compare(MAKERS[a](), MAKERS[b](fault))
    assert not found.ok and first_of(found).figures.snr < 40
    names = {"onnx": f"v{2 * fault + 1}", "tflite": f"CONV_2D:{fault}"}
    layer = first_of(found)
    assert names[a] == layer.a if a == "onnx" else names[a] in layer.op_a
    assert names[b] == layer.b if b == "onnx" else names[b] in layer.op_b
    before = [found.layers[number] for number in layer.before]
    assert len(before) == (fault > 0) and all(each.ok for each in before)
    text = compare_text.text(found, whole=True)
    assert f"first that differs: {layer.op_a}" in text and "They differ." in text
    assert "last that agree: " + (before[0].op_a if before else "the inputs") in text


def test_a_fault_in_a_branch_is_found_beside_one_that_is_right() -> None:
    def branched(wrong: bool) -> bytes:
        net = Net()
        x = net.input("x", (1, 4, 8, 8))
        left = net("Relu", net("Conv", x, net.weight(4, 4, 3, 3), pads=[1] * 4))
        right = net("Conv", x, net.weight(4, 4, 3, 3), pads=[1] * 4)
        right = net("Tanh", right) if wrong else net("Sigmoid", right)
        net.output(net("MaxPool", net("Add", left, right), kernel_shape=[2, 2], strides=[2, 2]))
        return net.bytes()

    layer = first_of(compare(branched(False), branched(True)))
    assert layer.op_a.startswith("add") and layer.op_b.startswith("add") and not layer.figures.snr > 40
    assert any("sigmoid" in each for each in layer.within), "it exists within the addition's kernel"


def test_outputs_are_paired_by_values_when_names_say_nothing() -> None:
    def three(order: list[int], names: str) -> bytes:
        net = Net()
        x = net.input("x", (2, 5))
        made = [net(op, x) for op in ("Sigmoid", "Tanh", "Exp")]
        for i in order:
            net.nodes[i].output[0] = names[i]
        net.output(*[names[i] for i in order])
        assert len(made) == 3
        return net.bytes()

    found = compare(three([0, 1, 2], "abc"), three([2, 0, 1], "def"))
    assert [(pair.a, pair.b, pair.by) for pair in found.outputs] == [
        ("a", "d", "values"), ("b", "e", "values"), ("c", "f", "values"),
    ]  # fmt: skip
    assert found.ok
    mapped = compare(three([0, 1, 2], "abc"), three([2, 0, 1], "def"), pairs=["a=e"])
    assert not mapped.ok and ("a", "e", "map") in [(pair.a, pair.b, pair.by) for pair in mapped.outputs]
    mixed = compare(three([0, 1, 2], "abc"), three([0, 1, 2], "bac"))
    assert not mixed.ok and any("try --map a=b" in note for note in mixed.notes)


def test_inputs_of_one_shape_are_paired_by_what_comes_out() -> None:
    def less(names: str) -> bytes:
        net = Net()
        x, y = (net.input(name, (3, 4)) for name in names)
        net.output(net("Sub", *((x, y) if names in ("ab", "pq") else (y, x))))
        return net.bytes()

    found = compare(less("ab"), less("qp"))
    assert found.ok and {(pair.a, pair.b) for pair in found.inputs} == {("a", "p"), ("b", "q")}
    assert not compare(less("ab"), less("qp"), pairs=["a=q"]).ok


def test_an_output_that_is_missing_differs() -> None:
    net = Net()
    x = net.input("x", (2, 3))
    y, z = net("Exp", x), net("MatMul", x, net.weight(3, 5))
    net.output(y)
    one = net.bytes()
    net.output(z)
    found = compare(net.bytes(), one)
    assert not found.ok and found.unpaired == (z,) and found.outputs[0].ok
    assert compare(one, net.bytes()).ok


def test_figures() -> None:
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([[1, 2], [3, 2]])
    found = pairing.figures([(a, b)])
    assert (found.absolute, found.relative, found.argmax) == (2.0, 0.5, 0.5)
    assert found.snr == pytest.approx(10 * np.log10(30 / 4))
    assert found.cosine == pytest.approx(22 / np.sqrt(30 * 18))
    two = pairing.figures([(a, b), (a, a)])
    assert two.absolute == 2.0 and two.argmax == 0.75 and two.snr == pytest.approx(10 * np.log10(60 / 4))
    equal = pairing.figures([(a, a)])
    assert equal.snr == np.inf and equal.absolute == 0 and equal.cosine == pytest.approx(1)
    nan = np.float32([np.nan, 1])
    assert pairing.figures([(nan, nan)]).absolute == 0
    assert pairing.figures([(nan, np.float32([0, 1]))]).absolute == np.inf
    assert pairing.figures([(np.float32([np.inf]), np.float32([-np.inf]))]).absolute == np.inf


def test_limits() -> None:
    found = pairing.figures([(np.float32([10, 1]), np.float32([10, 1.5]))])
    assert Limits(atol=0.5).allow(found) and not Limits(atol=0.4).allow(found)
    assert Limits(rtol=0.05).allow(found) and not Limits(rtol=0.04).allow(found)
    assert Limits(atol=0.25, rtol=0.025).allow(found)
    assert Limits(snr=26).allow(found) and not Limits(snr=27).allow(found)
    assert not Limits(atol=1, snr=27).allow(found)
    assert str(Limits(0.5, 0.1, 20)) == "|b - a| <= 0.5 + 0.1 * largest |a|, SNR >= 20 dB"
    none = pairing.figures([(np.zeros(2, np.float32), np.float32([0, 1]))])
    assert Limits(atol=1).allow(none) and not Limits(rtol=1).allow(none)
    zero = pairing.figures([(np.zeros(2), np.zeros(2))])
    assert Limits(atol=0, rtol=0, snr=99).allow(zero)


SHAPES = [((1, 3, 4, 5), (1, 4, 5, 3)), ((2, 3, 4, 5), (2, 4, 5, 3)), ((1, 7, 3), (1, 3, 7)),
          ((2, 3, 1, 5), (2, 1, 5, 3)), ((1, 4), (4,)), ((), (1, 1)), ((3, 3), (3, 3))]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_layouts_go_there_and_back(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(a))).reshape(a)
    assert pairing.ways(a, b)
    for way in pairing.ways(a, b):
        there = pairing.arranged(array, way, b)
        assert there.shape == b and np.array_equal(pairing.arranged(there, way[::-1], a), array)
    if len(a) == 4:
        assert np.array_equal(pairing.arranged(array, pairing.ways(a, b)[0], b), array.transpose(0, 2, 3, 1))


def test_shapes_without_a_common_layout() -> None:
    assert not pairing.ways((1, 3, 4), (1, 12)) and not pairing.ways((2, 3), (3, 3))
    assert pairing.completed((None, 3, "h", "w"), (1, 8, 9, 3)) == (1, 3, 8, 9)
    assert pairing.completed((None, "h", "w", 3), (1, 3, 8, 9)) == (1, 8, 9, 3)


def test_open_shapes_are_those_of_the_other() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ("n", "c", "h", "w"))))
    fixed = Tflite()
    (y,) = fixed.op("RELU", [fixed.input((1, 5, 6, 3))], [(1, 5, 6, 3)])
    for one, other in ((net.bytes(), fixed.bytes([y])), (fixed.bytes([y]), net.bytes())):
        assert compare(one, other).ok


def test_what_cannot_be_paired_is_said(tmp_path: Path, capsys: Any) -> None:
    one, two = Net(), Net()
    one.output(one("Relu", one.input("x", (1, 3))))
    two.output(two("Relu", two.input("y", (1, 4))))
    with pytest.raises(InputError, match="no partners"):
        compare(one.bytes(), two.bytes())
    with pytest.raises(InputError, match="expected NAME=NAME"):
        compare(one.bytes(), one.bytes(), pairs=["no=such"])
    with pytest.raises(InputError, match="two engines"):
        compare("onnxruntime", "litert")
    path = tmp_path / "net.onnx"
    path.write_bytes(one.bytes())
    assert main(["compare", str(path), "no/such.onnx"]) == 2 and "no/such.onnx" in capsys.readouterr().err
    assert main(["compare", str(path), "litert"]) == 2 and "reads .tflite files only" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    a, b, wrong = (tmp_path / name for name in ("a.onnx", "b.tflite", "wrong.tflite"))
    a.write_bytes(as_onnx())
    b.write_bytes(as_tflite())
    wrong.write_bytes(as_tflite(2))
    assert main(["compare", str(a), str(b), "--runs", "2", "--layers"]) == 0
    out = capsys.readouterr().out
    assert "NCHW to NHWC" in out and "2 runs" in out and "█" in out and "They agree." in out
    assert main(["compare", str(a), str(wrong), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"] and found["layers"][found["first"]]["op_b"] == "conv+relu 'CONV_2D:2'"
    assert main(["compare", str(a), str(wrong), "--atol", "1e6"]) == 0
    assert main(["compare", str(a), str(b), "--snr", "1000"]) in (0, 1)
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert main(["compare", str(a), str(wrong), "--html", str(page)]) == 1
    assert "They differ" in page.read_text("utf-8") and "CONV_2D:2" in page.read_text("utf-8")
    assert main(["compare", str(a), str(a), "--html", str(tmp_path)]) == 2


def test_given_numbers(tmp_path: Path, capsys: Any) -> None:
    a, x = tmp_path / "a.onnx", tmp_path / "x.npy"
    a.write_bytes(as_onnx())
    np.save(x, np.ones((1, 4, 10, 12), np.float32))
    assert main(["compare", str(a), "onnxruntime", "--input", f"x={x}", "--runs", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 1, "given numbers are no draws"
    assert main(["compare", "onnxruntime", str(a)]) == 0


@pytest.mark.parametrize("shape", [(3, 1, 4, 10, 12), (3, 4, 10, 12)])
def test_several_samples(tmp_path: Path, capsys: Any, shape: tuple[int, ...]) -> None:
    a, x = tmp_path / "a.onnx", tmp_path / "x.npz"
    a.write_bytes(as_onnx())
    samples = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.savez(x, x=samples)
    assert main(["compare", str(a), "onnxruntime", "--input", str(x), "--runs", "2"]) == 0
    assert "3 runs; allowed" in capsys.readouterr().out
    found = compare(as_onnx(), as_tflite(2), {"x": samples})
    alone = compare(as_onnx(), as_tflite(2), {"x": samples[0].reshape(1, 4, 10, 12)})
    assert found.runs == 3 and found.layers == alone.layers, "layers are those of the first"


def test_arrays_that_are_no_samples() -> None:
    with pytest.raises(InputError, match=r"input 'x' of .* has shape \[4, 10\]: expected \[1,4,10,12\], or samples x"):
        compare(as_onnx(), as_tflite(), {"x": np.ones((4, 10), np.float32)})
    with pytest.raises(InputError, match="expected .*, or samples x"):
        compare(as_onnx(), as_tflite(), {"x": np.ones((0, 4, 10, 12), np.float32)})


def test_a_wrong_keyword_is_compares_own() -> None:
    with pytest.raises(TypeError, match=r"compare\(\) got an unexpected keyword argument 'feeds': feeds .* `given`"):
        fg.compare(as_onnx(), as_tflite(), feeds={})


def test_as_data() -> None:
    found = fg.compare(fg.load(as_onnx(), threads=1), as_tflite(3), limits=Limits(snr=200))
    json.dumps(as_json(found), allow_nan=False)
    assert str(found).endswith("They differ.")


def test_states_are_what_they_were() -> None:
    """Both begin with their first values, so that a second comparison is like the first."""
    path = as_onnx()
    model = fg.load(path, threads=1)
    assert as_json(compare(model, path)) == as_json(compare(model, path))


def test_a_saved_program(tmp_path: Path) -> None:
    model = fg.load(as_onnx(), threads=1)
    whole, bare = tmp_path / "whole.fgm", tmp_path / "bare.fgm"
    model.save(whole)
    model.save(bare, graph=False)
    assert compare(str(whole), as_tflite(), inside=True).layers
    assert first_of(compare(str(whole), as_tflite(4))).op_b == "conv+relu 'CONV_2D:4'"
    found = compare(str(bare), as_tflite(4))
    assert not found.ok and not found.layers and "layers were not compared" in found.notes[-1]


# -- real networks


@pytest.mark.parametrize(("a", "b"), [("onnx", "tflite"), ("mlpackage", "onnx"), ("tflite", "mlpackage")])
def test_basic_pitch_in_three_formats(a: str, b: str) -> None:
    found = compare(shared(f"basic_pitch/nmp.{a}"), shared(f"basic_pitch/nmp.{b}"), inside=True)
    notes = {"onnx": ["StatefulPartitionedCall:2", "StatefulPartitionedCall:1", "StatefulPartitionedCall:0"],
             "tflite": ["onset", "note", "contour"], "mlpackage": ["Identity_2", "Identity_1", "Identity"]}  # fmt: skip
    assert found.ok and {p.a: p.b for p in found.outputs} == dict(zip(notes[a], notes[b], strict=True))
    assert len(found.layers) > 50 and found.first is None


@pytest.mark.parametrize("name", ["ic_resnet8", "vww_mobilenetv1_025_96", "ad01"])
def test_drift_of_quantized_networks(name: str) -> None:
    a, b = (shared(f"mlperf_tiny/{name}_{kind}.tflite") for kind in ("fp32", "int8"))
    found = compare(a, b, inside=True, runs=3)
    assert found.ok and found.limits.snr == 10 and len(found.layers) >= 10
    assert all(layer.op_a == layer.op_b and 0 < layer.figures.snr < 80 for layer in found.layers)


def test_ultraface_in_two_layouts() -> None:
    folder = "onnx/version-slim-320_without_postprocessing"
    found = compare(shared(f"{folder}.onnx"), shared(f"{folder}.tflite"), inside=True)
    assert found.ok and found.inputs[0].layout == "NCHW to NHWC" and len(found.layers) > 30


def test_a_network_that_rounds_its_input_is_fed_what_it_can_take(tmp_path: Path) -> None:
    """Of QDQ files the input is float: numbers beyond the first QuantizeLinear's range say nothing of the network."""
    net, both = Net(seed=1), []
    for quantized in (False, True):
        net = Net(seed=1)
        x = net.input("x", (1, 4, 10, 10))
        if quantized:
            scale, zero = net.const(np.float32(1 / 255)), net.const(np.uint8(0))
            x = net("DequantizeLinear", net("QuantizeLinear", x, scale, zero), scale, zero)
        net.output(net("Conv", x, np.ones((3, 4, 1, 1), np.float32)))
        both.append(net.bytes())
    found = fg.compare(*(fg.load(each, threads=1) for each in both))
    assert found.ok and found.outputs[0].figures is not None and found.outputs[0].figures.snr > 40


def test_an_engine_that_there_is_not() -> None:
    with pytest.raises(InputError, match="onnxrutime: there is no such file; the engines are onnxruntime"):
        fg.compare(MODEL, "onnxrutime")


def test_every_layer_of_a_network_has_its_partner_on_integers(tmp_path: Path) -> None:
    """Also those whose values exist only within kernels of the float network, and those that drift."""
    net = Net(seed=3)
    x = net.input("x", (1, 4, 12, 12))
    for _ in range(3):
        y = net("Clip", net("Conv", x, net.weight(24, 4, 1, 1)), 0.0, 6.0)
        y = net("Relu", net("Conv", y, net.weight(24, 1, 3, 3), pads=[1] * 4, group=24))
        x = net("Add", x, net("Conv", y, net.weight(4, 24, 1, 1)))
    net.output(net("Gemm", net("Flatten", net("GlobalAveragePool", x)), net.weight(4, 4), net.weight(4)))
    path, made = tmp_path / "net.onnx", tmp_path / "net.int8.onnx"
    path.write_bytes(net.bytes())
    rng = np.random.default_rng(0)
    samples = [rng.uniform(-2, 2, (1, 4, 12, 12)).astype(np.float32) for _ in range(8)]
    quantize(path, samples, made, seconds=0)
    found = compare(path, made, inside=True)
    clamped = {name for node in net.nodes if node.op_type in ("Clip", "Relu") for name in node.input}
    stored = [node.output[0] for node in net.nodes if node.output[0] not in clamped]
    assert found.ok and [layer.a for layer in found.layers] == stored
    assert all(20 < layer.figures.snr < 80 for layer in found.layers)
    assert all("quantize" not in f"{layer.op_b} {layer.within}" for layer in found.layers)


def test_digits_on_integers(tmp_path: Path) -> None:
    images, _ = held_out()
    quantize(MODEL, list(images[:40]), tmp_path / "digits.onnx", seconds=0)
    found = compare(MODEL, tmp_path / "digits.onnx", {"image": images[50]}, inside=True)
    assert found.ok and len(found.layers) == 14 and found.first is None

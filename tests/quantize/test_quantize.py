"""Quantized networks against the float ones, and onnxruntime on the same files."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from fastgraph.quantize import quantize
from fastgraph.quantize.channels import equalize
from fastgraph.quantize.network import opened
from fastgraph.quantize.observe import BINS, Tensor
from fastgraph.quantize.ranges import entropy, least_error, percentile
from fastgraph.quantize.samples import samples
from tests.nets import Net


def network(folder: Path, batch: Any = 1) -> str:
    """Convolutions, a depthwise one, batch normalization, a residual sum, pooling and a dense layer."""
    net = Net(seed=1)
    x = net.input("x", (batch, 8, 12, 12))
    y = net("Conv", x, net.weight(16, 8, 3, 3), net.weight(16), pads=[1] * 4)
    scales = [net.const(np.linspace(0.5, 2, 16, dtype=np.float32)) for _ in range(4)]
    y = net("Relu", net("BatchNormalization", y, *scales))
    z = net("Relu", net("Conv", y, net.weight(16, 1, 3, 3), net.weight(16), pads=[1] * 4, group=16))
    y = net("Add", y, net("Conv", z, net.weight(16, 16, 1, 1)))
    y = net("Flatten", net("GlobalAveragePool", net("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])))
    net.output(net("Gemm", y, net.weight(10, 16), net.weight(10), transB=1))
    path = folder / "net.onnx"
    path.write_bytes(net.bytes())
    return str(path)


def pictures(count: int, shape: tuple[int, ...] = (1, 8, 12, 12)) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]


def operators(path: Any) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_digits_stay_right(tmp_path: Path) -> None:
    """At least 97 % of those that were not calibrated on, by fastgraph and by onnxruntime."""
    images, labels = held_out()
    found = quantize(MODEL, list(images[:100]), tmp_path / "digits.onnx", seconds=0)
    model = fg.load(tmp_path / "digits.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "digits.onnx")
    ours = np.array([model(image).argmax() for image in images[100:]])
    theirs = np.array([np.argmax(session.run(None, {"image": image})[0]) for image in images[100:]])
    assert (ours == labels[100:]).mean() >= 0.97 and (theirs == labels[100:]).mean() >= 0.97
    assert found.snr > 30 and found.onnxruntime is not None and found.onnxruntime > 40
    assert found.layers[0] == found.layers[1] and found.held == 20 and found.apart


@pytest.mark.parametrize(
    "options",
    [
        {}, {"method": "minmax"}, {"method": "percentile", "percentile": 99.9}, {"method": "entropy"},
        {"activations": "int8"}, {"per_channel": False}, {"equalize": True}, {"bias_correction": False},
        {"weights": 8}, {"weights": 4, "block": 16}, {"dynamic": True},
    ],
)  # fmt: skip
def test_each_way_to_quantize(tmp_path: Path, options: dict[str, Any]) -> None:
    found = quantize(network(tmp_path), pictures(20), tmp_path / "out.onnx", seconds=0, **options)
    least = 12 if options.get("method") == "entropy" or options.get("weights") == 4 else 24
    assert found.snr > least and not found.left
    assert found.onnxruntime is not None and found.onnxruntime > 30
    (x,) = pictures(1)
    (theirs,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"x": x})
    ours = fg.load(tmp_path / "out.onnx")(x)
    assert np.abs(ours - theirs).max() < 0.03 * np.abs(theirs).max()
    kinds = operators(tmp_path / "out.onnx")
    assert "BatchNormalization" not in kinds
    assert ("QuantizeLinear" in kinds) == (not options.get("weights") and not options.get("dynamic"))


@pytest.mark.parametrize("per_channel", [False, True])
def test_layers_that_round_in_each_run_are_exact_in_onnxruntime(tmp_path: Path, per_channel: bool, caplog: Any) -> None:
    """Its sums of uint8 and int8 saturate on CPUs without VNNI. Of what the tool says, its advice is kept back."""
    net = Net(seed=2)
    x = net.input("x", (1, 16, 64))
    y = net("Relu", net("Add", net("MatMul", x, net.weight(64, 128)), net.weight(128)))
    net.output(net("Add", x, net("MatMul", y, net.weight(128, 64))))
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    data = pictures(6, (1, 16, 64))
    found = quantize(tmp_path / "net.onnx", data, tmp_path / "out.onnx", seconds=0, dynamic=True,
                     per_channel=per_channel)  # fmt: skip
    assert found.snr > 35 and found.onnxruntime is not None and found.onnxruntime > 100
    assert {node.op for node in fg.load(tmp_path / "out.onnx").plan.graph.nodes} == {"dynamic_dense"}
    assert not caplog.records and not logging.getLogger().filters


def test_the_samples_decide_the_ranges(tmp_path: Path) -> None:
    """Numbers ten times as large give scales ten times as large."""
    path, scales = network(tmp_path), []
    for factor in (1, 10):
        quantize(path, [x * factor for x in pictures(6)], tmp_path / "out.onnx", seconds=0, method="minmax")
        model = onnx.load(tmp_path / "out.onnx")
        scales.append(next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "x_scale"))
    np.testing.assert_allclose(scales[1], 10 * scales[0], rtol=1e-5)


@pytest.mark.parametrize("op", ["Conv", "MatMul", "Gemm"])
def test_bias_correction_moves_the_mean_back(tmp_path: Path, op: str) -> None:
    """With weights rounded coarsely, one scale a layer, the mean of a channel is nearer to the float one's."""
    net = Net(seed=3)
    weights = np.random.default_rng(0).uniform(-0.02, 0.02, (6, 8)).astype(np.float32)
    weights[0, 0] = 3.0
    if op == "Conv":
        shape, axes = (1, 8, 12, 12), (0, 2, 3)
        net.output(net(op, net.input("x", shape), weights.reshape(6, 8, 1, 1)))
    else:
        shape, axes = ((1, 12, 8), (0, 1)) if op == "MatMul" else ((12, 8), (0,))
        y = net(op, net.input("x", shape), weights.T)
        net.output(net("Add", np.zeros((1, 6), np.float32), y) if op == "MatMul" else y)
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    data, gaps = [np.abs(x) + 1 for x in pictures(12, shape)], []
    wanted = np.mean([fg.load(tmp_path / "net.onnx")(x).mean(axis=axes) for x in data], axis=0)
    for correction in (False, True):
        found = quantize(tmp_path / "net.onnx", data, tmp_path / "out.onnx", seconds=0, per_channel=False,
                         bias_correction=correction)  # fmt: skip
        assert ("1 biases corrected" in found.method) == correction
        model = fg.load(tmp_path / "out.onnx")
        gaps.append(np.abs(np.mean([model(x).mean(axis=axes) for x in data], axis=0) - wanted)[1:].max())
    assert gaps[1] < 0.5 * gaps[0]


def test_equalization_changes_no_result(tmp_path: Path) -> None:
    path = network(tmp_path)
    model = opened(path)
    assert equalize(model) == 1  # what the sum reads too is left
    (x,) = pictures(1)
    np.testing.assert_allclose(fg.load(model.SerializeToString())(x), fg.load(path)(x), rtol=1e-4, atol=1e-5)


def test_the_layer_that_rounds_badly_is_left_float(tmp_path: Path) -> None:
    """One large weight, of an input that is always 0, takes a layer's other weights their digits."""
    net, bias = Net(seed=1), np.zeros(16, np.float32)
    bias[0] = -100
    y = net("Relu", net("Conv", net.input("x", (1, 8, 12, 12)), net.weight(16, 8, 3, 3), bias, pads=[1] * 4))
    large = (net.rng.standard_normal((16, 16, 1, 1)) / 4).astype(np.float32)
    large[0, 0] = 60
    y = net("Conv", y, large)
    net.output(net("Conv", y, net.weight(4, 16, 1, 1)))
    path, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    path.write_bytes(net.bytes())
    plain = quantize(path, pictures(10), out, seconds=0, per_channel=False)
    found = quantize(path, pictures(10), out, seconds=0, per_channel=False, snr=plain.snr + 10)
    (bad,) = (node.name for node in opened(path).graph.node if node.output[0] == y)
    assert found.left == [bad] and found.snr > plain.snr + 8 and found.layers == (2, 3)


def test_what_is_excluded_stays_float(tmp_path: Path) -> None:
    found = quantize(network(tmp_path), pictures(6), tmp_path / "out.onnx", seconds=0, exclude=("Gemm",))
    assert len(found.left) == 1 and found.layers == (3, 4)
    with pytest.raises(fg.InputError, match="exclude 'Elephant': no node"):
        quantize(network(tmp_path), pictures(6), tmp_path / "out.onnx", exclude=("Elephant",))


def test_weights_that_layers_share(tmp_path: Path) -> None:
    """As torch's exporter writes them: the second layer's bias is an Identity of the first one's."""
    net = Net(seed=1)
    bias = net.weight(8)
    y = net("Dropout", net("Conv", net.input("x", (1, 8, 12, 12)), net.weight(8, 8, 1, 1), bias))
    net.output(net("Conv", y, net.weight(8, 8, 1, 1), net("Identity", bias)))
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    found = quantize(tmp_path / "net.onnx", pictures(6), tmp_path / "out.onnx", seconds=0)
    assert found.snr > 24 and found.layers == (2, 2)


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"weights": 8}])
def test_layers_behind_an_operator_of_another_domain(tmp_path: Path, options: dict[str, Any]) -> None:
    """onnx infers no types there."""
    net = Net(seed=1)
    x = net.input("x", (1, 5, 8))
    y = net("MatMul", net("BiasGelu", x, net.weight(8), domain="com.microsoft"), net.weight(8, 8))
    y = net("Conv", net("Transpose", y, perm=[0, 2, 1]), net.weight(8, 8, 3), net.weight(8))
    net.output(net("Relu", y))
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    found = quantize(tmp_path / "net.onnx", pictures(6, (1, 5, 8)), tmp_path / "out.onnx", seconds=0, **options)
    assert found.snr > 24 and found.layers == (2, 2)


def test_the_attention_of_onnx_stays_what_it_is(tmp_path: Path) -> None:
    net = Net(opset=23, seed=1)
    x = net.input("x", (1, 5, 8))
    parts = [net("MatMul", x, net.weight(8, 8)) for _ in range(3)]
    net.output(net("MatMul", net("Attention", *parts, q_num_heads=2, kv_num_heads=2), net.weight(8, 8)))
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    found = quantize(tmp_path / "net.onnx", pictures(6, (1, 5, 8)), tmp_path / "out.onnx", seconds=0, dynamic=True)
    assert found.snr > 24 and "Attention" in operators(tmp_path / "out.onnx")


def masked(op: str, least: float) -> bytes:
    """Attention, whose scores of later places are the least."""
    net = Net(seed=1)
    x = net.input("x", (1, 5, 8))
    scores = net("MatMul", net("MatMul", x, net.weight(8, 8)), net("Transpose", x, perm=[0, 2, 1]))
    hidden = np.full((5, 5), least, np.float32)
    if op == "Where":
        scores = net("Where", np.tri(5, dtype=bool), scores, np.float32(least))
    elif op == "Add":
        scores = net("Add", scores, np.triu(hidden, 1))
    else:
        shape = net("Gather", net("Shape", x), [1, 1])
        every = net("ConstantOfShape", shape, value=onnx.numpy_helper.from_array(hidden[:1, 0]))
        scores = net("Add", scores, net("Trilu", every, 1, upper=1))
    net.output(net("MatMul", net("MatMul", net("Softmax", scores), x), net.weight(8, 8)))
    return net.bytes()


@pytest.mark.parametrize("op", ["Add", "Where", "Trilu"])
def test_masks_of_attention_stay_float(tmp_path: Path, op: str) -> None:
    found = []
    for least in (-np.inf, np.finfo(np.float32).min):
        (tmp_path / "net.onnx").write_bytes(masked(op, least))
        found.append(quantize(tmp_path / "net.onnx", pictures(6, (1, 5, 8)), tmp_path / "out.onnx", seconds=0))
    assert found[0].snr == pytest.approx(found[1].snr) and found[0].snr > 12
    assert all(each.layers == (4, 4) and each.left for each in found)


def test_ranges() -> None:
    """Of a normal distribution with one number far off: all ways but min and max cut it off."""
    counts = np.zeros(BINS, np.int64)
    x = np.random.default_rng(0).standard_normal(100_000)
    counts += 100 * np.histogram(x, BINS, (-4.0, 40.0))[0]
    counts[-1] += 1
    tensor = Tensor(-4.0, 40.0, counts)
    for low, high in (percentile(tensor, 99.9), least_error(tensor), entropy(tensor)):
        assert -4.1 < low < -2 and 2.5 < high < 30


def test_data(tmp_path: Path) -> None:
    """An .npz with samples before the batch or in its place, a folder, an open batch; and what does not fit."""
    path, data = network(tmp_path, "n"), pictures(6)
    np.savez(tmp_path / "apart.npz", anything=np.stack(data))
    np.savez(tmp_path / "rows.npz", x=np.concatenate(data))
    for i, each in enumerate(data):
        place = tmp_path / "folder" / f"class{i // 4}"
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{i}.npy", each)
    snr = [quantize(path, tmp_path / name, tmp_path / "out.onnx", seconds=0).snr
           for name in ("apart.npz", "rows.npz", "folder")]  # fmt: skip
    assert snr[0] == snr[1] == snr[2]
    np.savez(tmp_path / "wrong.npz", x=np.zeros((4, 3, 12, 12), np.float32))
    with pytest.raises(fg.InputError, match=r"x has shape \[4, 3, 12, 12\], expected samples x \[n, 8, 12, 12\]"):
        quantize(path, tmp_path / "wrong.npz", tmp_path / "out.onnx")
    np.savez(tmp_path / "nan.npz", x=np.full((4, 8, 12, 12), np.nan, np.float32))
    with pytest.raises(fg.InputError, match=r"nan.npz, sample 0: x has numbers that are NaN"):
        quantize(path, tmp_path / "nan.npz", tmp_path / "out.onnx")
    with pytest.raises(fg.InputError, match="no samples"):
        quantize(path, [], tmp_path / "out.onnx")
    with pytest.raises(fg.ModelError, match="quantized already"):
        quantize(tmp_path / "out.onnx", data, tmp_path / "again.onnx")


def test_samples_of_wider_floats_are_the_inputs(tmp_path: Path) -> None:
    """Else onnxruntime refuses them, and the report says that it refuses the file; a few are spread over all."""
    path = network(tmp_path)
    (tmp_path / "folder").mkdir()
    for i in range(6):
        np.save(tmp_path / "folder" / f"{i}.npy", np.full((1, 8, 12, 12), i, np.float64))
    found = samples(tmp_path / "folder", fg.load(path, threads=1), 3)
    assert [(each["x"].dtype.name, each["x"].max()) for each in found] == [("float32", n) for n in (0, 2, 4)]


def test_samples_behind_links(tmp_path: Path) -> None:
    """A link back to a folder on the way is passed over; one to nothing is named."""
    model, folder = fg.load(network(tmp_path), threads=1), tmp_path / "folder"
    for name in ("pictures", "folder"):
        (tmp_path / name).mkdir()
    for i in range(4):
        np.save(tmp_path / "pictures" / f"{i}.npy", np.full((1, 8, 12, 12), i, np.float32))
    (folder / "one.npy").symlink_to(tmp_path / "pictures" / "3.npy")
    (folder / "all").symlink_to(tmp_path / "pictures")
    (folder / "back").symlink_to(folder)
    (tmp_path / "pictures" / "up").symlink_to(tmp_path)
    assert [each["x"].max() for each in samples(folder, model, None)] == [0, 1, 2, 3, 3]
    (folder / "lost.npy").symlink_to(tmp_path / "nothing.npy")
    with pytest.raises(fg.InputError, match=r"lost\.npy: a link to .*nothing\.npy, which is not there"):
        samples(folder, model, None)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = network(tmp_path), str(tmp_path / "out.onnx")
    np.savez(tmp_path / "data.npz", x=np.stack(pictures(8)))
    words = ["quantize", path, "--data", str(tmp_path / "data.npz"), "-o", out, "--seconds", "0"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "4 of 4 layers on integers" in said and "held back" in said
    assert main([*words, "--json", "--snr", "10"]) == 0
    assert json.loads(capsys.readouterr().out)["snr"] > 10
    assert main([*words, "--snr", "500"]) == 1
    assert main([*words, "--exclude", "Elephant"]) == 2

"""Other outputs than the file's, and floats for quantized inputs and outputs."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL
from tests.blocks import BLOCKS
from tests.nets import Net, by_onnxruntime, feeds_for

SHARED = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny"


def net() -> Net:
    made = Net()
    BLOCKS["residual"](made)
    return made


def test_inner_values_are_outputs() -> None:
    """As onnxruntime gives them where they are outputs of the file."""
    import onnx

    made = net()
    names = [name for node in made.nodes for name in node.output][1:4]
    source = made.bytes()
    model = fg.load(source, outputs=names, threads=1)
    assert [spec.name for spec in model.outputs] == names
    feeds = feeds_for(model)
    del made.outputs[:]
    made.outputs += [onnx.helper.make_tensor_value_info(name, 1, None) for name in names]
    for found, expected in zip(model.run(feeds).values(), by_onnxruntime(made.bytes(), feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_is_not_asked_for_is_not_computed() -> None:
    made = net()
    first = made.nodes[0].output[0]
    whole, part = made.load(), made.load(outputs=[first])
    assert len(part.graph.nodes) < len(whole.graph.nodes)
    assert len(part.plan.program.steps) < len(whole.plan.program.steps)


def test_an_input_is_an_output_and_text_is_one_name() -> None:
    model = fg.load(MODEL, outputs="image")
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    assert model(image).tobytes() == image.tobytes()


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(fg.InputError, match="no value is called 'probabilitie'; near are probab"):
        fg.load(MODEL, outputs=["probabilitie"])


@pytest.mark.skipif(not SHARED.exists(), reason="no ../shared/models beside the repository")
@pytest.mark.parametrize("name", ["vww_mobilenetv1_025_96_int8", "kws_dscnn_int8", "ic_resnet8_int8"])
def test_floats_are_what_stored_numbers_stand_for(name: str) -> None:
    path = next(SHARED.glob(f"{name}*.tflite"), None)
    if path is None:
        pytest.skip(f"{name} is not there")
    stored, real = fg.load(path, threads=1), fg.load(path, threads=1, float_io=True)
    (spec,), (out,) = stored.inputs, stored.outputs
    assert [s.dtype for s in (*real.inputs, *real.outputs)] == [np.float32] * 2
    assert [s.name for s in (*real.inputs, *real.outputs)] == [spec.name, out.name]
    assert spec.quantization is not None and out.quantization is not None
    dims = [d if isinstance(d, int) else 1 for d in spec.shape or ()]
    x = spec.quantization.dequantize(np.random.default_rng(0).integers(-128, 128, dims).astype(spec.dtype))
    expected = out.quantization.dequantize(stored(spec.quantization.quantize(x)))
    np.testing.assert_array_equal(real(x), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(real))(x), expected)


def test_floats_stay_what_they_are() -> None:
    image = np.ones((1, 1, 8, 8), np.float32)
    assert fg.load(MODEL, float_io=True)(image).tobytes() == fg.load(MODEL)(image).tobytes()


def test_a_saved_program_is_what_it_was_saved_as(tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    made = net()
    first = made.nodes[0].output[0]
    model = made.load(outputs=[first])
    model.save(path)
    found = fg.load(path, threads=1)
    feeds = feeds_for(model)
    assert found.run(feeds)[first].tobytes() == model.run(feeds)[first].tobytes()
    for arguments in ({"outputs": [first]}, {"float_io": True}, {"function": "main"}):
        with pytest.raises(fg.InputError, match="is what it was saved as"):
            fg.load(path, **arguments)  # type: ignore[arg-type]


def test_names_may_come_from_an_iterator(tmp_path: Path) -> None:
    """Programs that are kept of a file were found by the iterator's address, which is soon another's."""
    made, path = net(), tmp_path / "net.onnx"
    path.write_bytes(made.bytes())
    names = [node.output[0] for node in made.nodes]
    for name in names * 3:
        for asked in (iter([name]), (each for each in [name]), np.array([name])):
            model = fg.load(path, threads=1, outputs=asked)
            assert [spec.name for spec in model.outputs] == [name]
            model.run(feeds_for(model))
            assert [spec.name for spec in pickle.loads(pickle.dumps(model)).outputs] == [name]
    model.save(path.with_suffix(".fgm"))
    with pytest.raises(fg.InputError, match="is what it was saved as"):
        fg.load(path.with_suffix(".fgm"), outputs=np.array(names))


def test_flags_may_be_of_numpy() -> None:
    assert fg.load(MODEL, float_io=np.bool_(False)).inputs == fg.load(MODEL).inputs  # type: ignore[arg-type]


# -- outputs of a run


def test_a_run_gives_what_is_asked_for() -> None:
    made = net()
    made.output(made.nodes[0].output[0])
    model = made.load()
    feeds = feeds_for(model)
    every = model.run(feeds)
    first, second = every
    assert list(model.run(feeds, outputs=[second, first])) == [second, first]
    assert list(model.run(feeds, outputs=second)) == [second]
    place = np.empty_like(every[second])
    found = model.run(feeds, out={second: place})
    assert list(found) == [second] and found[second] is place and place.tobytes() == every[second].tobytes()
    found = model.run(feeds, outputs=[first, second], out={second: place})
    assert list(found) == [first, second] and found[second] is place


def test_arrays_for_results_lie_apart() -> None:
    made = net()
    made.output(made.nodes[0].output[0])
    model = made.load()
    feeds = feeds_for(model)
    every = model.run(feeds)
    (first, a), (second, b) = every.items()
    block = np.zeros(a.size + b.size, np.float32)
    places = {first: block[: a.size].reshape(a.shape), second: block[a.size :].reshape(b.shape)}
    model.run(feeds, out=places)
    assert all(places[name].tobytes() == every[name].tobytes() for name in every)
    places[second] = block[a.size - 1 : -1].reshape(b.shape)
    with pytest.raises(fg.InputError, match=f"arrays of outputs '{first}' and '{second}' overlap"):
        model.run(feeds, out=places)
    comb = np.zeros((*a.shape, 2), np.float32)
    assert model.run(feeds, out={first: comb[..., 1]})[first].tobytes() == a.tobytes()
    once = np.lib.stride_tricks.as_strided(block, a.shape, (0,) * a.ndim)
    with pytest.raises(fg.InputError, match=f"elements of the array of output '{first}' lie in the same memory"):
        model.run(feeds, out={first: once})


@pytest.mark.parametrize("change", [
    lambda a: a.astype(np.float64), lambda a: a[0], lambda a: a.tolist(), lambda a: np.broadcast_to(a[:1], a.shape),
])  # fmt: skip
def test_arrays_for_results_are_what_results_are(change: Any) -> None:
    model = fg.load(MODEL)
    image = {"image": np.ones((1, 1, 8, 8), np.float32)}
    with pytest.raises(fg.InputError, match=r"out: output 'probabilities' is float32\[1, 10\], found "):
        model.run(image, out={"probabilities": change(model.run(image)["probabilities"])})
    with pytest.raises(KeyError, match="no output is called 'x': the outputs are probabilities"):
        model.run(image, outputs=["x"])

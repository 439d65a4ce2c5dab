"""What a loaded model does: running, feeding, shapes, and what it says when something does not fit."""

import gc
import io
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fastgraph as fg
from fastgraph.kernels.isa import tiers
from tests.model.test_plans import scaled
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime
from tests.threads import at_once


def two_inputs() -> Net:
    """a [2,3] - b [3], and a's maximum along the rows"""
    net = Net()
    a, b = net.input("a", (2, 3)), net.input("b", (3,))
    net.output(net("Sub", a, b), net("ReduceMax", a, axes=[1], keepdims=0))
    return net


def small_cnn(*shape: Any) -> Net:
    net = Net()
    y = net("Relu", net("Conv", net.input("x", shape), net.weight(8, 3, 3, 3), net.weight(8), pads=[1] * 4))
    net.output(net("Gemm", net("Flatten", net("GlobalAveragePool", y)), net.weight(8, 5), net.weight(5)))
    return net


def message(call: Any, *args: Any, error: type = fg.InputError, **kwargs: Any) -> str:
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# -- running


def test_run_call_and_execute_give_the_same() -> None:
    net = two_inputs()
    model = net.load()
    a, b = np.arange(6, dtype=F32).reshape(2, 3), np.ones(3, F32)
    found = model.run({"b": b, "a": a})
    assert list(found) == [spec.name for spec in model.outputs]
    assert_close(list(found.values()), by_onnxruntime(net.bytes(), {"a": a, "b": b}))
    called = model(a, b)
    model.input("a")[...], model.input("b")[...] = a, b
    model.execute()
    for name, array, positional in zip(found, found.values(), called, strict=True):
        np.testing.assert_array_equal(positional, array)
        np.testing.assert_array_equal(model.output(name), array)


def test_one_output_is_an_array() -> None:
    assert isinstance(scaled(3).load()(np.ones(3, F32)), np.ndarray)


def test_the_caller_owns_results() -> None:
    model = scaled(3).load()
    first = model(np.ones(3, F32))
    kept = first.copy()
    first_too = model(np.zeros(3, F32))
    np.testing.assert_array_equal(first, kept)
    first_too[...] = 9
    np.testing.assert_array_equal(model(np.ones(3, F32)), kept)
    assert first.flags.owndata and first.flags.writeable


def test_specs() -> None:
    model = scaled(2, 3).load()
    assert model.inputs == [fg.TensorSpec("x", (2, 3), F32)]
    assert [(s.shape, s.dtype) for s in model.outputs] == [((2, 3), F32)]
    assert "2,3" in str(model) and "arena" in repr(model)
    assert repr(model).startswith(f"<fastgraph.Model '{model.graph.name}' {model.tier.name}, ")


def test_bound_execute_and_views_stay() -> None:
    model = scaled(4).load()
    x, execute, y = model.input("x"), model.execute, model.output(model.outputs[0].name)
    for i in range(3):
        x[...] = i
        execute()
        assert y.tolist() == [2 * i + 1] * 4


def test_unknown_names_of_views() -> None:
    model = scaled(4).load()
    assert "x" in message(model.input, "wrong", error=KeyError)
    assert model.outputs[0].name in message(model.output, "wrong", error=KeyError)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("get_inputs", "model.inputs: name"),
        ("predict", "call model"),
        ("set_tensor", "execute"),
        ("reshape", "resize"),
        ("to", "precision="),
        ("warmup", "prepare"),
        ("get_signature_runner", "function="),
    ],
)
def test_names_of_other_engines_say_what_takes_their_place(name: str, said: str) -> None:
    model = scaled(4).load()
    with pytest.raises(AttributeError, match=f"^'Model' object has no attribute '{name}'; .*{said}") as raised:
        getattr(model, name)
    assert (raised.value.name, raised.value.obj) == (name, model) and not hasattr(model, name)


def test_names_that_nobody_has() -> None:
    """And an error within a property stays what it is."""
    with pytest.raises(AttributeError, match="^'Model' object has no attribute 'excute'$"):
        scaled(4).load().excute  # noqa: B018
    for name, said in (("InferenceSession", "in fastgraph.onnxruntime"), ("Interpreter", "tflite"), ("Core", "load")):
        with pytest.raises(AttributeError, match=f"module 'fastgraph' has no attribute '{name}'; .*{said}"):
            getattr(fg, name)
    model = scaled(4).load()
    model._plans = None  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'current'"):
        model.arena_bytes  # noqa: B018


def test_sources(tmp_path: Path) -> None:
    source = scaled(3).bytes()
    path = tmp_path / "a model.onnx"
    path.write_bytes(source)
    for given in (source, bytearray(source), memoryview(source), str(path), path):
        assert fg.load(given, threads=1)(np.ones(3, F32)).tolist() == [3, 3, 3]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(fg.FastgraphError, match="none.onnx") as caught:
        fg.load(tmp_path / "none.onnx")
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("https://here.org/net.onnx", "download it"),
        ("file:///tmp/net.onnx", "give a path, not an address: '/tmp/net.onnx'"),
        ("~/net.onnx", "shell's word for a home: give '.*/net.onnx'"),
        ("~/none.onnx", "no such file$"),
    ],
)
def test_a_path_that_is_none_says_what_to_do(
    path: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "net.onnx").write_bytes(scaled(3).bytes())
    with pytest.raises(FileNotFoundError, match=says):
        fg.load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_and_paths_that_lead_nowhere(tmp_path: Path) -> None:
    link, archive = tmp_path / "net.onnx", tmp_path / "net.zip"
    link.symlink_to("gone.onnx")
    archive.write_bytes(b"PK")
    with pytest.raises(FileNotFoundError, match="net.onnx: there is no such file; it is a link to 'gone.onnx'"):
        fg.load(link)
    with pytest.raises(FileNotFoundError, match="net.zip' is a file, not a folder: unpack it"):
        fg.load(archive / "net.onnx")


def test_objects_that_have_bytes_say_how_to_get_them() -> None:
    source = scaled(3).bytes()
    assert "source.tobytes()" in message(fg.load, np.frombuffer(source, np.uint8))
    assert "source.SerializeToString()" in message(fg.load, onnx.load_from_string(source))
    assert "source.read()" in message(fg.load, io.BytesIO(source))


@pytest.mark.parametrize("source", [b"", b"\0" * 64, b"hello world, this is no model", 3, None, ["x"]])
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(fg.FastgraphError):
        fg.load(source)


@pytest.mark.parametrize("options", [
    {"threads": 0}, {"threads": -1}, {"threads": 1.5}, {"threads": "2"}, {"isa": "mmx"}, {"isa": 2},
    {"precision": "float8"}, {"shapes": [3]}, {"shapes": {"x": 3}}, {"shapes": {"x": "3"}}, {"function": "main"},
    {"limits": 5}, {"limits": {"nodes": 9}}, {"limits": fg.Limits}, {"outputs": 3}, {"float_io": "no"},
])  # fmt: skip
def test_bad_options(options: dict[str, Any]) -> None:
    ((name, given),) = options.items()
    said = message(scaled(3).load, **options)
    assert name.rstrip("s") in said and (repr(given) in said or name == "shapes")


def test_a_tier_that_this_cpu_lacks_names_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "usable", lambda *_: tiers.TIERS[:2])
    for name in ("avx512", "sse"):
        assert "generic, avx2" in message(scaled(3).load, isa=name)


# -- feeds


def test_feeds_of_any_layout() -> None:
    model = scaled(3, 4).load()
    x = np.arange(12, dtype=F32).reshape(3, 4)
    expected = 2 * x + 1
    wide = np.zeros((3, 8), F32)
    wide[:, ::2] = x
    reverse = x[::-1, ::-1].copy()
    readonly = x.copy()
    readonly.flags.writeable = False
    for feed in (np.asfortranarray(x), wide[:, ::2], reverse[::-1, ::-1], readonly, x.view(np.matrix)):
        np.testing.assert_array_equal(np.asarray(model(feed)), expected)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(F32).reshape(3, 4)
    np.testing.assert_array_equal(model(unaligned), expected)
    broadcast = np.broadcast_to(x[:1], (3, 4))
    np.testing.assert_array_equal(model(broadcast), 2 * broadcast + 1)


def test_other_byte_order_is_refused_or_read_right() -> None:
    model = scaled(3).load()
    x = np.arange(3, dtype=">f4")
    try:
        assert model(x).tolist() == [1, 3, 5]
    except fg.InputError as error:
        assert "'x'" in str(error) and "astype" in str(error)


def test_scalars_of_rank_0() -> None:
    model = scaled().load()
    for feed in (np.array(2, F32), np.float32(2)):
        assert model(feed).shape == () and model(feed) == 5
    assert "'x'" in message(model, np.ones(1, F32))


def test_wrong_shapes_name_input_expected_and_found() -> None:
    model = scaled(2, 3).load()
    for shape in ((3, 2), (2, 3, 1), (6,), (2, 0)):
        said = message(model, np.ones(shape, F32))
        assert "'x'" in said and str(shape) in said and "[2,3]" in said


def test_wrong_names() -> None:
    model = two_inputs().load()
    a, b = np.ones((2, 3), F32), np.ones(3, F32)
    assert "'c'" in message(model.run, {"a": a, "b": b, "c": b})
    assert "'b'" in message(model.run, {"a": a})
    said = message(model.run, {"a": a, "B": b})
    assert "'B'" in said and "'b'" in said
    assert "dict" in message(model.run, [a, b])


def test_wrong_number_of_arguments() -> None:
    model = two_inputs().load()
    for arguments in ((), (np.ones((2, 3), F32),), (np.ones(3, F32),) * 3):
        assert re.search("takes 2 inputs.*a.*b", message(model, *arguments))


def test_a_refused_feed_leaves_the_model_as_it_was() -> None:
    model = scaled("n").load()
    assert model(np.ones(2, F32)).tolist() == [3, 3]
    message(model, np.full(2, 0.1))
    message(model, np.ones((2, 2), F32))
    assert model.output(model.outputs[0].name).shape == (2,)
    assert model(np.zeros(2, F32)).tolist() == [1, 1]


def test_feeds_of_a_subclass_of_dict() -> None:
    class Feeds(dict):
        pass

    assert list(scaled(2).load().run(Feeds(x=np.ones(2, F32))).values())[0].tolist() == [3, 3]


def test_nan_and_infinity_pass_through() -> None:
    found = scaled(3).load()(np.array([np.nan, np.inf, -np.inf], F32))
    np.testing.assert_array_equal(found, np.array([np.nan, np.inf, -np.inf], F32))


# -- shapes


def test_a_dynamic_batch_and_image() -> None:
    net = small_cnn("n", 3, "h", "w")
    model = net.load()
    for shape in ((1, 3, 8, 8), (3, 3, 8, 8), (2, 3, 5, 9), (1, 3, 8, 8)):
        x = np.random.default_rng(0).standard_normal(shape).astype(F32)
        assert_close([model(x)], by_onnxruntime(net.bytes(), {"x": x}), 1e-5)
    assert model.inputs[0].shape == ("n", 3, "h", "w")


def test_resize() -> None:
    model = scaled("n", 3).load()
    model.resize({"x": (2, 3)})
    model.input("x")[...] = 1
    model.execute()
    assert model.output(model.outputs[0].name).tolist() == [[3] * 3] * 2
    assert "'x'" in message(model.resize, {"x": (2, 4)})
    assert "'x'" in message(model.resize, {})
    assert "'y'" in message(model.resize, {"x": (2, 3), "y": (1,)})
    assert model.input("x").shape == (2, 3)


def test_resize_to_nonsense() -> None:
    model = scaled("n", 3).load()
    for shape in ((-1, 3), (2**62, 3), (10**18, 3), (10**30, 3), (2**45, 3)):
        assert "x" in message(model.resize, {"x": shape}, error=fg.FastgraphError)
    assert model(np.ones((1, 3), F32)).tolist() == [[3] * 3]


def test_a_static_model_is_not_resized() -> None:
    model = scaled(2).load()
    message(model.resize, {"x": (3,)})
    model.resize({"x": (2,)})
    model.resize({})


def test_shapes_at_load() -> None:
    model = scaled("n", None).load(shapes={"x": (2, 3)})
    assert model.inputs[0].shape == (2, 3) and model.outputs[0].shape == (2, 3) and model.arena_bytes
    assert "'z'" in message(scaled("n").load, shapes={"z": (1,)})
    assert "'x'" in message(scaled("n").load, shapes={"x": (1, 1)})
    assert "shapes: input 'x' has shape (5,)" in (said := message(scaled(4).load, shapes={"x": (5,)}))
    assert said.endswith("the file fixes it: leave it out")
    assert "give 2 extents" in message(scaled("n", 3).load, shapes={"x": (1,)})
    for shape in ((-1,), (10**18,), (2**70,)):
        assert "x" in message(scaled("n").load, shapes={"x": shape}, error=fg.FastgraphError)


@pytest.mark.parametrize("shape", [None, ("n", 2), (None, 2)])
def test_views_need_shapes_but_run_does_not(shape: Any) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", shape)))
    model = net.load()
    for use in (lambda: model.execute, lambda: model.input("x"), lambda: model.output("y"), lambda: model.arena_bytes):
        said = message(use)
        assert "x" in said and "run" in said and "shapes" in said and "resize" in said
    assert "not planned" in repr(model) and "relu" in str(model)
    assert model(np.full((3, 2), -1, F32)).tolist() == [[0, 0]] * 3
    model.execute()


def test_zero_sized_feeds() -> None:
    net = small_cnn("n", 3, 4, 4)
    assert net.load()(np.zeros((0, 3, 4, 4), F32)).shape == (0, 5)
    assert scaled("n").load()(np.zeros(0, F32)).shape == (0,)


def test_two_inputs_of_one_symbol_that_differ() -> None:
    net = Net()
    net.output(net("Add", net.input("a", ("n",)), net.input("b", ("n",))))
    model = net.load()
    message(model, np.ones(2, F32), np.ones(3, F32), error=fg.FastgraphError)
    assert model(np.ones(2, F32), np.ones(2, F32)).tolist() == [2, 2]


# -- threads and memory


def test_run_from_several_python_threads() -> None:
    net = small_cnn("n", 3, 6, 6)
    model = net.load(threads=2)
    feeds = [np.random.default_rng(i).standard_normal((1 + i % 2, 3, 6, 6)).astype(F32) for i in range(4)]
    expected = [model(x) for x in feeds]
    wrong: list[str] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(model(feeds[i]), expected[i]):
                wrong.append(f"feed {i}")

    at_once(work, range(4))
    assert not wrong


def test_models_run_beside_each_other() -> None:
    models = [scaled(n).load(threads=2) for n in (3, 1000)]
    for _ in range(20):
        for model, n in zip(models, (3, 1000), strict=True):
            assert (model(np.ones(n, F32)) == 3).all()


def test_memory_does_not_grow() -> None:
    model = small_cnn(1, 3, 6, 6).load()
    x = np.ones((1, 3, 6, 6), F32)
    for _ in range(20):
        model(x)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            model(x)
        grown = tracemalloc.get_traced_memory()[0] - before
        execute = model.execute
        execute()
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            execute()
        peak = tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()
    assert grown < 2000, f"{grown} bytes after 1000 runs"
    assert peak < 1000, f"execute allocated {peak} bytes"


def test_the_bound_call_keeps_the_memory_that_it_works_on() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (64, 64))))
    model = net.load()
    execute, given, made = model.execute, model.input(model.inputs[0].name), model.output(model.outputs[0].name)
    del model
    gc.collect()
    others = [np.full(1 << 16, 7, np.uint8) for _ in range(64)]
    given[...] = np.linspace(-1, 1, given.size, dtype=F32).reshape(given.shape)
    execute()
    assert np.array_equal(made, np.maximum(given, 0)) and all((a == 7).all() for a in others)


# -- odd models


def test_no_nodes() -> None:
    net = Net()
    x = net.input("x", (2, 2))
    net.output(x)
    x = np.arange(4, dtype=F32).reshape(2, 2)
    model = net.load()
    np.testing.assert_array_equal(model(x), x)
    found = model(x)
    found[...] = 0
    np.testing.assert_array_equal(model.input("x"), x)


def test_no_inputs() -> None:
    net = Net()
    net.output(net("Add", np.ones(3, F32), np.ones(3, F32)), net("RandomNormal", shape=[2]))
    model = net.load()
    assert model.run({})[model.outputs[0].name].tolist() == [2, 2, 2]
    total, noise = model()
    assert total.tolist() == [2, 2, 2] and noise.shape == (2,)


def test_constant_outputs_are_the_callers_own() -> None:
    net = Net()
    net.input("x", (2,))
    net.output(net.const(np.ones(3, F32)))
    model = net.load()
    found = model(np.ones(2, F32))
    found[...] = 9
    assert model(np.ones(2, F32)).tolist() == [1, 1, 1]
    model.execute()
    assert model.output(model.outputs[0].name).tolist() == [1, 1, 1]


def test_an_unused_input_must_still_be_fed() -> None:
    net = Net()
    net.input("unused", (2,))
    net.output(net("Relu", net.input("x", (2,))))
    model = net.load()
    assert "'unused'" in message(model.run, {"x": np.ones(2, F32)})
    assert list(model.run({"x": np.ones(2, F32), "unused": np.ones(2, F32)}).values())[0].tolist() == [1, 1]


def test_integer_and_bool_models() -> None:
    net = Net()
    i, b = net.input("i", (3,), I64), net.input("b", (3,), bool)
    net.output(net("Add", i, i), dtype=I64)
    net.output(net("Not", b), dtype=bool)
    found = list(net.load().run({"i": np.array([1, 2, -3]), "b": np.array([True, False, True])}).values())
    assert found[0].tolist() == [2, 4, -6] and found[0].dtype == np.int64
    assert found[1].tolist() == [False, True, False] and found[1].dtype == bool


def test_an_index_out_of_range_at_run_time_is_an_error_and_the_model_lives() -> None:
    net = Net()
    i = net.input("i", (2,), I64)
    net.output(net("Gather", np.arange(5, dtype=F32), i))
    model = net.load()
    assert "range" in message(model, np.array([0, 5]))
    assert model(np.array([-1, 0])).tolist() == [4, 0]

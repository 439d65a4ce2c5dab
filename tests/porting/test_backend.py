"""`fastgraph.backend`: the onnx package's interface, and its own suite of tests against it."""

import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg

onnx = pytest.importorskip("onnx")
from fastgraph import backend  # noqa: E402
from tests.model.test_metadata import small_onnx  # noqa: E402

F32 = np.float32
README = Path(__file__).parents[2] / "README.md"

DRAWN = "test_bernoulli"
"""Tests that are not run: a draw may be the stored one by chance."""

EXCLUDED = {
    "test_gradient_": (2, "gradients, for training"),
    DRAWN: (6, "numbers that are drawn at random"),
    "test_resize_downsample_scales_cubic_align_corners_": (1, "onnxruntime gives what we give"),
    "test_resize_downsample_scales_linear_align_corners_": (1, "onnxruntime gives what we give"),
    "test_loop16_seq_none_": (1, "a list of scalars, whose lengths the suite asks for in vain"),
}
"""Tests that don't pass: how their names begin, how many they are, and why."""

COUNTED = {"1.23": 2033}
"""Tests for the CPU, by the release of onnx."""

WIDER = {
    "test_dft_inverse": {"atol": 1e-5}, "test_dft_inverse_opset19": {"atol": 1e-5},  # sums of float32 near 0
    "test_attention_4d_causal_fp16_expanded": {"rtol": 2**-9},  # float16, rounded once and not at each node
    "test_vgg19": {"limits": fg.Limits(constants=1 << 30)},  # 550 MB of weights that 9 KB of nodes make
}  # fmt: skip
"""What single tests need."""


def test_models() -> None:
    model = onnx.load_from_string(small_onnx())
    rep = backend.prepare(model, "CPU", threads=1)
    x = np.array([1, -2], F32)
    for inputs in ([x], x, {"x": x}, (x,)):
        outputs = rep.run(inputs)
        assert outputs[0].tolist() == outputs["y"].tolist() == outputs.y.tolist() == [-1, 2]
    assert isinstance(rep, onnx.backend.base.BackendRep) and issubclass(backend.Backend, onnx.backend.base.Backend)
    assert backend.run_model(model, [x])[0].tolist() == backend.run(model, [x])[0].tolist() == [-1, 2]
    assert backend.is_compatible(model) and not backend.is_compatible(gradient())
    with pytest.raises(fg.InputError, match=r"expected 1 input \(x\), found 2"):
        rep.run([x, x])
    with pytest.raises(fg.InputError, match="expected 'CPU'"):
        backend.prepare(model, "CUDA")
    with pytest.raises(fg.InputError, match="no option is called 'provider'"):
        backend.prepare(model, provider="x")
    assert [backend.supports_device(name) for name in ("CPU", "CPU:0", "CUDA:1", "TPU")] == [True, True, False, False]


def test_a_model_by_its_path_finds_weights_beside_it(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(small_onnx())
    assert backend.run_model(tmp_path / "net.onnx", np.ones(2, F32)).y.tolist() == [-1, -1]


def gradient() -> Any:
    """A model of an operator that there is not."""
    model = onnx.load_from_string(small_onnx())
    model.graph.node[0].op_type, model.graph.node[0].domain = "Gradient", "ai.onnx.preview.training"
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.preview.training", 1))
    return model


def test_nodes() -> None:
    make = onnx.helper.make_node
    x, y = np.array([[1, 2], [3, 4]], F32), np.array([[5], [6]], F32)
    assert backend.run_node(make("MatMul", ["a", "b"], ["c"]), [x, y]).c.tolist() == [[17], [39]]
    assert backend.run_node(make("MatMul", ["a", "b"], ["c"]), {"b": y, "a": x})[0].tolist() == [[17], [39]]
    clip = make("Clip", ["x", "", "most"], ["y"])
    assert backend.run_node(clip, [x, np.array(2, F32)])[0].tolist() == [[1, 2], [2, 2]]
    split = make("Split", ["x"], ["", "second"], num_outputs=2)
    assert backend.run_node(split, x, opset_version=18).second.tolist() == [[3, 4]]
    assert backend.run_node(make("ConcatFromSequence", ["s"], ["y"], axis=0), [[x, x]])[0].shape == (4, 2)
    assert backend.run_node(make("Gelu", ["x"], ["y"], domain="com.microsoft"), x)[0].shape == (2, 2)
    with pytest.raises(fg.InputError, match="node MatMul: expected 2 inputs, found 1"):
        backend.run_node(make("MatMul", ["a", "b"], ["c"]), [x])


class Passed(unittest.TestResult):
    """What passes, and what does not."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed.append(test.id().rpartition(".")[2])


@pytest.mark.slow
def test_the_suite_of_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests for the CPU pass but those listed, and README says how many."""
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("PIL")  # ImageDecoder's
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        suite = BackendTest(backend.Backend, __name__, test_kwargs=WIDER).test_suite
        found = Passed()
        for test in suite:
            name = test.id().rpartition(".")[2]
            if name.endswith("_cpu") and name.startswith(DRAWN):
                found.addSkip(test, EXCLUDED[DRAWN][1])
            elif name.endswith("_cpu"):
                test.run(found)
    bad = {test.id().rpartition(".")[2]: what for test, what in (*found.failures, *found.errors, *found.skipped)}
    unknown = {name: what for name, what in bad.items() if not name.startswith(tuple(EXCLUDED))}
    assert not unknown, "\n".join(f"{name}: {what}" for name, what in unknown.items())
    release = ".".join(onnx.__version__.split(".")[:2])
    if release not in COUNTED:
        pytest.skip(f"all pass; the counts in README are those of onnx {', '.join(COUNTED)}")
    assert len(found.passed) + len(bad) == COUNTED[release]
    for start, (count, why) in EXCLUDED.items():
        assert sum(name.startswith(start) for name in bad) == count, (start, why)


def test_readme_says_how_many_pass() -> None:
    text = " ".join(README.read_text("utf-8").split())
    total = COUNTED["1.23"]
    passed = total - sum(count for count, _ in EXCLUDED.values())
    assert f"Of the {total:,} tests for the CPU of ONNX's own suite, `onnx.backend.test`, {passed:,} pass" in text

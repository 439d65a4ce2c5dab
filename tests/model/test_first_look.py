"""What users look at and try first: dir, help, print, setting attributes, copies."""

import ast
import pickle
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.ir import Quantization, TensorType, Value
from tests.nets import Net
from tests.processes import python


def negated(*shape: Any) -> Net:
    net = Net()
    net.output(net("Neg", net.input("x", shape)))
    return net


# -- what can't be done to a model


@pytest.mark.parametrize(("name", "value", "advice"), [
    ("threads", 7, "load(..., threads=7)"), ("isa", "avx2", "isa='avx2'"), ("inputs", [], "resize"),
    ("arena_bytes", 1, "resize"), ("graph", None, "'graph'"), ("thread", 1, "'thread'"),
])  # fmt: skip
def test_attributes_are_not_set(name: str, value: Any, advice: str) -> None:
    model = negated(4).load(threads=1)
    with pytest.raises(AttributeError, match="can't be set") as caught:
        setattr(model, name, value)
    assert advice in str(caught.value)
    assert model.threads == 1 and model.inputs[0].name == "x" and not hasattr(model, "thread")


# -- what users look at


def test_dir_shows_what_is_for_users() -> None:
    shown = {name for name in dir(fg) if not name.startswith("_")}
    assert shown == set(fg.__all__) and "__version__" in dir(fg)
    assert all(getattr(fg, name).__doc__ for name in fg.__all__)


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    done = subprocess.run([sys.executable, "-c", "import fastgraph; fastgraph.lod"], capture_output=True, text=True)
    assert "has no attribute 'lod'. Did you mean: 'load'?" in done.stderr


def test_help_shows_it_with_its_documentation() -> None:
    said = pydoc.plain(pydoc.render_doc(fg))
    for text in ("load(", "A model from an ONNX", "class Model", "Outputs by name", "verify(", "class Plans", "Limits"):
        assert text in said
    assert "import_module" not in said and "TYPE_CHECKING" not in said


def test_looking_imports_nothing() -> None:
    code = "import sys, fastgraph; dir(fastgraph); print([m for m in sys.modules if m.startswith('fastgraph.')])"
    assert set(ast.literal_eval(python("-c", code))) <= {"fastgraph.errors", "fastgraph.locks"}


def test_a_model_without_a_plan_prints_a_screen() -> None:
    net = Net()
    y = net.input("x", ("n", 4))
    for _ in range(300):
        y = net("Relu", net("Neg", y))
    net.output(y)
    text = str(net.load())
    assert "300 relu" in text and "'n'" not in text and "no plan yet" in text and len(text) < 1000


def test_quantize_knows_the_type_of_an_input() -> None:
    spec = fg.TensorSpec.of(Value("x", TensorType(np.dtype(np.int8), (1, 2), Quantization((0.5,), (1,)))))
    assert spec.quantization is not None
    stored = spec.quantization.quantize([[0.5, 100]])
    assert stored.dtype == np.int8 and stored.tolist() == [[2, 127]]
    assert spec.quantization.quantize([0.5], np.uint8).dtype == np.uint8
    assert spec.quantization == Quantization((0.5,), (1,)) == pickle.loads(pickle.dumps(spec)).quantization
    assert repr(spec.quantization) == repr(Quantization((0.5,), (1,)))

"""Operators of users in each format, and on the command line."""

from typing import Any

import numpy as np
import pytest
from flatbuffers.flexbuffers import Dumps

import fastgraph as fg
from tests.circle.write import Model
from tests.custom_ops import (
    between,
    forgotten,  # noqa: F401
    is_native,
    numbers,
    register,
    same,
    squash,
    squashed,
)
from tests.mil.mil_write import Program
from tests.nets import Net


@pytest.mark.parametrize("schema", ["tflite", "circle"])
def test_a_custom_operator_of_tflite(schema: str) -> None:
    def scaled(x, y, factor, steps):
        for i in range(x.size):
            y.flat[i] = x.flat[i] * factor + steps[1]

    register("Scaled", scaled)
    m = Model(schema)
    options = bytes(Dumps({"factor": 2.5, "steps": [1, 7]}))
    data = m.bytes(m.op("Scaled", [m.input((2, 3))], [(2, 3)], custom=options))
    model, x = fg.load(data, threads=1), numbers(2, 3)
    assert is_native(model.plan)
    np.testing.assert_allclose(model(x), x * 2.5 + 7, rtol=1e-6)
    assert fg.verify(model).ok


def test_options_that_are_no_map_are_bytes() -> None:
    def shifted(x, y, custom_options):
        for i in range(x.size):
            y[i] = x[i] + custom_options[1]

    register("Shifted", shifted)
    m = Model()
    data = m.bytes(m.op("Shifted", [m.input((4,))], [(4,)], custom=b"\x01\x09\x00\x80"))
    x = numbers(4)
    for isa in (None, "numpy"):
        np.testing.assert_allclose(fg.load(data, isa=isa)(x), x + 9, rtol=1e-6)


def test_quantized_operands_are_the_stored_integers() -> None:
    def negated(x, y):
        for i in range(x.size):
            y[i] = -x[i]

    register("Negated", negated)
    m = Model()
    x = m.input((4,), np.int8, (0.5, 0))
    data = m.bytes(m.op("Negated", [x], [((4,), np.int8, (0.5, 0))], custom=b""))
    stored = np.int8([1, -2, 3, 100])
    model = fg.load(data)
    assert is_native(model.plan)
    np.testing.assert_array_equal(model(stored), -stored)
    assert fg.verify(model).ok


def test_a_custom_layer_of_core_ml() -> None:
    def mixed(b, a, y, alpha, mode):
        for i in range(a.size):
            y.flat[i] = a.flat[i] - b.flat[i] * alpha if mode == "minus" else 0

    register("MyLayer", mixed)
    x, w = numbers(1, 4), numbers(1, 4, seed=1)
    for order in ([np.array("b", object), np.array("a", object)], []):
        p = Program()
        p.input("x", (1, 4))
        more = {"input_order": _text_list(order)} if order else {}
        p.output(p.op("custom_layer", "y", types=("FLOAT32", (1, 4)), a="x", b=w, alpha=np.float32(2),
                      mode=np.array("minus", object), class_name=np.array("MyLayer", object),
                      description=np.array("says", object), direct=(*more,), **more))  # fmt: skip
        model = fg.load(p.zip(), threads=1)
        assert is_native(model.plan)
        np.testing.assert_allclose(model(x), x - 2 * w, rtol=1e-5)


def _text_list(items: list[Any]) -> Any:
    from tests.mil.mil_write import list_value

    return list_value(items)


def test_an_operator_of_core_ml_that_is_unknown() -> None:
    def squash(x, y):
        for i in range(x.size):
            y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))

    register("squash", squash)
    p = Program()
    p.output(p.op("squash", "y", x=p.input("x", (1, 4))))
    x = numbers(1, 4)
    np.testing.assert_allclose(fg.load(p.zip(), threads=1)(x), squashed(x), rtol=1e-6)


def test_float16_of_core_ml_is_float32() -> None:
    register("squash")
    p = Program()
    half = p.op("cast", "h", x=p.input("x", (2, 3)), dtype=np.array("fp16", object), types=("FLOAT16", (2, 3)))
    p.output(
        p.op("cast", "y", x=p.op("squash", "s", x=half), dtype=np.array("fp32", object), types=("FLOAT32", (2, 3)))
    )
    x = numbers(2, 3)
    model = fg.load(p.zip(), threads=1)
    assert is_native(model.plan)
    np.testing.assert_allclose(model(x), squashed(x), rtol=2e-3)


def test_files_without_domains_want_one_of_the_name() -> None:
    m = Model()
    data = m.bytes(m.op("Squash", [m.input((4,))], [(4,)], custom=b""))
    register()
    fg.register_custom_op("other", "Squash", infer=same, kernel=squash)
    with pytest.raises(fg.ModelError, match="domains 'my.domain', 'other'.*domain None"):
        fg.load(data)
    fg.register_custom_op(None, "Squash", infer=same, kernel=squash)
    x = numbers(4)
    np.testing.assert_allclose(fg.load(data)(x), squashed(x), rtol=1e-6)


def test_the_standard_domain_keeps_its_operators() -> None:
    def wrong(x, y):
        y[0] = 1

    fg.register_custom_op(None, "Relu", infer=same, kernel=wrong)
    fg.register_custom_op("ai.onnx", "Squash", infer=same, kernel=squash)
    net = Net()
    net.output(net("Squash", net("Relu", net.input("x", (4,)))))
    x = numbers(4)
    np.testing.assert_allclose(net.load()(x), squashed(np.maximum(x, 0)), rtol=1e-6)


OPS_FILE = """
import fastgraph as fg


def squash(x, y):
    for i in range(x.size):
        y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))


fg.register_custom_op("my.domain", "Squash", infer=lambda types, attrs: [types[0]], kernel=squash)
"""


def test_the_command_line_takes_a_file_of_them(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from fastgraph.cli import main

    net, ops, wrong = tmp_path / "net.onnx", tmp_path / "ops.py", tmp_path / "wrong.py"
    net.write_bytes(between().bytes())
    ops.write_text(OPS_FILE, encoding="utf-8")
    wrong.write_text("import nothing_such", encoding="utf-8")
    assert main(["verify", str(net), "--custom-ops", str(ops)]) == 0
    assert "my.domain.Squash" in capsys.readouterr().out
    assert main(["inspect", str(net)]) == 0
    assert "my.domain.Squash" in capsys.readouterr().out
    for path, says in ((ops, "registered already"), (wrong, "nothing_such"), (net, "Python"), ("no.py", "no.py")):
        assert main(["inspect", str(net), "--custom-ops", str(path)]) == 2
        assert says in capsys.readouterr().err

"""Constants that several operators read: one in the files, and never one for another in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from fastgraph.freedoms import without
from fastgraph.ir import weights
from fastgraph.plan.lower import emit
from tests.compositions.composition import Composition, Const, Input, Op
from tests.compositions.draw import draw
from tests.compositions.forms import FORMS, Declined
from tests.compositions.job import attempt, job, tied

HOW = {"pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
ROWS = Composition(
    {"x": Input((1, 3, 4, 16))},
    {"w": Const((2, 3, 3, 3), "weight", 1), "b": Const((2,), "bias", 2)},
    [Op("conv", ["x", "w", "b"], [f"y{s}"], {**HOW, "strides": (1, s)}) for s in (1, 2, 4)],
    ["y1", "y2", "y4"],
)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_weights_with_other_strides(form: str) -> None:
    attempt(ROWS, form, ("open places 2 0",))


PLAIN, LAST = (0, 1, 2, 3), (0, 2, 3, 1)


@pytest.mark.parametrize(("form", "axes"), [("onnx f32", PLAIN), ("mil f32", PLAIN), ("tflite f32", LAST)])
def test_files_hold_weights_once(form: str, axes: tuple[int, ...]) -> None:
    numbers = np.ascontiguousarray(ROWS.consts["w"].array().transpose(axes)).tobytes()
    assert FORMS[form](ROWS).source.count(numbers) == 1


def test_files_hold_stored_weights_once() -> None:
    held = onnx.load_from_string(FORMS["onnx u8"](ROWS).source).graph.initializer
    assert sum(list(t.dims) == [2, 3, 3, 3] for t in held) == 1


def test_a_view_is_written_as_one() -> None:
    """Of the same constant that is read as it is; a product takes the transpose itself."""
    table = Const((5, 4), "bias", 1)
    net = Composition(
        {"x": Input((2, 4))}, {"t": table, "u": Const((4, 5), "bias", 1, view="turned"), "b": Const((5,), "bias")},
        [Op("dense", ["x", "u", "b"], ["s"], {"gemm": True}), Op("dense", ["s", "t"], ["y"], {"gemm": False})], ["y"],
    )  # fmt: skip
    assert np.array_equal(net.consts["u"].array(), table.array().T)
    graph = onnx.load_from_string(FORMS["onnx f32"](net).source).graph
    assert [node.op_type for node in graph.node if node.op_type != "Transpose"] == ["Gemm", "MatMul"]
    attempt(net, "onnx f32", ("open batch 2 0",))


def test_half_of_what_is_drawn_shares_constants() -> None:
    nets = [draw(seed) for seed in range(200)]
    assert sum(map(tied, nets)) > 50
    assert {const.view for net in nets for const in net.consts.values()} == {"", "turned", "flat", "first", "second"}


Key = Callable[..., Any]


def without_part(name: str, part: int) -> Key:
    """A key that lacks an argument of the functions of that name."""
    honest = weights.key_of

    def key_of(make: Any, parts: Any, place: Any) -> Any:
        return honest(make, [p for i, p in enumerate(parts) if (make.__name__, i) != (name, part)], place)

    return key_of


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), [("_panels", 1), ("_panels", 2), ("panels", 1), ("panels", 4)])
def test_a_key_that_says_too_little_is_noticed(name: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By some network that reads weights several times: biases, arrangements, layers, or columns are mixed up."""
    key_of = without_part(name, part)
    monkeypatch.setattr(weights, "key_of", key_of)
    monkeypatch.setattr(emit, "key_of", key_of)
    for seed in range(1000):
        chosen = job(seed, seed % 2)
        if tied(chosen.net()):
            try:
                with without("amx_conv", "amx_real"):
                    attempt(chosen.net(), chosen.form, chosen.variants)
            except Declined:
                continue
            except Exception:
                return
    pytest.fail("no network shows it")

"""A resize that is folded, computed by the reference or run by a kernel picks the same pixels as onnxruntime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from tests.nets import Net, session

MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
)  # fmt: skip


def answers(x: np.ndarray, roi: Any, scales: Any, sizes: Any, **attrs: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """(ours: folded, with a roi that is fed, by kernels; onnxruntime's)."""
    ours, wanted = [], None
    for constant, fed in ((True, False), (False, True), (False, False)):
        net = Net(19)
        entry = net.const(x) if constant else net.input("x", x.shape)
        crop = net.input("roi", (len(roi),)) if fed else net.const(roi)
        numbers = [crop, "" if scales is None else net.const(scales), "" if sizes is None else net.const(sizes)]
        y = net("Resize", entry, *numbers[: 3 if sizes is not None else 2], **attrs)
        net.output(y)
        feeds = ({} if constant else {"x": x}) | ({"roi": roi} if fed else {})
        ours.append(net.load().run(feeds)[y])
        wanted = session(net.bytes()).run(None, feeds)[0]
    assert wanted is not None
    return ours, wanted


@pytest.mark.parametrize(("n_in", "n_out"), [(14, 2), (22, 13), (7, 4), (28, 1), (20, 6)])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel"])
def test_one_answer(n_in: int, n_out: int, rounding: str, mode: str) -> None:
    x = np.arange(n_in, dtype=np.float32)
    attrs = {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": mode}
    ours, wanted = answers(x, np.float32([0, 1]), None, np.array([n_out]), **attrs)
    for one in ours:
        np.testing.assert_array_equal(one, wanted)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_resize(data: Any) -> None:
    shape = (1, 2, data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20)))
    out = [data.draw(st.integers(1, 30).filter(lambda n, d=d: n != d)) for d in shape[2:]]
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    attrs = {"mode": mode, "coordinate_transformation_mode": data.draw(st.sampled_from(MODES)),
             "extrapolation_value": 3.5}  # fmt: skip
    if mode == "nearest":
        attrs["nearest_mode"] = data.draw(st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    else:
        attrs["antialias"] = data.draw(st.integers(0, 1))
    low, high = data.draw(st.integers(-20, 25)) / 64, data.draw(st.integers(32, 85)) / 64
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    scales = None
    if data.draw(st.booleans()):
        scales = np.float32([1, 1, *((n + 0.25) / d for n, d in zip(out, shape[2:], strict=True))])
    sizes = None if scales is not None else np.array([1, 2, *out])
    ours, wanted = answers(x, np.float32([0, 0, low, low, 1, 1, high, high]), scales, sizes, **attrs)
    for one in ours:
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("attrs", [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "cubic", "exclude_outside": 1}])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_reaches_what_reads_it(attrs: dict[str, Any], value: float) -> None:
    x = np.random.default_rng(2).standard_normal((1, 2, 7, 6)).astype(np.float32)
    x[0, 0, 4, 1] = value
    ours, wanted = answers(x, np.zeros(8, np.float32), np.float32([1, 1, 2, 1.5]), None, **attrs)
    for found in ours:
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_extents_by_scales_are_those_of_f32() -> None:
    """f32(0.7) is less than 0.7, and f32(10) times it is 7."""
    ours, wanted = answers(np.arange(10, dtype=np.float32), np.float32([0, 1]), np.float32([0.7]), None, mode="nearest")
    assert wanted.shape == (7,) and all(np.array_equal(one, wanted) for one in ours)


def test_a_tensor_that_keeps_its_shape_is_copied() -> None:
    ours, wanted = answers(np.arange(4, dtype=np.float32), np.float32([0, 1]), np.float32([1.2]), None, mode="nearest")
    assert wanted.tolist() == [0, 1, 2, 3] and all(np.array_equal(one, wanted) for one in ours)


def test_a_number_for_places_outside_is_held_within_the_type() -> None:
    """As reals are rounded for bytes with a scale, and cut for integers without one."""
    net = Net(19)
    x = net.input("x", (4,), np.uint8)
    y = net("Resize", x, [-1.0, 2.0], "", [8], mode="nearest",
            coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=1e9)  # fmt: skip
    net.output(y, dtype=np.uint8)
    assert fg.load(net.bytes(), threads=1)(np.arange(4, dtype=np.uint8))[0] == 255

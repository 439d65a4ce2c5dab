"""Resize kernels against their tables' NumPy meaning; the tables against onnxruntime and ONNX's reference."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.coordinates import nearest_indices
from fastgraph.kernels.move.resize_plan import resized
from fastgraph.kernels.move.resize_tables import Axis, ResizeTable, resize_table
from fastgraph.kernels.move.take_plan import taken
from tests.kernels.harness import drawn, each_tier, noise
from tests.kernels.moving import perform, weighted
from tests.nets import Net, by_onnxruntime, session

WIDEST = tiers.usable()[-1]

MODES = "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_crop_and_resize".split()
ROUNDINGS = "round_prefer_floor round_prefer_ceil floor ceil".split()
VARIANTS: list[dict[str, Any]] = [
    {"mode": "linear"},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic"},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
    {"mode": "cubic", "antialias": 1},
    {"mode": "cubic", "exclude_outside": 1},
    {"mode": "linear", "antialias": 1, "exclude_outside": 1},
]
SIZES = [((7, 5), (14, 15)), ((7, 5), (3, 4)), ((6, 10), (10, 3)), ((9, 8), (2, 1))]
ROI = ((0.1, 0.8), (-0.2, 1.2))


def through_kernels(x, axes: dict[int, ResizeTable], tier, threads: int = 1, extrapolation: float = 0.0) -> np.ndarray:
    for plan, out in resized(x.shape, axes, extrapolation):
        x = perform(plan, x, out, tier, threads, offset=4)
    return x


def by_onnx(x: np.ndarray, out: tuple[int, int], **attributes: Any) -> tuple[np.ndarray, np.ndarray]:
    """(onnxruntime's, the ONNX reference's) Resize of the two last axes of x to `out`."""
    net, whole = Net(19), [0.0, 0.0, ROI[0][0], ROI[1][0], 1.0, 1.0, ROI[0][1], ROI[1][1]]
    sizes = net.const(np.array([*x.shape[:2], *out]))
    attributes["extrapolation_value"] = 3.5
    net.output(net("Resize", net.input("x", x.shape), whole, "", sizes, **attributes))
    return by_onnxruntime(net.bytes(), {"x": x})[0], ReferenceEvaluator(net.model()).run(None, {"x": x})[0]


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def test_tables_agree_with_onnx(coordinates, variant):
    for shape, out in SIZES:
        x = noise(1, 2, *shape)
        runtime, reference = by_onnx(x, out, coordinate_transformation_mode=coordinates, **variant)
        y = x
        for k in range(2):
            table = resize_table(Axis(shape[k], out[k], roi=ROI[k]), coordinate_mode=coordinates, **variant)
            y = weighted(y, 2 + k, table, 3.5)
        np.testing.assert_allclose(y, runtime, atol=1e-5)
        # The reference differs at the border of a crop and for a single pixel of pytorch_half_pixel.
        if coordinates not in ("tf_crop_and_resize", "pytorch_half_pixel"):
            np.testing.assert_allclose(y, reference, atol=1e-5)


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest_agrees_with_onnxruntime(coordinates, rounding):
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding, "mode": "nearest"}
    for shape, out in SIZES:
        x = noise(1, 2, *shape)
        places = [nearest_indices(shape[k], out[k], coordinates, rounding, roi=ROI[k]) for k in range(2)]
        plan = taken(x.shape, [None, None, *places], 4, fill=int(np.float32(3.5).view(np.int32)))
        expected, _ = by_onnx(x, out, **attributes)
        np.testing.assert_array_equal(perform(plan, x, expected.shape, WIDEST), expected)


KERNEL_CASES = [
    ((2, 5, 6, 37), {1: 10, 2: 12}, {}),
    ((1, 9, 8, 64), {1: 4, 2: 5}, {}),
    ((1, 5, 6, 3), {1: 9, 2: 11}, {}),
    ((2, 3, 5, 6), {2: 7, 3: 13}, {}),
    ((2, 5, 7, 18), {2: 9, 3: 31}, {"mode": "cubic"}),
    ((1, 4, 5, 6, 40), {1: 7, 2: 10, 3: 9}, {}),
    ((1, 5, 6, 21), {1: 10, 2: 12}, {"mode": "cubic"}),
    ((1, 17, 14, 3), {1: 5, 2: 4}, {"mode": "cubic", "antialias": True}),
    ((1, 17, 14, 70), {1: 5}, {"antialias": True}),
]


@each_tier
@pytest.mark.parametrize("shape, axes, how", KERNEL_CASES)
def test_kernels_do_what_the_tables_say(tier: Any, shape: Any, axes: dict[int, int], how: dict[str, Any]) -> None:
    x = noise(*shape)
    tables = {
        axis: resize_table(Axis(shape[axis], n), coordinate_mode="half_pixel", **{"mode": "linear", **how})
        for axis, n in axes.items()
    }
    expected = x
    for axis, table in tables.items():
        expected = weighted(expected, axis, table)
    y = through_kernels(x, tables, tier)
    np.testing.assert_allclose(y, expected, atol=2e-6)
    for threads in (2, 3):
        np.testing.assert_array_equal(through_kernels(x, tables, tier, threads), y)


@drawn(40)
def test_crops_with_extrapolation(pick: Random) -> None:
    x = noise(pick.randint(1, 3), pick.randint(2, 8), pick.randint(1, 20))
    roi = (pick.uniform(-0.5, 0.5), pick.uniform(0.6, 1.5))
    table = resize_table(Axis(x.shape[1], pick.randint(1, 12), roi=roi), "linear", "tf_crop_and_resize")
    y = through_kernels(x, {1: table}, WIDEST, 2, extrapolation=-7.0)
    np.testing.assert_allclose(y, weighted(x, 1, table, -7.0), atol=2e-6)
    assert (y[:, table.outside] == -7).all()


def test_an_axis_that_keeps_its_size_is_copied():
    table = resize_table(Axis(6, 6), "cubic", "half_pixel")
    x = noise(6)
    np.testing.assert_array_equal(weighted(x, 0, table), x)


def test_unknown_modes_are_named():
    with pytest.raises(ValueError, match="half_pixle"):
        resize_table(Axis(4, 8), "linear", "half_pixle")
    with pytest.raises(ValueError, match="area"):
        resize_table(Axis(4, 8), "area", "half_pixel")


def runtime_nearest(coordinates: str, rounding: str, given: str) -> Callable[..., np.ndarray]:
    """onnxruntime's nearest Resize of one axis: places(n_in, number of sizes or scales, roi)."""
    net, counts = Net(19), np.dtype(np.int64 if given == "sizes" else np.float32)
    x, roi, n = net.input("x", [None]), net.input("roi", [2]), net.input("n", [1], counts)
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates, "extrapolation_value": -1.0}
    net.output(net("Resize", *([x, roi, "", n] if given == "sizes" else [x, roi, n]), mode="nearest", **attributes))
    runtime = session(net.bytes())

    def places(n_in: int, number: float, roi: tuple[float, float]) -> np.ndarray:
        feeds = {"x": np.arange(n_in, dtype=np.float32), "roi": np.float32(roi), "n": np.array([number], counts)}
        found: np.ndarray = runtime.run(None, feeds)[0]
        return found

    return places


@pytest.mark.parametrize("given", ["sizes", "scales"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", MODES)
def test_nearest_indices_of_many_sizes_are_onnxruntimes(coordinates, rounding, given):
    """Ties fall to the same side in all of them, whatever f32 makes of the quotients."""
    wanted = runtime_nearest(coordinates, rounding, given)
    rng = np.random.default_rng(0)
    for n_in in (1, 2, 4, 7, 10, 14, 22, 28, 49, 98, 130):
        for n_out in (*range(1, 131, 6), 2):
            roi = (float(np.float32(rng.uniform(-0.2, 0.5))), float(np.float32(rng.uniform(0.6, 1.2))))
            exact = np.float32(n_out) / np.float32(n_in)
            scale = None if given == "sizes" else exact * np.float32(rng.choice([1, 1.1]))
            expected = wanted(n_in, n_out if scale is None else scale, roi)
            # A tensor that keeps its size is copied there, even by a crop.
            if len(expected) != n_in:
                got = nearest_indices(n_in, len(expected), coordinates, rounding, scale, roi)
                np.testing.assert_array_equal(got, expected)

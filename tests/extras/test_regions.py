"""Regions of images, and convolutions that read where they are told: against onnxruntime and the references."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

import fastgraph as fg
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.runtime.model import Model
from tests.nets import Net, numpy_steps

F32, I64 = np.float32, np.int64
RNG = np.random.default_rng(3)
ROIS = """3 4 40 30  0 0 59 39  -9 -5 10 9  50 30 90 70  200 200 300 300  7 7 7 7  8.4 3.3 9.1 3.9"""
DEFORMED = [{}, {"group": 2}, {"offset_group": 2}, {"strides": [2, 1], "pads": [1, 2, 0, 1]}]
DEFORMED += [{"dilations": [2, 1], "group": 4}]


def as_onnxruntime(net: Net, feeds: dict[str, np.ndarray]) -> None:
    model = net.load()
    assert numpy_steps(model) == []
    (wanted,) = onnxruntime.InferenceSession(net.bytes()).run(None, feeds)
    (found,) = model.run(feeds).values()
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("pixels", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio, size", [(2, (7, 7)), (1, (3, 5)), (3, (2, 1))])
def test_roi_align(ratio: int, size: tuple[int, int], pixels: str, mode: str) -> None:
    """Regions within, beyond and far outside of the image, of no extent, and turned round."""
    net = Net(16)
    x = RNG.standard_normal((2, 5, 20, 30)).astype(F32)
    rois = np.array(ROIS.split(), F32).reshape(-1, 4)
    batch = np.array([0, 1, 1, 0, 1, 0, 1], I64)
    operands = [net.input("x", x.shape), net.input("rois", rois.shape), net.input("batch", batch.shape, I64)]
    told = {"output_height": size[0], "output_width": size[1], "sampling_ratio": ratio, "spatial_scale": 0.5}
    net.output(net("RoiAlign", *operands, mode=mode, coordinate_transformation_mode=pixels, **told))
    as_onnxruntime(net, {"x": x, "rois": rois, "batch": batch})


@pytest.mark.parametrize("tier", [tier.name for tier in usable()])
@pytest.mark.parametrize("channels, ratio", [(1, 1), (1, 2), (3, 16), (24, 1), (67, 2), (8, 5)])
def test_means_of_samples(channels: int, ratio: int, tier: str) -> None:
    """On every tier, with as many channels as fill no vector, one, or many; the same bits from two threads."""
    rng, results = np.random.default_rng(channels), []
    x = rng.standard_normal((3, channels, 9, 7)).astype(F32)
    rois = np.concatenate([np.array(ROIS.split(), F32).reshape(-1, 4), rng.uniform(-5, 40, (40, 4)).astype(F32)])
    feeds = {"x": x, "rois": rois, "batch": rng.integers(0, 3, len(rois))}
    net = Net(16)
    operands = [net.input(name, each.shape, each.dtype) for name, each in feeds.items()]
    told = {"output_height": 3, "output_width": 5, "sampling_ratio": ratio, "spatial_scale": 0.25}
    net.output(net("RoiAlign", *operands, coordinate_transformation_mode="output_half_pixel", **told))
    (wanted,) = onnxruntime.InferenceSession(net.bytes()).run(None, feeds)
    for threads in (1, 2):
        model = net.load(threads=threads, isa=tier)
        assert numpy_steps(model) == []
        results += model.run(feeds).values()
    np.testing.assert_allclose(results[0], wanted, 1e-4, 1e-5)
    assert results[0].tobytes() == results[1].tobytes()
    with pytest.raises(fg.InputError):
        model.run(feeds | {"batch": np.full(len(rois), 3)})


@pytest.mark.parametrize("case", DEFORMED)
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(masked: bool, case: dict[str, Any]) -> None:
    """Offsets that lead out of the image, too; with a bias."""
    x, kernel = RNG.standard_normal((2, 4, 8, 9)).astype(F32), (3, 2)
    s, d, p = case.get("strides", [1, 1]), case.get("dilations", [1, 1]), case.get("pads", [0] * 4)
    out = [(n + p[i] + p[i + 2] - (kernel[i] - 1) * d[i] - 1) // s[i] + 1 for i, n in enumerate(x.shape[2:])]
    parts = case.get("offset_group", 1)
    offset = (RNG.standard_normal((2, parts * 12, *out)) * 3).astype(F32)
    mask = RNG.uniform(0, 1, (2, parts * 6, *out)).astype(F32)
    net = Net(19)
    w = net.weight(8, 4 // case.get("group", 1), *kernel)
    operands = [net.input("x", x.shape), w, net.input("offset", offset.shape), net.weight(8)]
    operands += [net.input("mask", mask.shape)] if masked else []
    net.output(net("DeformConv", *operands, **case))
    as_onnxruntime(net, {"x": x, "offset": offset, **({"mask": mask} if masked else {})})


BOXES = ("corners_height_first", "corners_width_first", "center_size_height_first", "center_size_width_first")
SAMPLING = ("default", "strict_align_corners", "align_corners", "unalign_corners", "offset_corners")


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("size", [(4, 3), pytest.param((1, 1), marks=pytest.mark.slow)])
def test_boxes_that_are_made_at_run_time(size: tuple[int, int], boxes: str, sampling: str) -> None:
    """Core ML's crop_resize, whose boxes no constant says: within the image, beyond it, and turned round."""
    x = RNG.standard_normal((2, 3, 12, 15)).astype(F32)
    where = np.concatenate([RNG.uniform(-0.2, 1.2, (5, 4)), [[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0]]]).astype(F32)
    for normalized in (0, 1):
        for every, images in ((0, np.array([1, 0, 1, 1, 0, 0, 1], I64)), (1, None)):
            attrs = {"size": size, "boxes": boxes, "sampling": sampling, "normalized": normalized, "every": every}
            attrs |= {"pad_value": 2.5, "scale": 1.0 if normalized else 14.0}
            _like_reference([x, where, *([] if images is None else [images])], attrs)


def _like_reference(arrays: list[np.ndarray], attrs: dict[str, Any]) -> None:
    inputs: list[Value | None] = [Value(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays)]
    given = [v for v in inputs if v is not None]
    y = Value("y")
    node = Node("crop_resize", [*inputs, None] if len(inputs) == 2 else inputs, [y], attrs, "n")
    graph = Graph("g", given, [y], [node])
    infer_graph(graph)
    feeds = {v.name: array for v, array in zip(given, arrays, strict=True)}
    (wanted,) = evaluate(graph, feeds)
    model = Model(graph, usable()[-1], 1)
    assert numpy_steps(model) == []
    np.testing.assert_allclose(next(iter(model.run(feeds).values())), wanted, 1e-5, 1e-5)

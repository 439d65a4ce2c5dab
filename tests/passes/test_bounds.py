"""Values whose extents depend on data are planned at the most that there may be: right for every extent, and native."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import fastgraph as fg
from fastgraph.tools.numpy_operators import on_host
from tests.nets import F32, I64, Net, by_onnxruntime
from tests.passes.bounded_nets import feeds, network

LEVELS = (-np.inf, -2.0, 0.0, 3.0, np.inf)
"""All counts, much, half, little, nothing."""


def outcome(run: Any, *given: Any) -> Any:
    try:
        return run(*given)
    except Exception as error:
        return error


def same(found: Any, wanted: Any, what: str) -> None:
    """Outputs agree: integers just so, floats to the rounding of their sums."""
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, output {i}: {a.shape}, not {b.shape}"
        np.testing.assert_allclose(a, b, 1e-5, 1e-5, equal_nan=True, err_msg=f"{what}, output {i}")


@given(st.data(), st.sampled_from(["generic", "avx2", None]), st.sampled_from([1, 2]))
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_random_networks(data: Any, isa: str | None, threads: int) -> None:
    source = network(data.draw).bytes()
    model, plain = fg.load(source, isa=isa, threads=threads), fg.load(source, isa="numpy")
    for seed, level in enumerate(LEVELS):
        fed = feeds(seed, level)
        found, wanted = list(model.run(fed).values()), list(plain.run(fed).values())
        same(found, wanted, f"level {level}, as NumPy has it")
        other = outcome(by_onnxruntime, source, fed)
        if not isinstance(other, Exception):
            # The mean of nothing is not said to be anything: 0 there, NaN here.
            known = [not np.isnan(a).any() for a in found]
            both = ([a for a, k in zip(arrays, known, strict=True) if k] for arrays in (found, other))
            same(*both, f"level {level}, as onnxruntime has it")


def native(net: Net) -> fg.Model:
    model = net.load()
    assert not on_host(model.plan.compiled), str(model)
    return model


def agree(model: fg.Model, net: Net, fed: dict[str, Any]) -> list[np.ndarray]:
    """What onnxruntime gives."""
    found = list(model.run(fed).values())
    same(found, by_onnxruntime(net.bytes(), fed), "onnxruntime")
    return found


def single_shot(anchors: int, classes: int, candidates: int, detections: int) -> Net:
    """What torchvision's exporter writes for the detections of an SSD: boxes of each class above a score, the best of
    them, suppression class by class by moving them apart, unless there is no box, and the best of all.
    """
    net = Net(16)
    boxes, scores = net.input("boxes", (anchors, 4)), net.input("scores", (anchors, classes))
    kept: list[list[str]] = [[], [], []]
    for c in range(1, classes):
        score = net("Gather", scores, c, axis=1)
        mask = net("Greater", score, 0.3)
        score = net("GatherND", score, net("Transpose", net("NonZero", mask), perm=[1, 0]))
        box = net("GatherND", boxes, net("Transpose", net("NonZero", mask), perm=[1, 0]))
        size = net("Unsqueeze", net("Gather", net("Shape", score), 0, axis=0), [0])
        k = net("ReduceMin", net("Concat", [candidates], size, axis=0), keepdims=0)
        best, places = net("TopK", score, net("Reshape", k, [1]), outputs=2, axis=0)
        label = net("ConstantOfShape", net("Shape", best), value=helper.make_tensor("v", 7, [1], [c]))
        for values, value in zip(kept, (net("Gather", box, places, axis=0), best, label), strict=True):
            values.append(value)
    box, score, label = (net("Concat", *values, axis=0) for values in kept)
    empty, some = Net(16, prefix="t_"), Net(16, prefix="e_")
    empty.output(empty("Constant", value=helper.make_tensor("v", 7, [0], [])), dtype=I64)
    apart = some("Add", some("ReduceMax", box, keepdims=0), 1.0)
    moved = some("Unsqueeze", some("Mul", some("Cast", label, to=1), apart), [1])
    moved = some("Unsqueeze", some("Add", box, moved), [0])
    found = some("NonMaxSuppression", moved, some("Unsqueeze", score, [0, 1]), [2**62],
                 [0.45])  # fmt: skip
    some.output(some("Squeeze", some("Gather", found, [2], axis=1), [1]), dtype=I64)
    none = net("Equal", net("Size", box), 0)
    keep = net("If", none, then_branch=empty.graph(), else_branch=some.graph())
    keep = net("Slice", keep, [0], [detections], [0])
    net.output(net("Gather", box, keep, axis=0), net("Gather", score, keep, axis=0))
    net.output(net("Gather", label, keep, axis=0), dtype=I64)
    return net


def some_boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    boxes = rng.random((count, 4)).astype(F32)
    boxes[:, 2:] += boxes[:, :2]
    return boxes


def test_detections_of_a_single_shot_network() -> None:
    net = single_shot(60, 4, 20, 9)
    model, rng = native(net), np.random.default_rng(0)
    counts = set()
    for share in (0, 0.02, 0.1, 0.5, 1):
        scores = rng.permutation(np.linspace(0.31, 1, 240).astype(F32)).reshape(60, 4)
        scores[rng.random((60, 4)) >= share] = 0.1
        counts.add(len(agree(model, net, {"boxes": some_boxes(rng, 60), "scores": scores})[0]))
    assert {0, 9} < counts


def test_detections_whose_scores_are_flattened() -> None:
    """As RetinaNet's: the best of all scores above a limit say the anchor and the class."""
    net = Net(17)
    boxes, scores = net.input("boxes", (20, 4)), net.input("scores", (20, 3))
    flat = net("Reshape", scores, [-1])
    places = net("Squeeze", net("NonZero", net("Greater", flat, 0.5)), [0])
    flat = net("Gather", flat, places)
    k = net("ReduceMin", net("Concat", [7], net("Shape", flat), axis=0), keepdims=1)
    best, order = net("TopK", flat, k, outputs=2)
    places = net("Gather", places, order)
    anchors, labels = net("Div", places, [3]), net("Mod", places, [3])
    box = net("Gather", boxes, anchors)
    low, high = net("Split", box, [2, 2], outputs=2, axis=1)
    box = net("Concat", net("Clip", low, 0.0), high, axis=1)
    size = net("Sub", high, low)
    wide = net("Cast", net("Greater", size, 0.2), to=6)
    wide = net("ReduceMin", wide, axes=[1], keepdims=0)
    kept = net("Squeeze", net("NonZero", wide), [0])
    net.output(net("Gather", box, kept), net("Gather", best, kept))
    net.output(net("Gather", labels, kept), dtype=I64)
    model, rng = native(net), np.random.default_rng(1)
    for level in (0, 0.45, 0.95, 1.5):
        fed = rng.permutation(np.linspace(0, 0.99, 60).astype(F32)).reshape(20, 3) * level
        agree(model, net, {"boxes": some_boxes(rng, 20), "scores": fed.astype(F32)})


def test_rows_that_go_back_to_where_they_were() -> None:
    """As features of regions are put together: rows of each level, and none of those that are not real."""
    net = Net(18)
    x, level = net.input("x", (8, 3)), net.input("level", (8,), I64)
    y = net.const(np.full((8, 3), -1, F32))
    z = net.const(np.zeros((8, 3), F32))
    for n in range(3):
        found = net("NonZero", net("Equal", level, n))
        rows = net("Mul", net("Gather", x, net("Squeeze", found, [0])), np.array(n + 2, F32))
        places = net("Transpose", found, perm=[1, 0])
        z = net("ScatterND", z, places, rows)
        wide = net("Expand", net("Reshape", places, [-1, 1]), net("Shape", rows))
        y = net("ScatterElements", y, wide, rows, axis=0)
    net.output(y, z)
    model, rng = native(net), np.random.default_rng(2)
    for levels in (np.zeros(8, int), np.full(8, 2), np.full(8, 7), rng.integers(0, 4, 8)):
        agree(model, net, {"x": rng.standard_normal((8, 3)).astype(F32), "level": levels})


def regions(count: int) -> Net:
    """Regions pooled from one of two maps each, and put together again, as torchvision's exporter writes it."""
    net = Net(16)
    maps = [net.input(name, (2, 6, side, side)) for name, side in (("fine", 12), ("coarse", 6))]
    rois, image = net.input("rois", (count, 4)), net.input("image", (count,), I64)
    real = net("Greater", net.input("score", (count,)), net.const(np.array(0, F32)))
    rois, image = net("Compress", rois, real, axis=0), net("Compress", image, real, axis=0)
    wide = net("Sub", *(net("Gather", rois, net.const(np.array(i)), axis=1) for i in (2, 0)))
    large = net("Cast", net("Greater", wide, net.const(np.array(20, F32))), to=7)
    size = net("Concat", net("Shape", large), net.const([6, 3, 3]), axis=0)
    y = net("ConstantOfShape", size, value=helper.make_tensor("v", 1, [1], [0.0]))
    for n, (x, scale) in enumerate(zip(maps, (0.25, 0.125), strict=True)):
        found = net("Squeeze", net("NonZero", net("Equal", large, net.const(np.array(n)))), net.const([0]))
        told = {"output_height": 3, "output_width": 3, "sampling_ratio": 2, "spatial_scale": scale}
        pooled = net("RoiAlign", x, net("Gather", rois, found), net("Gather", image, found), **told)
        places = net("Expand", net("Reshape", found, net.const([-1, 1, 1, 1])), net("Shape", pooled))
        y = net("ScatterElements", y, places, pooled, axis=0)
    net.output(net("Relu", net("Gemm", net("Flatten", y), net.weight(54, 5))), y)
    return net


def test_regions_of_maps() -> None:
    net, rng = regions(20), np.random.default_rng(3)
    model = native(net)
    assert {"region_means", "scatter_nd"} <= {step.node.op for step in model.plan.program.steps}
    for real in (0.5, 1, 0):
        low = rng.uniform(0, 30, (20, 2))
        rois = np.concatenate([low, low + rng.uniform(0, 40, (20, 2))], 1).astype(F32)
        fed = {"fine": rng.standard_normal((2, 6, 12, 12)), "coarse": rng.standard_normal((2, 6, 6, 6)), "rois": rois}
        fed = {name: each.astype(F32) for name, each in fed.items()} | {"image": rng.integers(0, 2, 20)}
        agree(model, net, fed | {"score": np.where(rng.uniform(0, 1, 20) < real, 1, -1).astype(F32)})
    with pytest.raises(fg.InputError):
        model.run(fed | {"image": np.full(20, 2), "score": np.ones(20, F32)})


@pytest.mark.parametrize(("side", "left"), [(600, []), (1200, ["non_zero"])])
def test_a_result_without_a_bound_that_memory_can_hold_is_numpys(side: int, left: list[str]) -> None:
    """The first is as large as what RetinaNet finds in its widest map, of 256 x 256 pixels."""
    net = Net()
    net.output(net("NonZero", net.input("x", (side, side))), dtype=I64)
    model = net.load()
    assert [node.op for node in on_host(model.plan.compiled)] == left
    agree(model, net, {"x": np.eye(side, dtype=F32)})


@pytest.mark.parametrize("op", ["NonZero", "Compress", "Unique"])
def test_what_is_found_in_a_constant_is_a_constant(op: str) -> None:
    """As the older exporter of PyTorch writes the places that as_strided reads."""
    net = Net()
    x, ones, all_of = net.input("x", (7, 3)), net.const(np.ones(5, np.int64)), net.const(np.ones(5, bool))
    places = {
        "NonZero": lambda: net("Squeeze", net("NonZero", ones), [0]),
        "Compress": lambda: net("Compress", np.arange(5), all_of),
        "Unique": lambda: net("Unique", np.arange(5)),
    }[op]()
    net.output(net("Gather", x, places))
    model = native(net)
    assert [node.op for node in model.plan.graph.nodes] == ["slice"]
    agree(model, net, {"x": np.random.default_rng(0).standard_normal((7, 3)).astype(F32)})


def test_an_index_of_what_may_not_be_there_is_checked() -> None:
    net = Net()
    found = net("Squeeze", net("NonZero", net.input("x", (4,))), [0])
    net.output(net("Gather", found, 0), dtype=I64)
    model = net.load()
    assert agree(model, net, {"x": np.array([0, 0, 2, 1], F32)}) == [2]
    with pytest.raises(fg.InputError):
        model.run({"x": np.zeros(4, F32)})


@pytest.mark.parametrize("k", [-1, 5])
def test_more_of_the_best_than_there_are(k: int) -> None:
    net = Net()
    k_ = net("Reshape", net.input("k", (1, 1, 1), I64), [1])
    values, _ = net("TopK", net.input("x", (4,)), k_, outputs=2)
    net.output(values)
    model = native(net)
    with pytest.raises(fg.InputError, match="takes"):
        model.run({"x": np.zeros(4, F32), "k": np.array([[[k]]])})


def test_extents_that_are_the_same_by_chance_do_not_meet() -> None:
    """Rows of two masks are added where both have as many, or one has one; else that is an error."""
    net = Net()
    x = net.input("x", (2, 4))
    halves = [net("Squeeze", v, [0]) for v in net("Split", x, [1, 1], outputs=2, axis=0)]
    kept = [net("Compress", v, net("Greater", v, 0.0)) for v in halves]
    net.output(net("Add", *kept))
    model = net.load()
    assert [node.op for node in on_host(model.plan.compiled)] == ["add"]
    for fed in ([[1, 0, 2, 0], [0, 3, 0, 4]], [[1, 0, 2, 0], [0, 3, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 0]]):
        agree(model, net, {"x": np.array(fed, F32)})
    with pytest.raises(fg.InputError):
        model.run({"x": np.array([[1, 2, 0, 0], [1, 2, 3, 0]], F32)})


def test_a_tail_reads_what_there_is() -> None:
    """What no rule knows follows on bounded values, and on a loop's worth of them."""
    net = Net()
    x = net.input("x", (3, 4))
    rows = net("Gather", x, net("Squeeze", net("NonZero", net("ReduceMax", x, axes=[1], keepdims=0)), [0]))
    back = net("Slice", rows, [-1], [-(2**40)], [0], [-1])
    net.output(net("Neg", back), rows)
    model = net.load()
    assert [node.op for node in on_host(model.plan.compiled)] == ["slice", "neg"]
    for fed in (np.eye(3, 4), np.zeros((3, 4)), np.ones((3, 4))):
        agree(model, net, {"x": fed.astype(F32)})


def test_what_numpy_gives_beside_a_result_of_unknown_extents_has_no_bound() -> None:
    """A loop that NumPy runs whole, for the sake of its scanned result: the other one's shape is known, its places not
    in memory.
    """
    body = Net(prefix="b_")
    body.input("b_i", (), I64), body.input("b_go", (), bool)
    state = body.input("b_x", (6,))
    count = body("Cast", body("Size", body("NonZero", state)), to=1)
    after = body("Sub", state, body("Mul", count, 0.125))
    body.output(body("Greater", body("ReduceMax", after, keepdims=0), 0.0), dtype=bool)
    body.output(after, body("Neg", after))
    net = Net()
    last, scanned = net("Loop", 5, True, net.input("x", (6,)), outputs=2,
                        body=body.graph())  # fmt: skip
    places = net("Squeeze", net("NonZero", net("Relu", last)), [0])
    net.output(net("Gather", last, places), scanned)
    model = net.load()
    for fed in ([1, 2, 3, 4, 5, 6], [0, 0, 9, 0, 9, 0], [-1, 0, 0, 0, 0, 0]):
        agree(model, net, {"x": np.array(fed, F32)})


@pytest.mark.parametrize("equation", ["ab,ij->ji", "ab,ab->", "ab,cb->bca", "ab,ac->bc"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_sums_over_named_axes(equation: str, kind: Any) -> None:
    net = Net()
    x = net.input("x", (7, 5), kind)
    top = net("Cast", net("ReduceMax", net("Cast", x, to=1), axes=[1], keepdims=0), to=1)
    rows = net("Gather", x, net("Squeeze", net("NonZero", net("Greater", top, 4.0)), [0]))
    net.output(net("Einsum", rows, rows if "a" in equation.split(",")[1][:2] else x, equation=equation), dtype=kind)
    model = native(net)
    for scale in (1, 0, 10):
        agree(model, net, {"x": scale * np.random.default_rng(1).integers(-2, 6, (7, 5)).astype(kind)})


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_windows_over_those_of_a_batch_that_are_there(op: str, axes: int) -> None:
    net = Net()
    x = net.input("x", (6, 3, *[8] * axes))
    top = net("ReduceMax", x, axes=list(range(1, axes + 2)), keepdims=0)
    some = net("Compress", x, net("Greater", top, 2.5), axis=0)
    if "Conv" in op:
        net.output(net("Relu", net(op, some, net.weight(*(3, 3) if op == "ConvTranspose" else (8, 3), *[3] * axes))))
    else:
        net.output(net(op, some, kernel_shape=[2] * axes))
    model = native(net)
    for scale in (1.0, 0.0, 3.0):
        agree(model, net, {"x": (scale * np.random.default_rng(1).standard_normal((6, 3, *[8] * axes))).astype(F32)})


@pytest.mark.parametrize("kernel, stride, outputs", [(1, 2, 2), (3, 1, 16), (2, 1, 1)])
def test_what_stands_beyond_a_map_reaches_no_neighbor(kernel: int, stride: int, outputs: int) -> None:
    """-inf, where sums are shared by results: Winograd's, and outputs of few channels in a row."""
    net = Net()
    y = net("LogSoftmax", net.input("x", (1, 16, "h", "w")), axis=-1)
    net.output(net("Conv", y, net.weight(outputs, 16, kernel, kernel), strides=[stride, 1]))
    model = net.load(threads=1)
    for h, w in ((20, 9), (31, 9), (16, 9), (27, 6), (18, 5), (19, 7), (9, 8)):
        agree(model, net, {"x": np.random.default_rng(h).standard_normal((1, 16, h, w)).astype(F32)})


def test_open_shapes_have_bounds_of_their_own() -> None:
    net = Net()
    x = net.input("x", ("n", 4))
    net.output(net("Add", net("GatherND", x, net("Transpose", net("NonZero", x), perm=[1, 0])), 1.0))
    model = net.load()
    for n in (1, 6, 2):
        fed = np.random.default_rng(n).integers(0, 2, (n, 4)).astype(F32)
        agree(model, net, {"x": fed})
        assert not on_host(model.plan.compiled)


def test_indices_beyond_the_real_ones_reach_nothing() -> None:
    """What stands behind real indices would be out of range, or write."""
    net = Net(18)
    x, table = net.input("x", (12,)), net.input("table", (6, 2))
    places = net("Squeeze", net("NonZero", x), [0])
    turned = net("Sub", [11], places)
    rows = net("Gather", table, turned, axis=0)
    column = net("Unsqueeze", turned, [1])
    wide = net("Expand", column, net("Shape", rows))
    net.output(rows, net("GatherND", table, column), net("GatherElements", table, wide, axis=0))
    net.output(net("ScatterND", table, column, net("Neg", rows)))
    net.output(net("ScatterElements", table, wide, net("Neg", rows), axis=0))
    model, rng = native(net), np.random.default_rng(3)
    for count in (0, 1, 4, 6):
        fed = np.zeros(12, F32)
        fed[6 + rng.permutation(6)[:count]] = 1
        agree(model, net, {"x": fed, "table": rng.standard_normal((6, 2)).astype(F32)})


def test_boxes_that_are_not_there_are_not_kept() -> None:
    net = Net()
    boxes, scores = net.input("boxes", (9, 4)), net.input("scores", (9,))
    found = net("Squeeze", net("NonZero", net("Greater", scores, 0.5)), [0])
    some = net("Unsqueeze", net("Gather", boxes, found), [0])
    best = net("Unsqueeze", net("Gather", scores, found), [0, 1])
    kept = net("NonMaxSuppression", some, best, [100], [1.0])
    column = net("Squeeze", net("Gather", kept, [2], axis=1), [1])
    net.output(net("Gather", found, column), kept, dtype=I64)
    model, rng = native(net), np.random.default_rng(4)
    for count in (0, 1, 5, 9):
        fed = np.zeros(9, F32)
        fed[rng.permutation(9)[:count]] = np.linspace(0.6, 1, count)
        assert len(agree(model, net, {"boxes": some_boxes(rng, 9), "scores": fed})[1]) == count


@pytest.mark.parametrize("sorted_", [0, 1])
def test_floats_that_are_there_once(sorted_: int) -> None:
    """NaN is one number, as NumPy has it, and so is 0."""
    net = Net()
    found = net("Unique", net.input("x", (8,)), outputs=4, sorted=sorted_)
    net.output(found[0])
    net.output(*found[1:], dtype=I64)
    model, plain = native(net), net.load(isa="numpy")
    for numbers in ([np.nan, 1, np.nan, -0.0, 0, 2, np.inf, 1], [0] * 8, range(8), [np.nan] * 8):
        fed = np.array(numbers, F32)
        same(model.run({"x": fed}).values(), plain.run({"x": fed}).values(), "NumPy")

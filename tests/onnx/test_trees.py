"""Ensembles of trees, against onnxruntime: every comparison, way of scoring and kind of input."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import fastgraph as fg
from fastgraph.errors import InputError, ModelError, UnsupportedError
from fastgraph.frontends.onnx.tree_nodes import MODES
from fastgraph.kernels.isa.tiers import usable
from tests.nets import F32, Net

ML = "ai.onnx.ml"
WAYS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
COLUMNS = 5


def grown(rng: np.random.Generator, trees: int, depth: int, modes: tuple[str, ...], missing: bool) -> dict[str, Any]:
    """The attributes of some trees, whose thresholds are few numbers, so that features often equal one."""
    nodes: list[tuple[Any, ...]] = []
    for tree in range(trees):
        todo, count = [(0, 0)], 1
        while todo:
            node, level = todo.pop()
            if level == depth or (level and rng.random() < 0.25):
                nodes.append((tree, node, 0, "LEAF", 0.0, 0, 0, 0))
                continue
            feature, value, mode = rng.integers(COLUMNS), rng.integers(-2, 3) / 2, rng.choice(modes)
            tracks = int(missing and rng.random() < 0.5)
            nodes.append((tree, node, int(feature), str(mode), float(value), count, count + 1, tracks))
            todo += [(count, level + 1), (count + 1, level + 1)]
            count += 2
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    attrs = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes, strict=True), strict=False)}
    return attrs | ({"nodes_missing_value_tracks_true": [node[7] for node in nodes]} if missing else {})


def held(rng: np.random.Generator, attrs: dict[str, Any], kind: str, count: int, least: float) -> dict[str, Any]:
    """What leaves hold for each of so many results; where `least` is 0 nothing is negative."""
    places = zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], attrs["nodes_modes"], strict=True)
    leaves = [(t, n, k) for t, n, mode in places if mode == "LEAF" for k in range(count)]
    columns = [list(column) for column in zip(*leaves, strict=True)]
    weights = [float(F32.type(w)) for w in rng.uniform(least, 1, len(leaves)) / 4]
    return {
        f"{kind}_{name}": c
        for name, c in zip(("treeids", "nodeids", "ids", "weights"), [*columns, weights], strict=True)
    }


def rows(rng: np.random.Generator, dtype: Any, missing: bool = False) -> np.ndarray:
    x = rng.integers(-3, 4, (23, COLUMNS)) / 2
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x.astype(dtype)


def agree(x: np.ndarray, op: str, isa: str = "numpy", after: str = "", **attrs: Any) -> None:
    """Rows one by one and together, with an open number of them, as onnxruntime has it."""
    net = Net()
    kinds = (None, np.float32) if op.endswith("Classifier") else (np.float32,)
    found = net(op, net.input("x", ["rows", x.shape[1]], x.dtype), domain=ML, outputs=len(kinds), **attrs)
    for name, kind in zip([found] if isinstance(found, str) else found, kinds, strict=True):
        net.output(name, dtype=kind)
    if kinds[0] is None:
        strings = "classlabels_strings" in attrs
        net.outputs[0].type.tensor_type.elem_type = 8 if strings else 7
    session = onnxruntime.InferenceSession(net.bytes(), providers=["CPUExecutionProvider"])
    model = fg.load(net.bytes(), isa=isa, threads=1)
    for part in (x, x[:1]):
        for got, want in zip(model.run({"x": part}).values(), session.run(None, {"x": part}), strict=True):
            if want.dtype == F32:
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            else:
                assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    "modes, missing", [*product([(mode,) for mode in MODES[:6]], (False, True)), (MODES[:6], True)]
)
def test_comparisons(modes: tuple[str, ...], missing: bool) -> None:
    rng = np.random.default_rng(len(modes[0]))
    attrs = grown(rng, 7, 5, modes, missing)
    agree(rows(rng, F32, missing), "TreeEnsembleRegressor", n_targets=1, **attrs, **held(rng, attrs, "target", 1, -1))


@pytest.mark.parametrize(
    "count, way, function, base", list(product((1, 3), WAYS, ("SUM", "AVERAGE", "MIN", "MAX"), (0, 1)))
)
def test_regressors(count: int, way: str, function: str, base: int) -> None:
    rng = np.random.default_rng(count)
    attrs = grown(rng, 4, 3, ("BRANCH_LT",), False) | ({"base_values": [0.5, -0.25, 0.75][:count]} if base else {})
    attrs |= held(rng, attrs, "target", count, -1)
    agree(
        rows(rng, F32),
        "TreeEnsembleRegressor",
        n_targets=count,
        post_transform=way,
        aggregate_function=function,
        **attrs,
    )


@pytest.mark.parametrize("way, least, second, base", list(product(WAYS, (0, -1), (0, 1), (0, 1))))
def test_two_labels_by_one_score(way: str, least: float, second: int, base: int) -> None:
    rng = np.random.default_rng(5)
    attrs = grown(rng, 4, 3, ("BRANCH_LEQ",), False) | ({"base_values": [0.25]} if base and not second else {})
    attrs |= held(rng, attrs, "class", 1, least)
    attrs["class_ids"] = [second] * len(attrs["class_ids"])
    agree(rows(rng, F32), "TreeEnsembleClassifier", post_transform=way, classlabels_strings=["no", "yes"], **attrs)


@pytest.mark.parametrize("way, base", list(product(WAYS, (0, 1))))
def test_three_labels(way: str, base: int) -> None:
    rng = np.random.default_rng(6)
    attrs = grown(rng, 4, 3, ("BRANCH_LEQ",), False) | ({"base_values": [0.5, -0.25, 0.75]} if base else {})
    attrs |= held(rng, attrs, "class", 3, -1)
    agree(rows(rng, F32), "TreeEnsembleClassifier", post_transform=way, classlabels_int64s=[4, -7, 9], **attrs)


def some(attrs: dict[str, Any], *left: int) -> dict[str, Any]:
    """Without what leaves hold at these places of their lists."""
    return {
        name: [v for i, v in enumerate(values) if i not in left] if name.startswith("class_") else values
        for name, values in attrs.items()
    }


@pytest.mark.parametrize("way, base", list(product(WAYS, (0, 1))))
def test_a_label_that_no_leaf_scores_is_not_chosen(way: str, base: int) -> None:
    """Also where all other scores are negative; base values score all."""
    rng = np.random.default_rng(6)
    attrs = grown(rng, 2, 1, ("BRANCH_LEQ",), False) | ({"base_values": [0.5, -0.25, 0.75]} if base else {})
    attrs |= held(rng, attrs, "class", 3, -1)
    attrs["class_weights"] = [-abs(w) for w in attrs["class_weights"]]
    attrs = some(attrs, 1, 3, 7, 8, 9)
    agree(rows(rng, F32), "TreeEnsembleClassifier", post_transform=way, classlabels_int64s=[4, -7, 9], **attrs)


@pytest.mark.parametrize("way, least, second", list(product(WAYS, (0, -1), (0, 1))))
def test_leaves_without_the_one_score(way: str, least: float, second: int) -> None:
    rng = np.random.default_rng(5)
    attrs = grown(rng, 2, 1, ("BRANCH_LEQ",), False)
    attrs |= held(rng, attrs, "class", 1, least)
    attrs["class_ids"] = [second] * len(attrs["class_ids"])
    labels = ["no", "yes"]
    agree(rows(rng, F32), "TreeEnsembleClassifier", post_transform=way, classlabels_strings=labels, **some(attrs, 0, 2))


def test_one_base_value_of_two_labels_is_the_first_ones() -> None:
    rng = np.random.default_rng(5)
    attrs = grown(rng, 2, 1, ("BRANCH_LEQ",), False) | {"base_values": [-9.0]}
    attrs |= held(rng, attrs, "class", 2, 0)
    attrs["class_weights"] = [w + 0.25 for w in attrs["class_weights"]]
    agree(rows(rng, F32), "TreeEnsembleClassifier", classlabels_int64s=[0, 1], **attrs)


@pytest.mark.parametrize("dtype", ["f8", "i8", "i4"])
def test_other_elements(dtype: str) -> None:
    rng = np.random.default_rng(7)
    attrs = grown(rng, 4, 3, ("BRANCH_LT",), False)
    attrs |= held(rng, attrs, "class", 3, -1)
    agree(rows(rng, dtype), "TreeEnsembleClassifier", classlabels_int64s=[4, -7, 9], **attrs)


def test_doubles_just_below_a_threshold() -> None:
    rng = np.random.default_rng(7)
    attrs = grown(rng, 4, 3, MODES[:6], False)
    attrs |= held(rng, attrs, "target", 1, -1)
    for isa in ("numpy", usable()[-1].name):
        agree(rows(rng, "f8") - 1e-12, "TreeEnsembleRegressor", isa, n_targets=1, **attrs)


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
def test_tiers(isa: str) -> None:
    """Thresholds of 0 too, below which the next numbers are denormal: these count as 0 in a run."""
    rng = np.random.default_rng(8)
    attrs = grown(rng, 20, 6, MODES[:6], True)
    agree(rows(rng, F32, True), "TreeEnsembleRegressor", isa, n_targets=1, **attrs, **held(rng, attrs, "target", 1, -1))


def test_what_is_refused() -> None:
    rng = np.random.default_rng(9)
    attrs = grown(rng, 2, 2, ("BRANCH_LEQ",), False)
    attrs |= held(rng, attrs, "target", 1, -1)
    round_ = attrs | {
        "nodes_truenodeids": [
            0 if m != "LEAF" else n for m, n in zip(attrs["nodes_modes"], attrs["nodes_truenodeids"], strict=True)
        ]
    }
    for wrong, error in (
        (attrs | {"nodes_values": [1.0]}, ModelError),
        (attrs | {"target_nodeids": [99] * len(attrs["target_ids"])}, ModelError),
        (attrs | {"target_ids": [2] * len(attrs["target_ids"])}, ModelError),
        (attrs | {"post_transform": "PROBIT"}, UnsupportedError),
        (attrs | {"nodes_modes": ["BRANCH_MOON" for _ in attrs["nodes_modes"]]}, UnsupportedError),
        (round_, ModelError),
    ):
        net = Net()
        net.output(net("TreeEnsembleRegressor", net.input("x", [1, COLUMNS]), domain=ML, n_targets=1, **wrong))
        with pytest.raises(error):
            fg.load(net.bytes(), isa="numpy")


def test_probit_of_two_labels_is_refused() -> None:
    rng = np.random.default_rng(5)
    attrs = grown(rng, 2, 2, ("BRANCH_LEQ",), False)
    attrs |= held(rng, attrs, "class", 1, -1)
    with pytest.raises(UnsupportedError, match="PROBIT"):
        agree(rows(rng, F32), "TreeEnsembleClassifier", post_transform="PROBIT", classlabels_int64s=[0, 1], **attrs)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [3, -1]}, {"classlabels_strings": ["no", "yes"]}])
def test_scores_by_label(labels: dict[str, Any]) -> None:
    net = Net()
    scores = net("Softmax", net.input("x", ["rows", 2]))
    net.output(net("ZipMap", scores, domain=ML, **labels), dtype=None)
    key = onnx.TensorProto.STRING if "classlabels_strings" in labels else onnx.TensorProto.INT64
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
    net.outputs[0].type.CopyFrom(helper.make_sequence_type_proto(kind))
    session = onnxruntime.InferenceSession(net.bytes(), providers=["CPUExecutionProvider"])
    for isa in ("numpy", *(tier.name for tier in usable())):
        model = fg.load(net.bytes(), isa=isa)
        for rows in (3, 1, 2, 5, 4, 9, 0):
            x = np.arange(2 * rows, dtype=F32).reshape(rows, 2) ** 2 / 9
            (want,), (got,) = session.run(None, {"x": x}), model.run({"x": x}).values()
            assert got == [pytest.approx(row) for row in want]


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
def test_labels_that_are_text(isa: str, tmp_path: Path) -> None:
    """Results of strings and dicts are made when a run gives them; they keep their types, and programs are saved."""
    net = Net()
    attrs = {"coefficients": [0.5, -1.0, 0.25, 1.0, -0.5, 2.0], "intercepts": [0.0, 0.5, -0.5]}
    kinds = ["a", "b", "c d"]
    label, scores = net(
        "LinearClassifier", net.input("x", ["rows", 2]), domain=ML, outputs=2, post_transform="SOFTMAX",
        classlabels_strings=kinds, **attrs,
    )  # fmt: skip
    net.output(net("Reshape", net("Identity", label), [-1, 1]), dtype=None)
    net.outputs[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    net.output(scores)
    model = fg.load(net.bytes(), isa=isa)
    model.save(tmp_path / "kept.fgm", shapes=[{"x": (7, 2)}, {"x": (1, 2)}])
    x = np.random.default_rng(3).standard_normal((7, 2)).astype(F32)
    wanted = onnxruntime.InferenceSession(net.bytes(), providers=["CPUExecutionProvider"])
    for each in (model, fg.load(tmp_path / "kept.fgm")):
        for part in (x, x[:1], x[2:5], x[1:6], x[:4]):
            got, want = list(each.run({"x": part}).values()), wanted.run(None, {"x": part})
            assert got[0].tolist() == want[0].tolist()
            np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
        assert each.outputs[0].dtype == object


@pytest.mark.parametrize("isa", ["numpy", *(tier.name for tier in usable())])
def test_one_label_by_a_number_that_is_fed(isa: str) -> None:
    """A scalar is an array, too; a number out of range is the caller's mistake."""
    net = Net()
    label = net("Gather", np.array(["no", "yes", "perhaps"], object), net.input("k", [], np.int64))
    for y in (label, net("Unsqueeze", label, [0])):
        net.output(y, dtype=None)
    model = fg.load(net.bytes(), isa=isa)
    for k in (2, -1):
        found = list(model.run({"k": np.int64(k)}).values())
        assert [(y.shape, y.dtype, y.tolist()) for y in found] == [((), object, "perhaps"), ((1,), object, ["perhaps"])]
    with pytest.raises(InputError, match=r"node Gather_0.*index 3 is outside extent 3"):
        model.run({"k": np.int64(3)})

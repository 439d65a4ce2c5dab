"""Networks that are no image classifiers, and quantized ones of ONNX, on one thread against the quickest peer."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
import rivals
import zoo

import fastgraph as fg
from fastgraph.tools.bench import agrees, compare
from fastgraph.tools.feeds import random_feeds

SECONDS = 3.0


class Group(NamedTuple):
    """Networks, and the most that their geometric mean and each of them should be."""

    mean: float
    each: float
    names: tuple[str, ...]


ENCODERS = ("bert_mini", "bert_mini_16", "vit_tiny", "gpt_step")
CLASSIFIERS = ("mobilenet_v2", "resnet50", "squeezenet1_1")
SILERO = "silero-vad/silero_vad"
GROUPS = {
    "recurrent": Group(0.8, 1.1, (
        "lstm_2x128", "gru_2x96", SILERO, f"{SILERO}_16k_op15", f"{SILERO}_16k_sequence", f"{SILERO}_half",
        f"{SILERO}_op18_ifless", f"{SILERO}_openvino_16k", "lstm_64_fp32.tflite", "lstm_64_int8.tflite",
    )),
    "transformers": Group(0.85, 1.0, tuple(
        name + form for name in ENCODERS for form in ("", ".dynamic.u8", ".dynamic.s8", ".QDQ.u8", ".QDQ.s8")
    )),
    "others": Group(0.75, 1.0, (
        "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer", "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer",
        "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer", "magika/model", "yolo_like", "unet_small",
        "ghostnet_100", "tcn_audio", "whisper_encoder", zoo.BASIC_PITCH,
    )),
    "dynamic convolutions": Group(0.6, 0.8, tuple(
        f"{name}.dynamic.{kind}"
        for name in (*CLASSIFIERS, "ghostnet_100", "text_reader", "groups_audio", "tcn_audio") for kind in ("u8", "s8")
    )),
    "quantized": Group(0.6, 0.9, tuple(
        name + form for name in CLASSIFIERS for form in (".QDQ.u8", ".QDQ.s8", ".QOperator.u8", ".QOperator.s8")
    )),
}  # fmt: skip
ROUNDED = ("transformers", "dynamic convolutions")
SHAPES = {
    "det_infer": {"x": (1, 3, 480, 640)}, "rec_infer": {"x": (1, 3, 48, 320)}, "cls_infer": {"x": (1, 3, 48, 192)},
    "magika": {"bytes": (1, 2048)}, "nmp": {"serving_default_input_2:0": (1, 43844, 1)},
    "16k_sequence": {"input": (1, 576)}, "silero": {"input": (1, 576), "state": (2, 1, 128)},
}  # fmt: skip
ratios: dict[str, list[float]] = defaultdict(list)


@pytest.mark.parametrize("group, name", [(group, name) for group, found in GROUPS.items() for name in found.names])
def test_network(goal: Any, group: str, name: str) -> None:
    path = zoo.any_of(name)
    model = fg.load(path, threads=1)
    shapes = next((shapes for key, shapes in SHAPES.items() if key in name), {})
    feeds = random_feeds(model, {key: shape for key, shape in shapes.items() if key in {i.name for i in model.inputs}})
    if "sr" in feeds:
        feeds["sr"] = np.array(16000, np.int64)
    if "bytes" in feeds:  # of zeros and ones no engine makes more than three digits
        feeds["bytes"] = np.random.default_rng(0).integers(0, 257, feeds["bytes"].shape, np.int32)
    peers = ("litert", "openvino") if name.endswith(".tflite") else ("onnxruntime", "openvino")
    found = compare(path, feeds, peers, seconds=SECONDS)
    if group in ROUNDED and "." in name:  # where all is rounded again and again, so do engines differ
        assert all(row.get("difference", 0) < 0.3 for row in found["engines"]), found["engines"]
    elif name != "yolo_like":  # of its best 100 scores some are equal: which comes first is anybody's choice
        assert agrees(found), found["engines"]
    ratios[group].append(rivals.noted(goal, name, found, GROUPS[group].each))


@pytest.mark.parametrize("group", GROUPS)
def test_geometric_mean(goal: Any, group: str) -> None:
    rivals.note_mean(goal, group, ratios[group], len(GROUPS[group].names), GROUPS[group].mean)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_forms_of_quantization_cost_the_same(goal: Any, name: str) -> None:
    """The slower of QDQ and QOperator, over the other."""
    for kind in ("u8", "s8"):
        times = []
        for form in ("QDQ", "QOperator"):
            path = zoo.any_of(f"{name}.{form}.{kind}")
            found = compare(path, random_feeds(fg.load(path, threads=1), {}), (), seconds=SECONDS)
            rivals.left_alone(found["disturbance"])
            times.append(found["engines"][0]["p50_ms"])
        goal(f"{name} {kind}: QDQ {times[0]:.3f} ms, QOperator {times[1]:.3f} ms", max(times) / min(times), "x", 1.1)

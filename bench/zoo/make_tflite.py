"""Write Keras's networks as FOLDER/NAME.KIND.tflite: f32, f16 (weights), dynamic (int8 weights) and int8 throughout.

    pip install tensorflow-cpu
    python bench/zoo/make_tflite.py FOLDER [NAME...]

NAME: of keras.applications, as MobileNetV2, or of `tiny.py`: those are written as NAME_fp32.tflite, NAME_int8.tflite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2  # noqa: E402
from tiny import TINY  # noqa: E402

NAMES = ("MobileNet", "MobileNetV2", "ResNet50", "EfficientNetB0", *TINY)
KINDS = ("f32", "f16", "dynamic", "int8")
TINY_KINDS = {
    "ad01": "f32", "ic_resnet8": "f32", "kws_dscnn": "dynamic", "vww_mobilenetv1_025_96": "f32", "lstm_64": "f32",
}  # fmt: skip
"""What MLPerf Tiny calls fp32."""
IMAGES = 4
"""How many inputs of noise say which range the values of an int8 network have."""


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        tf.keras.utils.set_random_seed(0)
        if name in TINY:
            net, files = TINY[name](), {TINY_KINDS[name]: f"{name}_fp32.tflite", "int8": f"{name}_int8.tflite"}
        else:
            net = getattr(tf.keras.applications, name)(weights=None, input_shape=(224, 224, 3))
            files = {kind: f"{name.lower()}.{kind}.tflite" for kind in KINDS}
        with_statistics(net)
        for kind, file in files.items():
            (folder / file).write_bytes(converted(net, kind))
        print(folder / name, flush=True)


def with_statistics(net: tf.keras.Model) -> None:
    """Normalizations that are not the identity: fresh ones are, and folding them would show nothing."""
    rng = np.random.default_rng(0)
    for layer in net.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            shape = layer.moving_mean.shape
            scale, variance = (rng.uniform(0.5, 1.5, shape) for _ in range(2))
            shift, mean = (rng.normal(0, 0.1, shape) for _ in range(2))
            layer.set_weights([scale, shift, mean, variance][4 - len(layer.get_weights()) :])


def converted(net: tf.keras.Model, kind: str) -> bytes:
    """The file, for a batch of one."""
    shape = (1, *net.input_shape[1:])
    call = tf.function(lambda x: net(x, training=False)).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    converter: Any = tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(call)], net)
    if kind != "f32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "f16":
        converter.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        converter.representative_dataset = lambda: noise(shape)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def noise(shape: tuple[int, ...]) -> Iterator[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(IMAGES):
        yield [rng.standard_normal(shape).astype(np.float32)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

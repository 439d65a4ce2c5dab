"""Write 8-bit forms of ONNX networks beside them, by onnxruntime's own quantiser: NAME.FORMAT.TYPE.onnx.

    pip install onnx onnxruntime sympy
    python bench/zoo/quantize_onnx.py NETWORK.onnx...

FORMAT is QDQ or QOperator, calibrated on noise, with TYPE u8 or s8 activations, or dynamic, with TYPE u8 or s8 weights.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

FORMATS = ("QDQ", "QOperator", "dynamic")
TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}


class Noise(CalibrationDataReader):
    """Four feeds; whole numbers below 1000, as of tokens, and all of a mask."""

    def __init__(self, path: str) -> None:
        inputs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()
        rng = np.random.default_rng(0)
        self.feeds: Iterator[dict[str, np.ndarray]] = iter(
            [{i.name: _noise(rng, i.name, i.type, i.shape) for i in inputs} for _ in range(4)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def _noise(rng: np.random.Generator, name: str, kind: str, shape: list[int]) -> np.ndarray:
    if "int64" in kind:
        return np.ones(shape, np.int64) if name == "mask" else rng.integers(0, 1000, shape)
    return rng.standard_normal(shape).astype(np.float32)


def main(paths: list[str]) -> None:
    for path in paths:
        with tempfile.TemporaryDirectory() as place:
            known = str(Path(place, "known.onnx"))
            quant_pre_process(path, known, skip_symbolic_shape=True)
            for form in FORMATS:
                for name, kind in TYPES.items():
                    target = f"{path.removesuffix('.onnx')}.{form}.{name}.onnx"
                    if form == "dynamic":
                        quantize_dynamic(known, target, weight_type=kind, per_channel=name == "s8")
                    else:
                        quantize_static(
                            known, target, Noise(known), quant_format=QuantFormat[form], per_channel=True,
                            activation_type=kind, weight_type=QuantType.QInt8,
                        )  # fmt: skip
                    print(target, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

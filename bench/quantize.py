"""Signal to noise of quantized networks beside the float ones, by fastgraph and by onnxruntime's static quantization.

    python bench/quantize.py FILE.onnx... [--samples 24] [--options equalize=True]

Data are random pictures, smooth ones, the same for both; what is compared was not calibrated on. Prints a table.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

import fastgraph as fg
from fastgraph.quantize import quantize
from fastgraph.quantize.report import least_snr, outputs
from fastgraph.runtime.model import Model

METHODS = ("minmax", "mse", "percentile", "entropy")


def pictures(model: Model, count: int) -> list[dict[str, np.ndarray]]:
    """Random feeds: noise that neighbours share, as pixels of pictures do."""
    rng = np.random.default_rng(0)
    return [{spec.name: _smooth(rng, tuple(n if isinstance(n, int) else 1 for n in spec.shape or ()))
             for spec in model.inputs} for _ in range(count)]  # fmt: skip


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = rng.standard_normal(shape)
    for axis in [i for i, n in enumerate(shape) if n > 16]:
        x = sum(np.roll(x, k, axis) for k in range(8)) / 8**0.5
    return x.astype(np.float32)


class Reader(CalibrationDataReader):
    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self.rest = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rest, None)


def theirs(path: str, samples: list[dict[str, np.ndarray]], to: str) -> None:
    quantize_static(path, to, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True)


def row(path: str, count: int, options: dict[str, Any], folder: Path) -> list[str]:
    samples = pictures(fg.load(path, threads=1), count)
    held = max(1, round(0.2 * count))
    wanted, cells = outputs(path, samples[-held:]), [Path(path).stem]
    theirs(path, samples[:-held], str(folder / "theirs.onnx"))
    cells.append(f"{least_snr(wanted, outputs(str(folder / 'theirs.onnx'), samples[-held:])):.1f}")
    for method in METHODS:
        found = quantize(path, samples, folder / "ours.onnx", seconds=0, **{"method": method, **options})
        cells.append(f"{found.snr:.1f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--options", default="", help="NAME=True or NAME=False, with commas")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    options = {
        name: value == "True" for name, _, value in (each.partition("=") for each in args.options.split(",") if each)
    }
    print(f"| network | onnxruntime | {' | '.join(METHODS)} |\n|---|{'---:|' * (1 + len(METHODS))}")
    with tempfile.TemporaryDirectory() as folder:
        for path in args.files:
            print(f"| {' | '.join(row(path, args.samples, options, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()

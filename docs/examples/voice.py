"""When somebody speaks: Silero's voice detector, 32 ms at a time, with a state that goes from piece to piece.

pip install 'fastgraph-runtime[audio]'
pip install --no-deps silero-vad                  # for its model
python voice.py speech.wav                        # 16 kHz
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import fastgraph as fg

RATE, PIECE, CONTEXT = 16000, 512, 64
"""Samples a second, of a piece, and of the piece before that go before it."""


def model_file() -> Path | None:
    """The detector in the package silero-vad, if that is installed."""
    spec = find_spec("silero_vad")
    return Path(spec.origin).parent / "data" / "silero_vad.onnx" if spec and spec.origin else None


def probabilities(model: fg.Model, samples: np.ndarray) -> Iterator[float]:
    """For each piece of samples (float32, -1..1) the probability of speech in it."""
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    for start in range(0, len(samples) - PIECE + 1, PIECE):
        piece = np.concatenate([context, samples[start : start + PIECE]])
        found = model.run({"input": piece[None], "state": state, "sr": np.array(RATE)})
        state, context = found["stateN"], piece[-CONTEXT:]
        yield float(found["output"][0, 0])


if __name__ == "__main__":
    import soundfile

    network = model_file()
    if network is None:
        sys.exit("the model is not here: pip install --no-deps silero-vad")
    sound, rate = soundfile.read(sys.argv[1], dtype="float32", always_2d=True)
    if rate != RATE:
        sys.exit(f"{sys.argv[1]}: {rate} Hz, the model takes {RATE}: resample it, as soxr.resample does")
    for number, probability in enumerate(probabilities(fg.load(network), sound.mean(axis=1))):
        print(f"{number * PIECE / RATE:7.2f} s  {probability:.3f}  {'#' * round(40 * probability)}")

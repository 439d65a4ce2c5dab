"""One network in three formats: Basic Pitch, which hears notes in music, gives the same answer in each."""

from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "models" / "basic_pitch"
OUTPUTS = {
    "nmp.onnx": {"onset": "StatefulPartitionedCall:2", "note": "StatefulPartitionedCall:1",
                 "contour": "StatefulPartitionedCall:0"},
    "nmp.tflite": {"onset": "onset", "note": "note", "contour": "contour"},
    "nmp.mlpackage": {"onset": "Identity_2", "note": "Identity_1", "contour": "Identity"},
}  # fmt: skip
"""What the files call the outputs."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FOLDER.exists(), reason="no shared/models beside it")]


def test_three_files_one_answer() -> None:
    seconds = np.arange(43844) / 22050
    sound = sum(np.sin(2 * np.pi * 440 * k * seconds) / k for k in range(1, 6)) / 2
    window = np.asarray(sound, np.float32).reshape(1, 43844, 1)

    answers = {}
    for file, names in OUTPUTS.items():
        model = fg.load(FOLDER / file)
        found = model.run({model.inputs[0].name: window})
        answers[file] = {what: found[name] for what, name in names.items()}

    onnx = answers.pop("nmp.onnx")
    assert onnx["note"][0].mean(axis=0).argmax() == 48, "the note is A4, a piano's key number 48 from A0 on"
    for file, answer in answers.items():
        for what in onnx:
            np.testing.assert_allclose(answer[what], onnx[what], rtol=0, atol=1e-4, err_msg=f"{file}: {what}")

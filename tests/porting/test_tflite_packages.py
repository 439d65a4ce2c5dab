"""Packages that are written for tflite_runtime run on fastgraph unchanged, and find the same."""

from pathlib import Path

import numpy as np
import pytest

from tests.porting.tflite_packages import wake_words
from tests.processes import python

pytestmark = pytest.mark.slow


def both(package: str, folder: Path) -> list[dict[str, np.ndarray]]:
    """Results with LiteRT, and with fastgraph."""
    pytest.importorskip("ai_edge_litert.interpreter")
    found = []
    for engine in ("litert", "fastgraph"):
        path = folder / f"{engine}.npz"
        python("-m", "tests.porting.tflite_packages", package, engine, path)
        with np.load(path) as arrays:
            found.append(dict(arrays))
    return found


def test_openwakeword(tmp_path: Path) -> None:
    pytest.importorskip("openwakeword", reason="no openwakeword: pip install --no-deps openwakeword requests tqdm")
    if wake_words() is None:
        pytest.skip("no networks of openWakeWord: pip install --no-deps wyoming-openwakeword")
    theirs, ours = both("openwakeword", tmp_path)
    assert theirs["stream"].shape == (50, 5) and theirs["clip"].max() > 1e-5
    for name, atol in (("stream", 1e-6), ("clip", 1e-6), ("embeddings", 1e-3)):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=atol, err_msg=name)


def test_basic_pitch(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    pytest.importorskip("basic_pitch", reason="no basic-pitch: pip install --no-deps basic-pitch, and what it imports")
    theirs, ours = both("basic_pitch", tmp_path)
    assert {60, 64, 67, 72} <= set(theirs["notes"][:, 2])
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-5, err_msg=name)

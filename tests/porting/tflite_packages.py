"""What packages that import `tflite_runtime` make of a sound, by LiteRT or by fastgraph in its place.

python -m tests.porting.tflite_packages openwakeword|basic_pitch litert|fastgraph results.npz
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np


def use(engine: str) -> None:
    """Let `tflite_runtime.interpreter` be LiteRT's of today, or fastgraph's."""
    if engine == "fastgraph":
        from fastgraph import tflite

        tflite.install()
        return
    import ai_edge_litert.interpreter as own

    package = ModuleType("tflite_runtime")
    package.interpreter = own  # type: ignore[attr-defined]
    sys.modules.update({"tflite_runtime": package, "tflite_runtime.interpreter": own})


def wake_words() -> Path | None:
    """The folder of openWakeWord's networks, which come with the package wyoming-openwakeword."""
    spec = find_spec("wyoming_openwakeword")
    folder = Path(str(spec.origin)).parent / "models" if spec is not None else Path()
    return folder if (folder / "melspectrogram.tflite").exists() else None


def openwakeword() -> dict[str, np.ndarray]:
    """Scores of five wake words for a stream of 80 ms frames, and for the whole clip; embeddings of it."""
    from openwakeword.model import Model

    folder = wake_words()
    assert folder is not None
    np.random.seed(0)  # the package begins with embeddings of noise
    shared = {f"{name}_model_path": str(folder / f"{file}.tflite")
              for name, file in (("melspec", "melspectrogram"), ("embedding", "embedding_model"))}  # fmt: skip
    words = [str(path) for path in sorted(folder.glob("*_v0.1.tflite"))]
    model = Model(wakeword_models=words, inference_framework="tflite", **shared)
    rng, seconds = np.random.default_rng(0), np.arange(4 * 16000) / 16000
    siren = np.sin(2 * np.pi * (200 * seconds + 150 * np.sin(3 * np.pi * seconds)))
    sound = (8000 * siren * np.abs(np.sin(6 * np.pi * seconds)) + rng.normal(0, 300, seconds.size)).astype(np.int16)
    frames = sound.reshape(-1, 1280)
    stream = [list(model.predict(frame).values()) for frame in frames]
    clip = [list(scores.values()) for scores in model.predict_clip(sound)]
    return {"stream": np.array(stream), "clip": np.array(clip), "embeddings": model.preprocessor._get_embeddings(sound)}


def basic_pitch() -> dict[str, np.ndarray]:
    """The notes of a broken chord, and what the network gave."""
    import soundfile
    from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import predict

    rate = 22050
    seconds = np.arange(rate // 2) / rate
    tones = [440 * 2 ** ((key - 69) / 12) * seconds for key in (60, 64, 67, 72)]
    sound = np.concatenate([sum(np.sin(2 * np.pi * k * tone) / k for k in range(1, 6)) for tone in tones])
    with tempfile.TemporaryDirectory() as folder:
        soundfile.write(f"{folder}/chord.wav", 0.3 * sound, rate)
        outputs, _, notes = predict(f"{folder}/chord.wav", build_icassp_2022_model_path(FilenameSuffix.tflite))
    return {**outputs, "notes": np.array(sorted(each[:4] for each in notes), np.float64)}


if __name__ == "__main__":
    package, engine, path = sys.argv[1:]
    use(engine)
    np.savez(path, **globals()[package]())

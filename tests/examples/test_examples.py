"""What docs/examples/ shows is run, and its results are held against labels, texts, onnxruntime and NumPy."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fastgraph as fg
from tests.examples.encoder import encoder
from tests.processes import python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SHARED = ROOT.parent / "shared" / "models" / "tflite"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packaged(module: ModuleType) -> Path:
    """The network of a package that examples name."""
    file = module.model_file()
    if file is None or not file.exists():
        pytest.skip(f"{module.__name__}: its network's package is not installed")
    return file


def test_a_picture_is_classified() -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    network = SHARED / "mobilenet_v2_1.0_224_quant.tflite"
    if not network.exists():
        pytest.skip("no shared/models beside the repository")
    labels = (SHARED / "imagenet_labels.txt").read_text().splitlines()
    (name, probability), *rest = example("classify").classify(fg.load(network), SHARED / "cat.bmp", labels)
    assert name.endswith("Egyptian cat") and 0.5 < probability <= 1 and len(rest) == 4


@pytest.mark.slow
@pytest.mark.parametrize("text", ["fastgraph reads this", "Invoice 2026/11 paid"])
def test_text_is_read(text: str) -> None:
    draw, fonts = (pytest.importorskip(f"PIL.{name}", reason="no Pillow") for name in ("ImageDraw", "ImageFont"))
    module = example("read_text")
    file = packaged(module)
    font = fonts.load_default(size=36)
    image = module.Image.new("RGB", (int(font.getlength(text)) + 20, 56), "white")
    draw.Draw(image).text((10, 6), text, "black", font)
    model = fg.load(file)
    found = module.read(model, image, module.characters(model))
    assert found.replace(" ", "") == text.replace(" ", "")


@pytest.mark.slow
def test_voice_is_detected_as_onnxruntime_does() -> None:
    """Seven pieces, whose states go from one to the next; silence is no speech."""
    module = example("voice")
    file = packaged(module)
    session = pytest.importorskip("onnxruntime").InferenceSession(file)

    class Peer:
        def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return dict(zip(("output", "stateN"), session.run(["output", "stateN"], feeds), strict=True))

    time = np.arange(7 * module.PIECE) / module.RATE
    tone = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 20)) * np.sin(2 * np.pi * 3 * time) / 4
    sound = tone.astype(np.float32)
    model = fg.load(file)
    found, expected = (list(module.probabilities(who, sound)) for who in (model, Peer()))
    assert len(found) == 7 and max(expected) > 2 * min(expected)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert max(module.probabilities(model, np.zeros_like(sound))) < 0.1


def test_embeddings_are_those_of_onnxruntime() -> None:
    module = example("embed")
    session = pytest.importorskip("onnxruntime").InferenceSession(encoder())
    sentences = [[5, 9, 2], [5, 9, 2, 31, 7, 8], list(range(1, 20))]
    found = module.embed(fg.load(encoder()), sentences)
    for vector, tokens in zip(found, sentences, strict=True):
        alone = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), np.int64)}
        (tokenwise,) = session.run(None, alone)
        mean = tokenwise[0].mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)
    assert found[0] @ found[1] < 0.999


def test_a_custom_operator_is_numpys() -> None:
    found, expected = example("gate").main()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells of code, one after the other; with nbclient where it is installed."""
    monkeypatch.chdir(tmp_path)
    file = EXAMPLES / "digits.ipynb"
    book = json.loads(file.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in book["cells"]), "outputs are not committed"
    if all(importlib.util.find_spec(name) for name in ("nbclient", "nbformat", "ipykernel")):
        import nbclient
        import nbformat

        done = nbclient.NotebookClient(nbformat.reads(file.read_text(encoding="utf-8"), 4), timeout=60).execute()
        said = "".join(str(cell.get("outputs")) for cell in done.cells)
        assert "of 454" in said
        return
    names: dict[str, object] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "digits.ipynb", "exec"), names)
    assert names["right"] > 440  # type: ignore[operator]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run(path: Path) -> None:
    told = path.read_text(encoding="utf-8").split('"""')[1]
    assert "pip install" in told and f"python {path.name}" in told


@pytest.mark.slow
def test_an_example_runs_as_a_command() -> None:
    assert "largest difference from NumPy" in python(EXAMPLES / "gate.py")


@pytest.mark.slow
def test_ray_classifies_all_images() -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    try:
        rows = example("ray_batch").classified(actors=1)
    finally:
        ray.shutdown()
    right = [np.argmax(row["probabilities"]) == row["label"] for row in rows]
    assert len(right) == 454 and np.mean(right) >= 0.99

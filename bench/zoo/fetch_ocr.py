"""Fetch PP-OCR's trained networks, which take images of any size: they ship in a package (Apache-2.0).

    python bench/zoo/fetch_ocr.py FOLDER

Writes FOLDER/rapidocr-onnxruntime/*.onnx: detection [1, 3, h, w] of multiples of 32, recognition [1, 3, 48, w].
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "rapidocr-onnxruntime"


def main(folder: Path) -> None:
    (folder / PACKAGE).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
        subprocess.run([*pip, f"{PACKAGE}==1.4.4"], check=True)
        (wheel,) = Path(place).iterdir()
        with zipfile.ZipFile(wheel) as files:
            for name in files.namelist():
                if name.endswith(".onnx"):
                    path = folder / PACKAGE / Path(name).name
                    path.write_bytes(files.read(name))
                    print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

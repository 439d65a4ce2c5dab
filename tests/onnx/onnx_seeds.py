"""Small ONNX models to damage."""

import os
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from tests.blocks import BLOCKS
from tests.nets import Net

BIGGEST_SEED = 16 << 10


LAYERS: dict[str, list[tuple[int, ...]]] = {
    "LayerNormalization": [(4, 16), (16,), (16,)],
    "Gemm": [(3, 8), (8, 5), (5,)],
    "BatchNormalization": [(1, 6, 4, 4), *[(6,)] * 4],
    "PRelu": [(1, 6, 4, 4), (6, 1, 1)],
    "Conv": [(1, 6, 9, 9), (8, 6, 3, 3), (8,)],
    "ConvTranspose": [(1, 6, 5, 5), (6, 4, 3, 3), (4,)],
}


def own_seeds() -> list[bytes]:
    """Blocks of real networks, and layers whose parameters are constants, quantized too."""
    found = []
    for build in BLOCKS.values():
        net = Net()
        build(net)
        found.append(net.bytes())
    for op, shapes in LAYERS.items():
        net = Net(21)
        x = net.input("x", shapes[0])
        net.output(net(op, x, *(net.weight(*shape) for shape in shapes[1:])))
        found.append(net.bytes())
    net = Net(21)
    x, s, z = net.input("x", (1, 4, 6, 6)), net.const(np.array(0.05, np.float32)), net.const(np.array(128, np.uint8))
    w = net.const(np.ones((6, 4, 3, 3), np.int8))
    d = net("DequantizeLinear", net("QuantizeLinear", x, s, z), s, z)
    v = net("DequantizeLinear", w, np.full(6, 0.1, np.float32), np.zeros(6, np.int8), axis=0)
    net.output(net("DequantizeLinear", net("QuantizeLinear", net("Conv", d, v), s, z), s, z))
    return [*found, net.bytes()]


@cache
def seeds() -> list[bytes]:
    """Our own, then the onnx package's node cases, which are kept in the folder for temporary files."""
    kept = Path(tempfile.gettempdir()) / f"fastgraph-fuzz-{onnx.__version__}-{os.getuid()}.zip"
    if not kept.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.loader import load_model_tests

            cases = [case.model.SerializeToString(deterministic=True) for case in load_model_tests(kind="node")]
        part = kept.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for i, data in enumerate(cases):
                if len(data) <= BIGGEST_SEED:
                    archive.writestr(str(i), data)
        part.rename(kept)
    with zipfile.ZipFile(kept) as archive:
        cases = [archive.read(name) for name in archive.namelist()]
    own = own_seeds()
    return own * (len(cases) // len(own) // 2) + cases

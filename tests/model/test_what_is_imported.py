"""What a load with a warm cache imports: no compiler, no formats and operators that the graph has not."""

import json
from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.kernels.isa.tiers import usable
from tests.circle.write import Model as Tflite
from tests.nets import Net
from tests.processes import python

SCRIPT = """
import json, sys
import numpy as np
before = set(sys.modules)
import fastgraph as fg
model = fg.load(sys.argv[1], isa=sys.argv[2])
model.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs})
print(json.dumps(sorted(set(sys.modules) - before)))
"""

TIER = [tier.name for tier in usable() if not tier.tiles][-1]

MOST = 197
"""Modules of fastgraph: each takes a tenth of a millisecond, and more where it makes classes."""

UNUSED = [
    "ops.attention", "extras", "ops.resize", "plan.search", "plan.reach", "kernels.amx.pick_amx",
    "kernels.core.build", "kernels.lang", "kernels.move.resize_tables", "objects.workers", "tools", "demo",
    "passes.decompositions.attention", "passes.attention", "passes.quantized.integer_product", "passes.norms",
    "passes.decompositions.normalizations", "passes.decompositions.open_weights", "passes.decompositions.phases",
    "passes.decompositions.small_maps",
    "passes.bodies", "passes.decompositions.blocks", "kernels.attention",
    "kernels.recurrent",
]  # fmt: skip
"""What neither of the networks has a use for."""


def floats() -> bytes:
    """Convolutions, one of them depthwise, clamps, the mean of an image, a classifier."""
    net = Net()
    y = net("Relu", net("Conv", net.input("x", (1, 3, 16, 16)), net.weight(8, 3, 3, 3), pads=[1, 1, 1, 1]))
    y = net("Clip", net("Conv", y, net.weight(8, 1, 3, 3), group=8), 0.0, 6.0)
    y = net("Flatten", net("GlobalAveragePool", y))
    net.output(net("Softmax", net("Gemm", y, net.weight(4, 8), transB=1)))
    return net.bytes()


def integers() -> bytes:
    """The same on bytes, of TensorFlow Lite."""
    m, rng, q = Tflite(), np.random.default_rng(0), (0.05, -3)
    x = m.input((1, 16, 16, 4), np.int8, q)
    w = m.const(rng.integers(-99, 99, (8, 3, 3, 4)).astype(np.int8), (rng.uniform(0.001, 0.01, 8), [0] * 8, 0))
    d = m.const(rng.integers(-99, 99, (1, 3, 3, 8)).astype(np.int8), (rng.uniform(0.001, 0.01, 8), [0] * 8, 3))
    same = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
    (y,) = m.op("CONV_2D", [x, w, None], [((1, 16, 16, 8), np.int8, q)], **same)
    (y,) = m.op("DEPTHWISE_CONV_2D", [y, d, None], [((1, 16, 16, 8), np.int8, q)], depth_multiplier=1, **same)
    (y,) = m.op("MEAN", [y, m.const(np.int32([1, 2]))], [((1, 8), np.int8, q)])
    c = m.const(rng.integers(-99, 99, (4, 8)).astype(np.int8), (0.01, 0))
    (y,) = m.op("FULLY_CONNECTED", [y, c, None], [((1, 4), np.int8, q)])
    return m.bytes(m.op("SOFTMAX", [y], [((1, 4), np.int8, (1 / 256, -128))], beta=1.0))


def imported(path: Path, **env: str) -> set[str]:
    """The modules that a process imports to load a file and run it once, on a tier without tiles: with them, layers ask
    for each whether tiles suit it."""
    return set(json.loads(python("-c", SCRIPT, path, TIER, **{"FASTGRAPH_CHECK": None, **env})))


@pytest.mark.parametrize(("name", "net", "format"), [("m.onnx", floats(), "onnx"), ("m.tflite", integers(), "circle")])
def test_a_warm_load_imports_what_it_needs(tmp_path: Path, name: str, net: bytes, format: str) -> None:
    path = tmp_path / name
    path.write_bytes(net)
    model = fg.load(path, isa=TIER)  # its kernels are kept from here on
    model.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs})
    modules = imported(path)
    own = {module for module in modules if module.partition(".")[0] == "fastgraph"}
    assert not {module.partition(".")[0] for module in modules} & {"numba", "llvmlite", "onnx", "ml_dtypes", "random"}
    assert not {"dataclasses", "google.protobuf.text_format", "google.protobuf.descriptor_pool"} & modules
    unused = {f"fastgraph.{module}" for module in UNUSED} & own
    assert not unused, unused
    formats = {module.split(".")[2] for module in own if module.startswith("fastgraph.frontends.")}
    assert formats & {"onnx", "circle", "mil"} == {format}
    assert len(own) <= MOST, sorted(own)


def test_a_second_load_of_a_small_file_imports_neither_openssl_nor_pathlib(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(integers())
    imported(path, FASTGRAPH_PLAN_CACHE="1GiB")
    modules = imported(path, FASTGRAPH_PLAN_CACHE="1GiB")
    assert not {"fastgraph.compile", "fastgraph.objects.toolchain", "_hashlib", "pathlib", "urllib"} & modules

"""The models that choose between six products of bf16, Winograd and multiply-adds, beside what was measured."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.kernels.gemm.pick_conv import Geometry, pixels_together, plain_cycles, widened
from fastgraph.kernels.gemm.pick_winograd import GAIN, best_winograd, reading_times
from fastgraph.kernels.isa import tiers
from fastgraph.plan.lower.gemm.layer_amx import ROUNDED, SAVED, is_large, times
from fastgraph.plan.program import Step
from tests.amx_trap import loads_amx
from tests.kernels.geometries import square
from tests.kernels.test_amx_real import dense, needs_bf16
from tests.nets import Net, assert_close, by_onnxruntime, feeds_for

AMX = tiers.BY_NAME["amx"]

MEASURED: dict[str, tuple[Geometry, bool]] = {
    "1x1 56px 64->64": (square(64, 64, 56, 1), False),
    "1x1 56px 64->128": (square(64, 128, 56, 1), True),
    "1x1 56px 192->32": (square(192, 32, 56, 1), False),
    "1x1 56px 56->120, between products in vectors": (square(56, 120, 56, 1), False),
    "1x1 28px 120->80": (square(120, 80, 28, 1), False),
    "1x1 56px 256->64": (square(256, 64, 56, 1), True),
    "1x1 28px 128->512": (square(128, 512, 28, 1), True),
    "1x1 14px 1024->256": (square(1024, 256, 14, 1), True),
    "3x3/2 56px 128": (square(128, 128, 56, 3, 2, 1), True),
    "3x3 14px 256, where Winograd is of 2": (square(256, 256, 14, 3, 1, 1), True),
    "3x3 56px 64, where Winograd is of 4": (square(64, 64, 56, 3, 1, 1), False),
    "3x3 28px 128, where Winograd is of 4": (square(128, 128, 28, 3, 1, 1), False),
    "3x3 7px 512": (square(512, 512, 7, 3, 1, 1), False),
    "3x3/2 28px 512->64, whose weights leave the cache": (square(512, 64, 28, 3, 2, 1), False),
    "3x3 28px 8->32, whose lines are short": (square(8, 32, 28, 3, 1, 1), True),
    "7x7 28px 32": (square(32, 32, 28, 7, 1, 3), True),
    "1x1 7px 512->2048": (square(512, 2048, 7, 1), False),
    "dense 16 x 768 x 768": (dense(16, 768, 768), False),
    "dense 49 x 768 x 3072": (dense(49, 3072, 768), False),
    "dense 49 x 384 x 384": (dense(49, 384, 384), True),
    "bert 128 x 384 x 384": (dense(128, 384, 384), True),
    "bert 128 x 1536 x 384": (dense(128, 384, 1536), True),
    "convnext 3136 x 96 x 384": (dense(3136, 384, 96), True),
    "1x1 112px 16->96": (square(16, 96, 112, 1), False),
    "classifier": (dense(1, 1000, 2048), False),
}
"""Layers, and whether six products are to compute them."""


@pytest.mark.parametrize("name", MEASURED)
def test_the_faster_one_is_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgraph.plan.lower.gemm.layer_amx.level_two", lambda: 2 << 20)
    g, faster = MEASURED[name]
    others = reading_times(plain_cycles(AMX, g), g.k * g.n)[0]
    winograd = best_winograd(AMX, g)
    if winograd is not None:
        others = min(others, GAIN * winograd[2][0])
    assert (is_large(g, 3) and times((3, "bf16"), g)[0] < others) == faster


OF_FEW: dict[str, tuple[Geometry, bool]] = {
    "1x1 80px 8->160": (square(8, 160, 80, 1), True),
    "1x1 32px 12->256": (square(12, 256, 32, 1), True),
    "1x1 80px 3->32": (square(3, 32, 80, 1), True),
    "1x1 40px 4->24": (square(4, 24, 40, 1), True),
    "1x1 56px 8->16": (square(8, 16, 56, 1), True),
    "1x1 56px 13->40": (square(13, 40, 56, 1), True),
    "1x1 56px 16->8": (square(16, 8, 56, 1), True),
    "1x1 14px 12->64": (square(12, 64, 14, 1), True),
    "3x3 56px 1->32": (square(1, 32, 56, 3, 1, 1), True),
    "1x1 56px 4->4": (square(4, 4, 56, 1), False),
    "1x1 56px 3->3": (square(3, 3, 56, 1), False),
}
"""Layers of few channels in bfloat16, and whether tiles, whose results have half the bytes, are to compute them."""


@pytest.mark.parametrize("name", OF_FEW)
def test_layers_of_few_channels_are_tiles_of_bf16(name: str) -> None:
    g, faster = OF_FEW[name]
    others = plain_cycles(AMX, widened(g, pixels_together(AMX, g)))
    saved = SAVED * g.images * g.out[1] * g.out[2] * g.n
    assert (times(ROUNDED, g)[0] - saved < others) == faster


@loads_amx
@needs_bf16
@pytest.mark.parametrize(("n", "fed"), [(1, "dot_few"), (4, "dot_few"), (12, "amx_real")])
def test_layers_of_few_outputs_in_bfloat16(n: int, fed: str) -> None:
    """Sums along rows of what is fed; what a layer of bfloat16 made is read in place by tiles."""
    net = Net()
    x = net.input("x", (200, 96))
    between = net("Relu", net("Add", net("MatMul", x, net.weight(96, 128)), net.weight(128)))
    for value, k in ((x, 96), (between, 128)):
        net.output(net("Add", net("MatMul", value, net.weight(k, n)), net.weight(n)))
    models = [fg.load(net.bytes(), threads=threads, precision="bfloat16", isa=AMX.name) for threads in (1, 2, 3)]
    steps = [step for step in models[0].plan.program.steps if isinstance(step, Step)]
    last = [step.kernel.name for step in steps if step.node.out.type.dims == (200, n)]
    assert sorted(last) == sorted(["amx_real", fed])
    feeds = feeds_for(models[0])
    one, *others = [list(model.run(feeds).values()) for model in models]
    assert_close(one, by_onnxruntime(net.bytes(), feeds), 3e-2)
    assert all(np.array_equal(x, y) for other in others for x, y in zip(one, other, strict=True))

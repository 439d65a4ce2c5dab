"""What fuzzing found, in its smallest form: such models are refused, or run as the references do, without warnings."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.frontends import read
from fastgraph.ops.evaluate import evaluate
from tests.nets import F32, Net

FOUND: dict[str, Callable[[Net], None]] = {}


def found(build: Callable[[Net], None]) -> Callable[[Net], None]:
    FOUND[build.__name__] = build
    return build


@found
def axes_in_a_scalar(net: Net) -> None:
    net.output(net("ReduceSum", net.input("x", (2, 3, 4)), 1))


@found
def axes_in_a_matrix(net: Net) -> None:
    net.output(net("ReduceMax", net("Relu", net.input("x", (2, 3, 4))), [[1], [2]]))


@found
def blocks_of_a_row(net: Net) -> None:
    net.output(net("DepthToSpace", net.input("x", (1, 8, 5)), blocksize=2))


@found
def blocks_of_a_volume(net: Net) -> None:
    net.output(net("SpaceToDepth", net.input("x", (1, 2, 4, 4, 4)), blocksize=2))


@found
def a_variance_below_zero(net: Net) -> None:
    x = net("Conv", net.input("x", (1, 2, 3, 3)), net.weight(2, 2, 1, 1))
    net.output(net("BatchNormalization", x, *(np.full(2, v, F32) for v in (1, 0, 0, -1))))


@found
def limits_that_are_rows(net: Net) -> None:
    low = net.const(np.array([0, 1, 0.5], F32))
    net.output(net("Clip", net("Neg", net.input("x", (2, 3))), low))


@found
def infinities_where_the_shape_hangs_on_data(net: Net) -> None:
    x = net.input("x", (4, 3))
    rows = net("Compress", x, [True, False, True, True], axis=0)
    weights = net.const(np.array([[np.inf], [-np.inf], [0]], F32))
    chosen = net("Greater", net.input("c", (2,)), F32.type(0))
    net.output(net("MatMul", net("Compress", rows, chosen, axis=0), weights))


@found
def stored_numbers_of_no_known_shape(net: Net) -> None:
    kept = net("Compress", net.input("x", (4, 3)), [True, False, True, True], axis=0)
    stored = net("Cast", kept, to=2)
    net.output(net("DequantizeLinear", stored, 0.5, np.array(3, np.uint8)))


@found
def global_pools_without_spatial_axes(net: Net) -> None:
    x = net.input("x", (2, 3))
    net.output(net("GlobalMaxPool", x), net("GlobalAveragePool", x))


@found
def a_resize_to_many_images_without_pixels(net: Net) -> None:
    x = net.input("x", (1, 1, 4, 4))
    net.output(net("Resize", x, "", "", [1 << 20, 0, 3, 0], mode="cubic", antialias=1))


@found
def norms_over_nothing(net: Net) -> None:
    x = net.input("x", (2, 0))
    net.output(net("LayerNormalization", x, net.weight(0)), net("ReduceMean", x))


@pytest.mark.parametrize("name", FOUND)
def test_found_by_fuzzing(name: str) -> None:
    net = Net(18 if name in ("axes_in_a_matrix", "a_resize_to_many_images_without_pixels") else 17)
    FOUND[name](net)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            graph = read(net.bytes())
            rng = np.random.default_rng(0)
            feeds = {v.name: rng.uniform(0, 2, v.type.dims).astype(F32) for v in graph.inputs}
            with np.errstate(all="ignore"):
                wanted = evaluate(graph, feeds)
            got = net.load().run(feeds)
        except fg.ModelError:
            return
    assert not warned, warned[0]
    for one, other in zip(got.values(), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
